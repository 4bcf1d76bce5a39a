"""What Llama and the decoders after it share: one pre-norm stack, its heads, and the names of its weights."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.masks import Window
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.hugging_face import HuggingFaceFields
from t5x_like.model.zoo.rope import rope_fields, take_rope
from t5x_like.model.zoo.tasks import Task, class_of, num_labels_of, problem_of, scoring_heads, task_of
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, padded_rows, per_layer

# Where norms stand, by the names that Llama's code gave them.
PRE_NORMS = {
    "around_self_attention/before": "input_layernorm",
    "around_feed_forward/before": "post_attention_layernorm",
}


def classes_of(name: str, *, answers: bool = True) -> dict[str, Task]:
    """The classes of transformers that a decoder comes in; some have none for ``answers`` to questions."""
    answering: dict[str, Task] = {f"{name}ForQuestionAnswering": "question_answering"}
    return {
        f"{name}ForCausalLM": "causal_lm",
        f"{name}ForSequenceClassification": "sequence_classification",
        f"{name}ForTokenClassification": "token_classification",
        **(answering if answers else {}),
        f"{name}Model": "base",
    }


def heads_of_decoder(task: Task, num_labels: int, words: WordsConfig) -> HeadsConfig:
    """Words, or classes and choices that the last real token tells, or classes and answers of tokens, or nothing.

    Raises:
      ValueError: the task is not one of a decoder's.
    """
    if task == "causal_lm":
        return HeadsConfig(words=words)
    if task == "base":
        return HeadsConfig()
    heads = scoring_heads(task, num_labels=num_labels, pooler=PoolerConfig(takes="last"), pooled_bias=False)
    if heads is None:
        raise ValueError(f"this decoder has no head for the task {task!r}")
    return heads


def take_common(
    config: Mapping[str, Any],
    fields: HuggingFaceFields,
    classes: Mapping[str, Task],
    *,
    num_positions: int,
    tied: bool = False,
    norm_epsilon: float = 1e-6,
) -> dict[str, Any]:
    """What configurations of all these decoders have, with transformers' defaults for this one."""
    fields.ignore("attention_dropout")
    num_positions = fields.take("max_position_embeddings", num_positions)
    return {
        "vocab_size": fields.take("vocab_size"),
        "model_dim": fields.take("hidden_size"),
        "mlp_dim": fields.take("intermediate_size"),
        "num_heads": fields.take("num_attention_heads"),
        "num_layers": fields.take("num_hidden_layers"),
        "num_positions": num_positions,
        "norm_epsilon": fields.take("rms_norm_eps", norm_epsilon),
        "tied": fields.take("tie_word_embeddings", tied),
        "task": task_of(config, classes, "base"),
        "num_labels": num_labels_of(config),
        "problem": problem_of(config),
    }


def take_kv_heads(config: Mapping[str, Any], fields: HuggingFaceFields, default: int | None) -> int:
    """As many as queries where it is null; where it is absent, by default too, but some have a number of their own."""
    num_heads = fields.take("num_attention_heads")
    absent = "num_key_value_heads" not in config
    return fields.take("num_key_value_heads", default if absent and default is not None else num_heads)


def take_rotation(fields: HuggingFaceFields, num_positions: int) -> dict[str, Any]:
    """The rotation of all layers and all dimensions."""
    rope = take_rope(fields, num_positions=num_positions)
    return {"theta": rope.theta, "scaling": rope.scaling}


def common_fields(config: Any, classes: Mapping[str, Task], model_type: str) -> dict[str, Any]:
    """What ``take_common``, ``take_kv_heads`` and ``take_rotation`` have read, as fields of a ``config.json``."""
    return {
        "architectures": [class_of(config.task, classes)],
        "attention_dropout": 0.0,
        "hidden_size": config.model_dim,
        "intermediate_size": config.mlp_dim,
        "max_position_embeddings": config.num_positions,
        "model_type": model_type,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_layers,
        "num_key_value_heads": config.num_kv_heads or config.num_heads,
        "num_labels": config.num_labels,
        "pad_token_id": 0,
        "rms_norm_eps": config.norm_epsilon,
        **rope_fields(config.theta, config.scaling),
        "tie_word_embeddings": config.tied,
        "torch_dtype": "float32",
        "vocab_size": config.vocab_size,
    }


def head_dim_field(head_dim: int | None) -> dict[str, int]:
    """Left out where it is the usual part: versions of transformers before 4.45 don't know the field."""
    return {} if head_dim is None else {"head_dim": head_dim}


