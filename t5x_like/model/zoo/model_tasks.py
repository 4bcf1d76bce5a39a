"""Tasks of published models: their Hugging Face classes, and the heads that they take."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from t5x_like.model.heads import HeadsConfig, PoolerConfig, ScoresConfig, TransformConfig, WordsConfig
from t5x_like.model.zoo.weights import Weight, dense

ModelTask: TypeAlias = Literal[
    "base",  # no head
    "encoding",  # no head, and of an encoder-decoder the encoder alone
    "masked_lm",
    "pretraining",  # words, and next sentence or sentence order
    "next_sentence",
    "causal_lm",
    "sequence_to_sequence_lm",
    "sequence_classification",  # regression with one label
    "multiple_choice",
    "token_classification",
    "question_answering",
    "replaced_tokens",  # ELECTRA's discriminator
]

# Tasks whose models generate text.
GENERATIVE_TASKS: tuple[ModelTask, ...] = ("causal_lm", "sequence_to_sequence_lm")

# Tasks for which an encoder-decoder needs no decoder.
ENCODER_ONLY_TASKS: tuple[ModelTask, ...] = ("encoding", "token_classification")

# Tasks with one label for a whole sequence.
SEQUENCE_TASKS: tuple[ModelTask, ...] = ("sequence_classification", "multiple_choice")

ProblemType: TypeAlias = Literal["single_label", "multi_label", "regression"]

_PROBLEM_TYPES: dict[str, ProblemType] = {
    "single_label_classification": "single_label",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}


def task_of(config: Mapping[str, Any], classes: Mapping[str, ModelTask], default: ModelTask) -> ModelTask:
    """The task of the class that ``architectures`` of a ``config.json`` names, or the default where it names none.

    Raises:
      ValueError: a class that is not among ``classes``.
    """
    names = config.get("architectures") or ()
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise ValueError(f"config.json: no head for {', '.join(unknown)}; there are {', '.join(classes)}")
    return classes[names[0]] if names else default


def class_of(task: ModelTask, classes: Mapping[str, ModelTask]) -> str:
    """The first class that does ``task``: the inverse of ``task_of``.

    Raises:
      ValueError: there is none.
    """
    names = [name for name, does in classes.items() if does == task]
    if not names:
        raise ValueError(
            f"transformers has no class of this model for the task {task!r}; there are {', '.join(classes)}"
        )
    return names[0]


def num_labels_of(config: Mapping[str, Any]) -> int:
    """The number of classes in a ``config.json``: 2 where it has none, as in transformers."""
    if config.get("id2label"):
        return len(config["id2label"])
    return config.get("num_labels") or 2


def problem_type_of(config: Mapping[str, Any]) -> ProblemType | None:
    """The type of labels in a ``config.json``; ``None`` infers it from the labels."""
    problem = config.get("problem_type")
    if problem is not None and problem not in _PROBLEM_TYPES:
        raise ValueError(
            f"config.json: problem_type is {problem!r}; it is one of {', '.join(_PROBLEM_TYPES)}"
        )
    return None if problem is None else _PROBLEM_TYPES[problem]


def label_fields(num_labels: int, problem_type: ProblemType | None) -> dict[str, Any]:
    """The fields of a ``config.json`` that ``num_labels_of`` and ``problem_type_of`` read."""
    named = next((name for name, ours in _PROBLEM_TYPES.items() if ours == problem_type), None)
    return {"num_labels": num_labels, "problem_type": named}


def classifier_dropout_of(config: Any) -> float:
    """The rate before the scores of classes: the model's own where none is given for them, as in transformers."""
    given = config.classifier_dropout_rate
    return config.dropout_rate if given is None else given


def scoring_heads(
    task: ModelTask,
    *,
    num_labels: int,
    pooler: PoolerConfig | None,
    of_pooled: TransformConfig | None = None,
    of_tokens: TransformConfig | None = None,
    pooled_bias: bool = True,
    dropout_rate: float = 0.0,
) -> HeadsConfig | None:
    """Heads for what any stack can be fine-tuned to (Devlin et al. 2019, §4), or ``None`` for other tasks.

    Classes of sequences and choices among them read what ``pooler`` gives, classes of tokens and both ends of answers
    read tokens. ``of_pooled`` and ``of_tokens`` are layers between, ``dropout_rate`` is of what scores are made of.
    """
    known = {
        "sequence_classification": ("sequence_classification", num_labels),
        "multiple_choice": ("multiple_choice", 1),
        "token_classification": ("token_classification", num_labels),
        "question_answering": ("question_answering", 2),
    }
    if task not in known:
        return None
    name, num_outputs = known[task]
    is_pooled = task in SEQUENCE_TASKS
    scores = ScoresConfig(
        name=name,
        input="pooled" if is_pooled else "tokens",
        num_outputs=num_outputs,
        transform=of_pooled if is_pooled else of_tokens,
        bias=pooled_bias if is_pooled else True,
        dropout_rate=dropout_rate,
    )
    return HeadsConfig(pooler=pooler if is_pooled else None, scores=(scores,))


def heads_for(
    task: ModelTask,
    *,
    num_labels: int,
    words: WordsConfig,
    pooler: PoolerConfig | None,
    pair: Literal["next_sentence", "sentence_order"] = "next_sentence",
    dropout_rate: float = 0.0,
    qa_dropout_rate: float = 0.0,
) -> HeadsConfig:
    """The heads of an encoder that pools its first token as BERT does.

    ``dropout_rate`` applies to the classifier's input. Question answering has a rate of its own.

    Raises:
      ValueError: the task is not one of an encoder's.
    """
    if task in ("next_sentence", "pretraining"):
        scores = (ScoresConfig(name=pair, input="pooled", num_outputs=2),)
        return HeadsConfig(words=words if task == "pretraining" else None, pooler=pooler, scores=scores)
    rate = qa_dropout_rate if task == "question_answering" else dropout_rate
    heads = scoring_heads(task, num_labels=num_labels, pooler=pooler, dropout_rate=rate)
    if heads is not None:
        return heads
    if task == "base":
        return HeadsConfig(pooler=pooler)
    if task == "masked_lm":
        return HeadsConfig(words=words)
    raise ValueError(f"this encoder has no head for the task {task!r}")


def encoder_decoder_score_rows(heads: HeadsConfig) -> list[Weight]:
    """The heads for classes, choices and answers, under the names of BART's classes, which T5's have too."""
    rows = []
    for scores in heads.scores:
        ours = f"heads/scores/{scores.name}"
        if scores.input == "pooled":
            theirs = "classification_head" if scores.name == "sequence_classification" else "choice_head"
            rows += dense(f"{ours}/transform/dense", f"{theirs}.dense")
            rows += dense(f"{ours}/projection", f"{theirs}.out_proj")
        else:
            rows += dense(
                f"{ours}/projection", "qa_outputs" if scores.name == "question_answering" else "classifier"
            )
    return rows
