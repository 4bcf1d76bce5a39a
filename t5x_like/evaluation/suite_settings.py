"""One evaluation as a frozen value: which checkpoint, which tasks, asked how, written where."""

import hashlib
from dataclasses import asdict, field
from typing import Any, Literal, get_args

from t5x_like.config_class import config_class
from t5x_like.evaluation.prompts import PromptStyle
from t5x_like.evaluation.questions import are_texts
from t5x_like.evaluation.text_answers import Normalization
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.checkpoint import Kind
from t5x_like.text.benchmarks.suites import SUITES
from t5x_like.text.tasks.pairs import PairsTask

Method = Literal["generate", "rank", "head", "measure"]

_SETTINGS_THAT_DECIDE = (
    "split",
    "method",
    "num_shots",
    "shot_seed",
    "inputs_length",
    "max_new_tokens",
    "num_beams",
    "length_penalty",
    "normalization",
    "style",
    "limit",
    "on_bad_row",
)


@config_class
class SuiteEvaluation:
    """A checkpoint, the tasks it is evaluated on, and the settings; in gin ``suite_settings.SuiteEvaluation``.

    ``method``: "generate" writes answers word by word; "rank" takes the likeliest of a task's answers; "head" is what a
    fine-tuned encoder's head says; "measure" is what texts cost, of tasks of perplexity only. Where not given,
    encoders use their head, decoders rank where answers are known, and everything else writes, as T5 does.
    ``normalization`` divides likelihoods of ranked answers by their length.

    ``inputs_length`` is what the model can read, at most 512 for encoders and 2,048 for decoders, where not given.
    ``max_new_tokens`` is what the longest of a task's answers takes, or 64.

    ``skip_missing`` leaves out tasks whose files are not there, or that the model has no head for. ``on_bad_row`` is
    what tasks do with rows that can't be read, "fail" or "skip"; as each task says, where not given. ``classes`` names
    those of a head, in the order of its scores, where its own files don't.
    """

    checkpoint: str
    tasks: tuple[str, ...]
    output_dir: str
    split: str = "validation"
    method: Method | None = None
    num_shots: int = 0
    shot_seed: int = 0
    inputs_length: int | None = None
    max_new_tokens: int | None = None
    num_beams: int = 1
    length_penalty: float = 0.6
    normalization: Normalization = "none"
    style: PromptStyle | None = None
    batch_size: int = 32
    limit: int | None = None
    skip_missing: bool = False
    on_bad_row: Literal["fail", "skip"] | None = None
    resamples: int = 1000
    vocabulary: str = ""
    num_sentinels: int | None = None  # as the model was trained
    classes: tuple[str, ...] = ()
    data_dir: str | None = None
    step: int | None = None
    mesh: MeshConfig = field(default_factory=MeshConfig)

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ValueError("no tasks to evaluate; name some, or one of the suites: " + ", ".join(SUITES))
        if len(set(self.tasks)) < len(self.tasks):
            raise ValueError(f"a task is named twice among {', '.join(self.tasks)}")
        if self.method is not None and self.method not in get_args(Method):
            raise ValueError(f"method is {self.method!r}; it is one of {', '.join(get_args(Method))}")
        if self.normalization not in get_args(Normalization):
            raise ValueError(
                f"normalization is {self.normalization!r}; it is one of {', '.join(get_args(Normalization))}"
            )
        for name in ("batch_size", "inputs_length", "max_new_tokens", "num_beams", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; give at least 1")
        if self.num_shots < 0:
            raise ValueError(f"num_shots is {self.num_shots}; give 0 or more")
        if self.on_bad_row not in (None, "fail", "skip"):
            raise ValueError(f"on_bad_row is {self.on_bad_row!r}; it is fail or skip")
        if self.resamples == 1 or self.resamples < 0:
            raise ValueError(f"resamples is {self.resamples}; give at least 2, or 0 for no intervals")

    def deciding(self) -> dict[str, Any]:
        """The settings that answers depend on, as JSON has them, and a hash of them."""
        settings = {name: getattr(self, name) for name in _SETTINGS_THAT_DECIDE}
        settings |= {"style": self.style and asdict(self.style), "tasks": list(self.tasks)}
        given = {"vocabulary": self.vocabulary, "classes": list(self.classes)}
        settings |= {name: value for name, value in given.items() if value}
        digest = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:12]
        tasks = settings.pop("tasks")
        return {**settings, "task_names": tasks, "settings_hash": digest}


def method_for(
    definition: PairsTask, kind: Kind, *, asked: Method | None, num_shots: int, checkpoint: str
) -> Method:
    """The method by which one task is answered; ``asked`` is the user's, if any.

    Raises:
      ValueError: the model or the task can't do what is asked for.
    """
    name = definition.name
    if are_texts(definition):
        if kind != "decoder":
            raise ValueError(f"task {name!r} measures texts, which needs a decoder; {checkpoint} is none")
        if asked not in (None, "measure") or num_shots:
            raise ValueError(f"task {name!r} measures texts: leave --method and --num_shots out")
        return "measure"
    if asked == "measure":
        raise ValueError(f"task {name!r} has questions to be answered, not texts to measure")
    usual: Method = "rank" if kind == "decoder" and definition.answers else "generate"
    method = asked or ("head" if kind == "encoder" else usual)
    if kind == "encoder" and method != "head":
        raise ValueError(
            f"{checkpoint} is an encoder, which writes nothing: --method {method} needs a decoder; fine-tune a "
            "head and use --method head"
        )
    if method == "rank" and not definition.answers:
        raise ValueError(
            f"task {name!r} has open answers, there is nothing to rank; use --method generate for it"
        )
    return method