def take_late_windows(
    config: Mapping[str, Any], fields: HuggingFaceFields, num_layers: int
) -> dict[str, Any]:
    """Qwen's: layers from ``max_window_layers`` on see ``sliding_window`` tokens, if ``use_sliding_window`` says so."""
    window = fields.take("sliding_window", None if "sliding_window" in config else 4096)
    windowed_from = min(fields.take("max_window_layers", 28), num_layers)
    if not fields.take("use_sliding_window", False) or window is None or windowed_from == num_layers:
        window, windowed_from = None, num_layers
    num_windowed = num_layers - windowed_from
    fields.must_be("layer_types", ["full_attention"] * windowed_from + ["sliding_attention"] * num_windowed)
    return {"window": window, "windowed_from": windowed_from if num_windowed else 0}


def late_window_fields(window: int | None, windowed_from: int) -> dict[str, Any]:
    """The inverse of ``take_late_windows``."""
    return {
        "max_window_layers": windowed_from,
        "sliding_window": window,
        "use_sliding_window": window is not None,
    }


def sliding(window: int | None) -> Window | None:
    """Of ``window`` tokens, the last is the query's own."""
    return None if window is None else Window(before=window - 1)


def pre_norm_rows(
    decoder: DecoderConfig, *, mlp_bias: bool = False, answering: str = "model."
) -> tuple[Weight, ...]:
    """All weights of a model with Llama's two norms a layer; ``answering`` as in ``decoder_rows``."""
    attention = decoder.stack.blocks[0].attention
    layer = [*norm_rows(PRE_NORMS), *attention_rows(attention), *feed_forward_rows(bias=mlp_bias)]
    return decoder_rows(decoder, layer, answering=answering)


def decoder_rows(
    decoder: DecoderConfig, layer: Iterable[Weight], *, answering: str = "model."
) -> tuple[Weight, ...]:
    """All weights, given those of one layer. ``answering`` is what stands before the stack's in answers' class."""
    words = padded_rows(decoder.embeddings.vocab_size, decoder.embeddings.padded_vocab_size)
    head = decoder.heads.words
    tied = head is not None and head.tied
    embedding = "embedding/tokens/table", "model.embed_tokens.weight", words
    table = [
        Weight(*embedding, copies=("lm_head.weight",) if tied else ()),
        *stack_rows("decoder", decoder.stack, layer),
        Weight("decoder/final_norm/scale", "model.norm.weight"),
    ]
    if head is not None and not tied:
        table.append(Weight("heads/words/projection/kernel", "lm_head.weight", words.then(TRANSPOSED)))
    table += score_rows(decoder.heads)
    if not any(scores.name == "question_answering" for scores in decoder.heads.scores):
        return tuple(table)
    return tuple(row._replace(theirs=re.sub(r"^model\.", answering, row.theirs)) for row in table)


def score_rows(heads: HeadsConfig, *, of_tokens: str = "score") -> list[Weight]:
    """The heads for classes, choices and answers; ``of_tokens`` is transformers' name where tokens have classes."""
    names = {
        "sequence_classification": "score",
        "multiple_choice": "choice",
        "token_classification": of_tokens,
        "question_answering": "qa_outputs",
    }
    return [
        row
        for scores in heads.scores
        for row in projection(f"heads/scores/{scores.name}/projection", names[scores.name], bias=scores.bias)
    ]


def stack_rows(
    name: Literal["encoder", "decoder"], stack: StackConfig, layer: Iterable[Weight]
) -> list[Weight]:
    """The rows of one layer for all layers, whichever slot of the stack they lie in."""
    layer, slots = list(layer), stack.layout.slots
    return [
        row for slot, layers in enumerate(slots) for row in per_layer(f"{name}/layers/{slot}", layers, layer)
    ]


def norm_rows(names: Mapping[str, str]) -> list[Weight]:
    """The scales of norms."""
    return [
        Weight(f"{ours}/scale", f"model.layers.{{layer}}.{theirs}.weight") for ours, theirs in names.items()
    ]


def attention_rows(attention: AttentionConfig) -> list[Weight]:
    """Queries, keys, values and the way back."""
    theirs = "model.layers.{layer}.self_attn"
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
    rows = [
        row
        for ours, name in names.items()
        for row in projection(f"self_attention/{ours}", f"{theirs}.{name}", bias=attention.in_bias)
    ]
    rows += projection("self_attention/out", f"{theirs}.o_proj", bias=attention.out_bias)
    if attention.query_key_norm is not None:
        rows += [
            Weight("self_attention/query_norm/scale", f"{theirs}.q_norm.weight"),
            Weight("self_attention/key_norm/scale", f"{theirs}.k_norm.weight"),
        ]
    return rows


def feed_forward_rows(*, bias: bool = False) -> list[Weight]:
    """The gated layer."""
    return [
        row
        for name in ("gate", "up", "down")
        for row in projection(f"feed_forward/{name}", f"model.layers.{{layer}}.mlp.{name}_proj", bias=bias)
    ]


def projection(ours: str, theirs: str, *, bias: bool = False) -> list[Weight]:
    """A linear layer of PyTorch's, with or without a bias."""
    rows = [Weight(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED)]
    return [*rows, Weight(f"{ours}/bias", f"{theirs}.bias")] if bias else rows
