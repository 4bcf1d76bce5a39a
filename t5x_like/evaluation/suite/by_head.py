"""One task answered by a fine-tuned encoder's head, and scored: the rows and the entry that the other ways give."""

import hashlib
from dataclasses import replace

from t5x_like.evaluation.heads import HeadEvaluation, HeadEvaluator
from t5x_like.evaluation.suite.loaded_model import LoadedModel
from t5x_like.evaluation.suite.recording import Row
from t5x_like.evaluation.suite.scoring import Entry, counts, score
from t5x_like.evaluation.suite.settings import SuiteRun
from t5x_like.text.tasks import registry
from t5x_like.text.tasks.pairs import PairsTask


def answer_by_head(
    model: LoadedModel, definition: PairsTask, run: SuiteRun, *, length: int
) -> tuple[list[Row], Entry]:
    """All rows of the split, in order, and the task's entry in ``scores.json``.

    Raises:
      ValueError: the model lacks the head that the task needs, or the task has no form for one.
    """
    name = _registered(definition)
    evaluation = HeadEvaluation(
        mixture=name,
        inputs_length=length,
        split=run.split,
        batch_size=run.batch_size,
        limit=run.limit,
    )
    try:
        evaluator = HeadEvaluator(evaluation, model.graphdef, model.mesh)
        result = evaluator.run(model.params)[name]
    except ValueError as error:  # users know the task by its own name only
        raise ValueError(str(error).replace(name, definition.name)) from None
    questions = evaluator.questions(name)
    labelled = [number for number, row in enumerate(result.rows) if row["target"] is not None]
    entry = score(
        questions.metrics,
        questions.targets,
        [result.rows[number]["answer"] for number in labelled],
        resamples=run.resamples,
    )
    rows = [{**row, "task": definition.name, "number": number} for number, row in enumerate(result.rows)]
    return rows, entry | counts(run.split, rows, num_labelled=len(labelled)) | {
        "baseline": dict(result.baseline),
        "invalid": 0,
        "labels": list(getattr(questions.form, "classes", ())),
        "cut_inputs": int(questions.examples.num_cut),
    }


def _registered(definition: PairsTask) -> str:
    """The name under which evaluation by heads finds it: its own, unless another vocabulary's task has that already."""
    known = registry.definition(definition.name)
    if known not in (None, definition):
        words = hashlib.sha256(f"{definition.vocabulary} {definition!r}".encode()).hexdigest()[:8]
        definition = replace(definition, name=f"{definition.name}_{words}")
    registry.register([definition])  # pyright: ignore[reportArgumentType] - it is one of those that are known
    return definition.name
