"""Differences between a pretrained model's parts and those of the model that begins with its weights, in words."""

import dataclasses
from collections.abc import Collection
from typing import Any

from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.stack import StackConfig

# Fields that don't change what a stack or block of trained weights computes.
_FREE = frozenset(
    {
        *("blocks", "cross_attention", "encoded_dim", "dropout_rate", "output_dropout", "init"),
        *("remat", "scan_layers", "attention_implementation"),
    }
)
_FREE_EMBEDDINGS = frozenset({"vocab_size", "pad_vocab_to_multiple_of", "stddev"})
_FREE_TYPES = frozenset({"num_token_types", "num_task_types", "positions"})


def differences_of_sizes(read: Any, model: Any, stack: StackConfig | None = None) -> list[str]:
    """Return the sizes of vocabularies and widths that differ, in words.

    Args:
      read: Configuration of the pretrained model.
      model: Configuration of the model to train.
      stack: Its stack that the weights are for, where widths of stacks differ.
    """
    width = model.model_dim if stack is None else stack.model_dim
    lines = []
    if read.vocab_size > model.vocab_size:
        lines.append(f"it has {read.vocab_size:,} ids of a vocabulary, the model {model.vocab_size:,}")
    if read.model_dim != width:
        lines.append(f"its width is {read.model_dim}, the model's {width} (model_dim)")
    return lines


def differences_of_embeddings(
    read: EmbeddingsConfig, own: EmbeddingsConfig, stack: str, *, exact: bool = True
) -> list[str]:
    """Return the parts of embeddings that differ, in words.

    Args:
      read: Embeddings of the pretrained model.
      own: Embeddings of the model to train.
      stack: Name of its stack that reads them.
      exact: Positions and token types must be the same; otherwise the first positions suffice, and token type 0.
    """
    what = f"the {stack}'s embeddings"
    if exact:
        return _differing(read, own, _FREE_EMBEDDINGS, what)
    lines = _differing(read, own, _FREE_EMBEDDINGS | _FREE_TYPES, what)
    if (read.positions is None) != (own.positions is None):
        lines.append(f"only one of it and the {stack} has learned positions")
    if read.positions is not None and own.positions is not None:
        has, needed = read.positions.max_position_embeddings, own.positions.max_position_embeddings
        if needed > has:
            lines.append(f"it has {has} positions, the {stack} {needed} (max_position_embeddings)")
    if read.num_task_types or own.num_token_types:
        lines.append("types of tasks or of the model's own tokens have no place in the other")
    return lines


def differences_of_stack(
    read: StackConfig, own: StackConfig, stack: str, *, num_layers: str = "", turned: bool = False
) -> list[str]:
    """Return the parts of stacks that differ, in words.

    Args:
      read: Stack of the pretrained model.
      own: Stack of the model to train.
      stack: Its name.
      num_layers: Name of the field that has the number of its layers.
      turned: One of the two reads in both directions, and the other in one.
    """
    if len(read.blocks) != len(own.blocks):
        field = num_layers or f"num_{stack}_layers"
        return [f"it has {len(read.blocks)} layers, the {stack} {len(own.blocks)} ({field})"]
    lines = _differing(read, own, _FREE, f"the {stack}'s stack")
    pairs = set[tuple[BlockConfig, BlockConfig]](zip(read.blocks, own.blocks, strict=True))
    for pair in pairs:
        first, second = (_with_defaults(block) for block in pair)
        if turned and _reach_equally_far(first.attention.window, second.attention.window):
            attention = dataclasses.replace(second.attention, window=first.attention.window)
            second = dataclasses.replace(second, attention=attention)
        lines += _differing(first, second, _FREE, f"the {stack}'s layers")
    if read.layer_pattern != own.layer_pattern and not lines:
        lines.append(
            f"its layers differ from each other, and those of the {stack} are stacked in another way"
        )
    return lines


def differences_of_output(read: HeadsConfig, own: HeadsConfig) -> list[str]:
    """Return the parts of output layers over the vocabulary that differ, in words; one of the two may have none.

    Args:
      read: Heads of the pretrained model.
      own: Heads of the model to train.
    """
    if read.lm_head is None or own.lm_head is None:
        return []
    lines = _differing(read.lm_head, own.lm_head, {"tie_word_embeddings"}, "the model's output layer")
    if own.lm_head.tie_word_embeddings and not read.lm_head.tie_word_embeddings:
        lines.append(
            "it has an output layer of its own, and the model scores with its word table (tie_word_embeddings)"
        )
    return lines


def _reach_equally_far(read: SlidingWindow | None, own: SlidingWindow | None) -> bool:
    """Return whether windows before a token, and on both its sides, are as wide; the token itself counts or not."""
    if read is None or own is None:
        return False
    both, one = (read, own) if read.right else (own, read)
    return both.left == both.right and one.right == 0 and both.left in (one.left, one.left + 1)


def _with_defaults(block: BlockConfig) -> BlockConfig:
    """Return a block whose attention has numbers in place of defaults."""
    attention = block.attention
    if not isinstance(attention, AttentionConfig):
        return block
    return dataclasses.replace(
        block, attention=dataclasses.replace(attention, num_kv_heads=attention.kv_heads)
    )


def _differing(read: Any, own: Any, free: Collection[str], what: str, path: str = "") -> list[str]:
    """Return a line for each field of two configurations of one class that differs, except those that may."""
    lines = []
    for field in dataclasses.fields(read):
        there, here = getattr(read, field.name), getattr(own, field.name)
        if field.name in free or there == here:
            continue
        name = f"{path}{field.name}"
        if type(there) is type(here) and dataclasses.is_dataclass(there):
            lines += _differing(there, here, (), what, f"{name}.")
        else:
            lines.append(f"{name} is {there} there and {here} in {what}")
    return lines
