"""Tasks of published models: their Hugging Face classes and their heads."""

from collections.abc import Mapping
from typing import Any, Literal

from t5x_like.model.heads import HeadsConfig, LMHeadConfig, ScoreHeadConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.model_traits import ModelTask, ProblemType
from t5x_like.model.zoo.weights import Weight, module_rows

# Tasks whose models generate text.
GENERATIVE_TASKS: tuple[ModelTask, ...] = ("causal_lm", "sequence_to_sequence_lm", "speech_to_text")

# Tasks without a head, whose published names have no prefix.
HEADLESS_TASKS: tuple[ModelTask, ...] = ("base", "encoding")

# Tasks for which an encoder-decoder needs no decoder.
ENCODER_ONLY_TASKS: tuple[ModelTask, ...] = ("encoding", "token_classification")

# Tasks with one label for a whole sequence.
SEQUENCE_TASKS: tuple[ModelTask, ...] = ("sequence_classification", "multiple_choice")

# Tasks of the heads that any model can be fine-tuned with.
HEAD_TASKS: tuple[ModelTask, ...] = (*SEQUENCE_TASKS, "token_classification", "question_answering", "cloze")

_PROBLEM_TYPES: dict[str, ProblemType] = {
    "single_label_classification": "single_label",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}


def task_of(config: Mapping[str, Any], classes: Mapping[str, ModelTask], default: ModelTask) -> ModelTask:
    """Return the task of the class that ``architectures`` of a ``config.json`` names.

    Args:
      config: Fields of the file.
      classes: Tasks by names of transformers' classes.
      default: Task where the file names no class.

    Raises:
      ValueError: The class is not among ``classes``.
    """
    names = config.get("architectures") or ()
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise ValueError(f"config.json: no head for {', '.join(unknown)}; there are {', '.join(classes)}")
    return classes[names[0]] if names else default


def class_of(task: ModelTask, classes: Mapping[str, ModelTask]) -> str:
    """Return the first class for a task: the inverse of ``task_of``.

    Args:
      task: Task of the model.
      classes: Tasks by the names of transformers' classes.

    Raises:
      ValueError: There is none.
    """
    return classes_for(task, classes)[0]


def classes_for(task: ModelTask, classes: Mapping[str, ModelTask]) -> list[str]:
    """Return the classes for a task.

    A cloze is written as the language model that it was trained from, whose weights it has. An encoder without its
    pooler is written as the class that has one.

    Args:
      task: Task of the model.
      classes: Tasks by the names of transformers' classes.

    Raises:
      ValueError: There is none.
    """
    others: dict[ModelTask, tuple[ModelTask, ...]] = {
        "cloze": ("masked_lm", "causal_lm"),
        "encoding": ("base",),
    }
    names = [name for name, does in classes.items() if does == task]
    names = names or [name for name, does in classes.items() if does in others.get(task, ())]
    if not names:
        raise ValueError(
            f"transformers has no class of this model for the task {task!r}; there are {', '.join(classes)}"
        )
    return names


