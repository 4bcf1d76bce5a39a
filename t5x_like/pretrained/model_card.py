"""Model card of an export: ``README.md`` with the front matter that the Hugging Face Hub reads."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from t5x_like.io.files import PathLike, as_path, read_json, read_jsonl
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.pretrained.output_scale import scales_of_run
from t5x_like.pretrained.run_weights import was_trained_here
from t5x_like.text.heads.head_answers import OutputScale
from t5x_like.value_types import fits
from t5x_like.version import __version__

# The Hub's tasks; it has none for the others.
_PIPELINE_TAGS: Mapping[ModelTask, str] = {
    "base": "feature-extraction",
    "encoding": "feature-extraction",
    "masked_lm": "fill-mask",
    "causal_lm": "text-generation",
    "sequence_classification": "text-classification",
    "multiple_choice": "multiple-choice",
    "token_classification": "token-classification",
    "question_answering": "question-answering",
}
_SNAPSHOT = re.compile(r"models--([\w.-]+?)--([\w.-]+)/snapshots/")


class RecordedScore(NamedTuple):
    """Score in a run's ``metrics.jsonl``."""

    task: str
    metric: str
    step: int
    value: float


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Facts for a model card that the model itself doesn't have.

    Attributes:
      name: Title of the card.
      license: Identifier of the license on the Hub, such as ``apache-2.0``; ``unknown`` if not given.
      base_model: Model that training began with, a name on the Hub or of a directory; empty if there is none.
      mixture: Task or mixture of the training; empty if unknown.
      tasks: Names of all training tasks.
      steps: Number of training steps; ``None`` if unknown.
      scores: Newest scores of the training's evaluations.
      scales: Scales by task of standardized outputs; empty where outputs are the tasks' own numbers.
    """

    name: str = "Exported model"
    license: str = ""
    base_model: str = ""
    mixture: str = ""
    tasks: tuple[str, ...] = ()
    steps: int | None = None
    scores: tuple[RecordedScore, ...] = ()
    scales: Mapping[str, OutputScale] = field(default_factory=dict)

    def render(self, config: CommonConfig, fields: Mapping[str, Any], num_parameters: int) -> str:
        """Return the text of ``README.md``.

        Args:
          config: Configuration of the model.
          fields: Fields of the exported ``config.json``.
          num_parameters: Number of the exported weights' parameters.
        """
        model_type, classes = fields["model_type"], fields.get("architectures") or ["AutoModel"]
        tag = _PIPELINE_TAGS.get(config.task)
        lines = ["---", f"license: {json.dumps(self.license or 'unknown')}", "library_name: transformers"]
        lines += [f"pipeline_tag: {tag}"] if tag else []
        lines += [f"base_model: {json.dumps(self.base_model)}"] if "/" in self.base_model else []
        lines += ["tags:", "- t5x_like", f"- {json.dumps(model_type)}", "---", "", f"# {self.name}", ""]
        lines += [f"- Architecture: {model_type} (`{classes[0]}`)", f"- Parameters: {num_parameters:,}"]
        lines += [f"- Base model: {self.base_model}"] if self.base_model else []
        lines += [f"- License: {self.license or 'unknown'}", f"- Written by: t5x_like {__version__}"]
        if self.mixture:
            lines += ["", "## Training", "", f"- Data: `{self.mixture}`"]
            lines += [f"- Tasks: {', '.join(f'`{task}`' for task in self.tasks)}"] if self.tasks else []
            lines += [f"- Steps: {self.steps:,}"] if self.steps is not None else []
        if self.scores:
            lines += ["", "## Scores", "", "| task | metric | step | score |", "|---|---|---|---|"]
            lines += [
                f"| {task} | {metric} | {step:,} | {value:g} |" for task, metric, step, value in self.scores
            ]
        if self.scales:
            lines += ["", "## Scale", "", "Outputs are standardized. The task's own numbers are:", ""]
            lines += [
                f"- `{task}`: output * {scale.deviation!r} + {scale.mean!r}"
                for task, scale in self.scales.items()
            ]
        lines += ["", "## Use", "", "```python", f"from transformers import {classes[0]}", ""]
        lines += [f'model = {classes[0]}.from_pretrained("path/to/this/directory")', "```", ""]
        return "\n".join(lines)


def card_of(directory: PathLike, *, step: int | None = None, license: str = "") -> ModelCard:
    """Return the card of a checkpoint; of a run with the tasks, steps and scores that it recorded.

    Args:
      directory: Directory of a run, or what it or another model was read from.
      step: Step of the run; its newest if not given. Later scores are left out.
      license: Identifier of the license (see ``ModelCard``).
    """
    path = str(directory).rstrip("/")
    if not as_path(directory).exists():  # a model in memory
        return ModelCard(license=license)
    if not was_trained_here(directory):
        source = _model_name(path)
        return ModelCard(name=source.rpartition("/")[2], license=license, base_model=source)
    fields = read_json(as_path(directory) / "config.json", dict)
    named = (fields[name] for name in fields if re.fullmatch(r"tasks\.\d+\.name", name))
    start = fields.get("start_from")
    return ModelCard(
        name=_model_name(path),
        license=license,
        base_model=_model_name(start) if start else "",
        mixture=str(fields.get("train.mixture", "")),
        tasks=tuple(dict.fromkeys(map(str, named))),
        steps=fields.get("total_steps") if step is None else step,
        scores=_recorded_scores(directory, step),
        scales=scales_of_run(directory),
    )


def _model_name(path: str) -> str:
    """Return the Hub's name of a file in its cache, else the last part of a path."""
    path = path.rstrip("/")
    match = _SNAPSHOT.search(f"{path}/")
    return f"{match[1]}/{match[2]}" if match else path.rpartition("/")[2]


def _recorded_scores(directory: PathLike, step: int | None) -> tuple[RecordedScore, ...]:
    path = as_path(directory) / "metrics.jsonl"
    newest: dict[tuple[str, str], RecordedScore] = {}
    for line in read_jsonl(path) if path.exists() else ():
        kind, _, task = str(line["split"]).partition("/")
        is_of_weights = kind == "evaluation" and not task.endswith(
            "@average"
        )  # those are of averaged weights
        if not is_of_weights or (step is not None and line["step"] > step):
            continue
        for metric, value in line.items():
            if metric not in ("step", "split") and fits(value, float):
                newest[task, metric] = RecordedScore(task, metric, line["step"], float(value))
    return tuple(newest.values())
