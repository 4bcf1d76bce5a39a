"""Configuration of an evaluation on benchmarks."""

import hashlib
from collections.abc import Collection
from dataclasses import asdict, field
from typing import Literal, get_args

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.evaluation.evaluated_tasks import is_comparison_task, is_perplexity_task
from t5x_like.evaluation.prompts import PromptStyle
from t5x_like.evaluation.task_evaluators import Method
from t5x_like.evaluation.text_evaluator import Normalization
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.checkpoint import Kind
from t5x_like.text.benchmarks.suites import SUITES
from t5x_like.text.tasks.pairs import PairsTask

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

# Methods that read a setting.
_METHODS_OF_SETTINGS: dict[str, set[Method]] = {
    "num_shots": {"generate", "rank"},
    "style": {"generate", "rank"},
    "max_new_tokens": {"generate", "rank"},
    "num_beams": {"generate"},
    "normalization": {"rank"},
    "classes": {"head"},
}


@config_class
class SuiteEvaluation:
    """Evaluation of any checkpoint on benchmarks; in gin ``suite_settings.SuiteEvaluation``.

    Attributes:
      checkpoint: Run, Hugging Face directory, GGUF or T5X checkpoint.
      tasks: Names of the tasks.
      output_dir: Folder of the results.
      split: Split to evaluate.
      method: "generate" decodes an output text; "rank" predicts the most likely of a task's labels; "head" uses a
        fine-tuned head. By default encoders use their head, decoders rank if the labels are known, and all others
        generate, as T5 does. Perplexity ("measure") and pairs of texts ("compare") have a method of their own.
      num_shots: Solved examples in each prompt.
      shot_seed: Seed of their random choice.
      inputs_length: Tokens of an input; by default the model's positions, at most 512 for encoders and encoder-decoders
        and 2,048 for decoders.
      max_new_tokens: Tokens of a generated answer; by default the length of the task's longest label, or 64.
      num_beams: Width of the beam search; 1 is greedy.
      length_penalty: Exponent of the beam search's length penalty.
      normalization: Length that divides the log-likelihoods of ranked labels.
      style: Template of prompts; by default the input alone, with an answer marker for decoders unless the
        task's answers continue its inputs.
      batch_size: Examples in a batch.
      limit: Most rows to evaluate, the same sample of the split each time; all by default.
      skip_missing: Leave out tasks without files, or without a suitable head, instead of raising an error.
      on_bad_row: "fail" or "skip" for unreadable rows; by default each task's own setting.
      resamples: Bootstrap resamples of confidence intervals; 0 computes none.
      vocabulary: Vocabulary, if the checkpoint has none.
      num_sentinels: Sentinel ids of the vocabulary; by default those that the model was trained with.
      classes: Class names in the order of the head's outputs, if the checkpoint has none.
      data_dir: Folder of the benchmarks' files.
      step: Step of a run; its newest by default.
      mesh: Devices.
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
    num_sentinels: int | None = None
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
        if self.num_beams == 1:
            refuse_unused(self, "length_penalty", because="num_beams=1", advice="give more beams")

    def check_methods(self, methods: Collection[Method]) -> None:
        """Check that every setting has an effect on some task.

        Args:
          methods: Methods of the tasks.

        Raises:
          ValueError: A setting is for other methods.
        """
        for name, using in _METHODS_OF_SETTINGS.items():
            if methods and using.isdisjoint(methods):
                because = (
                    f"it is for method {' or '.join(sorted(using))}, and tasks have {', '.join(methods)}"
                )
                refuse_unused(self, name, because=because)

    def identity_settings(self) -> dict[str, object]:
        """Return the settings that predictions depend on, as JSON values, and their hash."""
        settings = {name: getattr(self, name) for name in _SETTINGS_THAT_DECIDE}
        settings |= {"style": self.style and asdict(self.style), "tasks": list(self.tasks)}
        optional = {"vocabulary": self.vocabulary, "classes": list(self.classes)}
        settings |= {name: value for name, value in optional.items() if value}
        digest = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:12]
        tasks = settings.pop("tasks")
        return {**settings, "task_names": tasks, "settings_hash": digest}


def method_for(
    definition: PairsTask,
    kind: Kind,
    *,
    can_generate: bool,
    scores_words: bool,
    requested: Method | None,
    num_shots: int,
    checkpoint: str,
) -> Method:
    """Choose the method for one task.

    Args:
      definition: The task.
      kind: Kind of the model.
      can_generate: The model was trained to write, and has no fine-tuned head.
      scores_words: The model has an output layer over the vocabulary, and no fine-tuned head.
      requested: Method that the user gave, if any.
      num_shots: Solved examples in each prompt.
      checkpoint: Name of the model, for messages.

    Raises:
      ValueError: The model or the task doesn't support the method.
    """
    name = definition.name
    if is_perplexity_task(definition):
        if kind != "decoder":
            raise ValueError(f"task {name!r} measures texts, which needs a decoder; {checkpoint} is none")
        if requested not in (None, "measure") or num_shots:
            raise ValueError(f"task {name!r} measures texts: leave method and num_shots out")
        return "measure"
    if is_comparison_task(definition):
        if not scores_words:
            raise ValueError(
                f"task {name!r} compares likelihoods of texts, which needs an output layer over the vocabulary; "
                f"{checkpoint} has none"
            )
        if requested not in (None, "compare") or num_shots:
            raise ValueError(f"task {name!r} compares texts: leave method and num_shots out")
        return "compare"
    if requested == "compare":
        raise ValueError(f"task {name!r} has questions to be answered, not texts to compare")
    if requested == "measure":
        raise ValueError(f"task {name!r} has questions to be answered, not texts to measure")
    usual: Method = "rank" if kind == "decoder" and definition.answers else "generate"
    method = requested or (usual if can_generate else "head")
    if not can_generate and method != "head":
        has = "an encoder" if kind == "encoder" else "a model with a fine-tuned head"
        raise ValueError(
            f"{checkpoint} is {has}, which writes nothing: method={method} needs a decoder, or an encoder that was "
            "trained to write (LoaderConfig.masked_targets); fine-tune a head and use method=head"
        )
    if method == "rank" and not definition.answers:
        raise ValueError(
            f"task {name!r} has open answers, there is nothing to rank; use method=generate for it"
        )
    return method