def read_labels(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return our ``num_labels`` and ``problem_type`` from a ``config.json``.

    Without classes in the file there are 2, as in transformers. Without a problem type it is ``None``, which infers it
    from the labels.

    Raises:
      ValueError: The problem type is not known.
    """
    labels, problem_type = config.get("id2label"), config.get("problem_type")
    if problem_type is not None and problem_type not in _PROBLEM_TYPES:
        raise ValueError(
            f"config.json: problem_type is {problem_type!r}; it is one of {', '.join(_PROBLEM_TYPES)}"
        )
    return {
        "num_labels": len(labels) if labels else config.get("num_labels") or 2,
        "problem_type": None if problem_type is None else _PROBLEM_TYPES[problem_type],
    }


def label_fields(num_labels: int, problem_type: ProblemType | None) -> dict[str, object]:
    """Return the fields of a ``config.json`` that ``read_labels`` reads.

    Args:
      num_labels: Number of outputs.
      problem_type: Type of the labels; None for a head without one.
    """
    named = next((name for name, own in _PROBLEM_TYPES.items() if own == problem_type), None)
    return {"num_labels": num_labels, "problem_type": named}


def classifier_dropout_of(config: Any) -> float:
    """Return the dropout rate before class scores: ``classifier_dropout_rate``, or ``dropout_rate`` without one."""
    rate = config.classifier_dropout_rate
    return config.dropout_rate if rate is None else rate


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
    """Return the heads that any stack can be fine-tuned with (Devlin et al. 2019, §4), or ``None`` for other tasks.

    Args:
      task: Sequence classification and multiple choice read the pooled sequence, token classification and question
        answering read each token.
      num_labels: Classes; multiple choice has one score, question answering two.
      pooler: Pools a sequence to one vector.
      of_pooled: Layer between pooled sequence and scores.
      of_tokens: Layer between tokens and scores.
      pooled_bias: Scores of pooled sequences have a bias.
      dropout_rate: Dropout before the scores.
    """
    num_outputs = {
        "sequence_classification": num_labels,
        "multiple_choice": 1,
        "token_classification": num_labels,
        "question_answering": 2,
    }
    if task not in num_outputs:
        return None
    is_pooled = task in SEQUENCE_TASKS
    scores = ScoreHeadConfig(
        name=task,
        input="pooled" if is_pooled else "tokens",
        num_outputs=num_outputs[task],
        transform=of_pooled if is_pooled else of_tokens,
        bias=pooled_bias if is_pooled else True,
        dropout_rate=dropout_rate,
    )
    return HeadsConfig(pooler=pooler if is_pooled else None, scores=(scores,))


def heads_for(
    task: ModelTask,
    *,
    num_labels: int,
    lm_head: LMHeadConfig,
    pooler: PoolerConfig | None,
    pair: Literal["next_sentence", "sentence_order"] = "next_sentence",
    dropout_rate: float = 0.0,
    qa_dropout_rate: float = 0.0,
) -> HeadsConfig:
    """Return the heads of an encoder that pools its first token as BERT does.

    Args:
      task: Selects the heads.
      num_labels: Classes, for tasks that have classes.
      lm_head: Head over the vocabulary.
      pooler: Pools the first token.
      pair: Pretraining task on sentence pairs.
      dropout_rate: Dropout before scores, except those of question answering.
      qa_dropout_rate: Dropout before the scores of question answering.

    Raises:
      ValueError: The task is not one of an encoder's.
    """
    if task in ("next_sentence", "pretraining"):
        scores = (ScoreHeadConfig(name=pair, input="pooled", num_outputs=2),)
        return HeadsConfig(lm_head=lm_head if task == "pretraining" else None, pooler=pooler, scores=scores)
    rate = qa_dropout_rate if task == "question_answering" else dropout_rate
    heads = scoring_heads(task, num_labels=num_labels, pooler=pooler, dropout_rate=rate)
    if heads is not None:
        return heads
    if task == "base":
        return HeadsConfig(pooler=pooler)
    if task == "encoding":
        return HeadsConfig()
    if task in ("masked_lm", "cloze"):
        return HeadsConfig(lm_head=lm_head, cloze=task == "cloze")
    raise ValueError(f"this encoder has no head for the task {task!r}")


def encoder_decoder_heads(
    task: ModelTask, *, num_labels: int, model_dim: int, lm_head: LMHeadConfig, model: str
) -> HeadsConfig:
    """Return the heads of an encoder-decoder, whose decoder reads the input again to classify it.

    Sequence classification reads the decoder's state of the last token (Lewis et al. 2020, §3.1), question answering
    that of every token.

    Args:
      task: Selects the heads.
      num_labels: Classes, for tasks that have classes.
      model_dim: Width of the layer before sequence scores.
      lm_head: Head over the vocabulary.
      model: Name of the architecture, for the message.

    Raises:
      ValueError: The task is not one of an encoder-decoder's.
    """
    if task == "sequence_to_sequence_lm":
        return HeadsConfig(lm_head=lm_head)
    if task == "base":
        return HeadsConfig()
    transform = TransformConfig(dim=model_dim, activation="tanh")
    heads = scoring_heads(
        task, num_labels=num_labels, pooler=PoolerConfig(pooling="last"), of_pooled=transform
    )
    if heads is None:
        raise ValueError(f"{model} has no head for the task {task!r}")
    return heads


def score_rows(heads: HeadsConfig, names: Mapping[str, str], default: str = "classifier") -> list[Weight]:
    """Return the rows of score projections.

    Args:
      heads: Heads of the model.
      names: Published name of the projection by head.
      default: Published name for other heads.
    """
    return [
        row
        for head in heads.scores
        for row in module_rows(
            {f"heads/scores/{head.name}/projection": names.get(head.name, default)}, bias=head.bias
        )
    ]


def encoder_decoder_score_rows(heads: HeadsConfig) -> list[Weight]:
    """Return the rows of score heads under the names of BART's classes, which T5's share."""
    names, rows = {"question_answering": "qa_outputs"}, []
    for head in heads.scores:
        if head.input == "pooled":
            hf_name = "classification_head" if head.name == "sequence_classification" else "choice_head"
            names[head.name] = f"{hf_name}.out_proj"
            rows += module_rows({f"heads/scores/{head.name}/transform/dense": f"{hf_name}.dense"})
    return [*rows, *score_rows(heads, names)]
