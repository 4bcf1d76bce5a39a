"""A task of texts to measure: what each costs a decoder, as rows and scores like those of other tasks."""

from t5x_like.evaluation.prediction_log import Row
from t5x_like.evaluation.questions import Questions
from t5x_like.evaluation.scores import Entry, counts, score
from t5x_like.evaluation.suite_settings import SuiteRun
from t5x_like.evaluation.text_perplexity import measure_texts
from t5x_like.pretrained.checkpoint import Checkpoint


def measure_task(
    model: Checkpoint, questions: Questions, run: SuiteRun, *, length: int
) -> tuple[list[Row], Entry]:
    """The cost of each text, in windows of ``length`` tokens, and the task's entry in ``scores.json``."""
    texts = [row.targets for row in questions.rows]
    costs = measure_texts(model, texts, length=length, batch_size=run.batch_size)
    rows = [
        {"task": questions.task, "number": row.number, "text": row.targets, **cost._asdict()}
        for row, cost in zip(questions.rows, costs, strict=True)
    ]
    entry = score(questions.definition.metric_functions, texts, costs, resamples=run.resamples)
    return rows, entry | counts(questions.split, rows, num_labelled=len(rows)) | {"invalid": 0, "labels": []}
