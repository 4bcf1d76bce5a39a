"""Heads, class names and weight tables that published decoders share."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    scoring_heads,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, padded_rows, per_layer


def decoder_classes(name: str, *, answers: bool = True) -> dict[str, ModelTask]:
    """The classes of transformers that a decoder comes in; some have none for ``answers`` to questions."""
    answering: dict[str, ModelTask] = {f"{name}ForQuestionAnswering": "question_answering"}
    return {
        f"{name}ForCausalLM": "causal_lm",
        f"{name}ForSequenceClassification": "sequence_classification",
        f"{name}ForTokenClassification": "token_classification",
        **(answering if answers else {}),
        f"{name}Model": "base",
    }


def heads_of_decoder(task: ModelTask, num_labels: int, words: WordsConfig) -> HeadsConfig:
    """The heads of a decoder. Classes of sequences and choices read the last real token.

    Raises:
      ValueError: the task is not one of a decoder's.
    """
    if task == "causal_lm":
        return HeadsConfig(words=words)
    if task == "base":
        return HeadsConfig()
    heads = scoring_heads(task, num_labels=num_labels, pooler=PoolerConfig(pooling="last"), pooled_bias=False)
    if heads is None:
        raise ValueError(f"this decoder has no head for the task {task!r}")
    return heads


def decoder_rows(
    decoder: DecoderConfig, layer: Iterable[Weight], *, answering: str = "model."
) -> tuple[Weight, ...]:
    """All weights, given those of one layer. ``answering`` begins names in the class that answers questions."""
    words = padded_rows(decoder.embeddings.vocab_size, decoder.embeddings.padded_vocab_size)
    head = decoder.heads.words
    tied = head is not None and head.tie_word_embeddings
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
    layer, slots = list(layer), stack.layer_pattern.slots
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
    if attention.qk_norm is not None:
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
