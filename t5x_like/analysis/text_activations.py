"""Activations of texts, one text at a time, without padding."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from t5x_like.inference.length_batches import pad_prompts, round_length, run_by_length
from t5x_like.io.progress import Progress
from t5x_like.model.named_activations import HIDDEN_STATES, PROBABILITIES
from t5x_like.nested_values import one_or_several
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained

Result = TypeVar("Result")


class TextActivations(NamedTuple):
    """Activations of one text of L tokens.

    Attributes:
      index: Index of the text.
      ids: Its token ids, special tokens included, int32 [L].
      activations: Activations by name, with an axis of layers first: hidden states are [N + 1, L, D], attention
        weights [N, H, L, L].
    """

    index: int
    ids: np.ndarray
    activations: dict[str, np.ndarray]


def stack_of(model: Pretrained) -> str:
    """Return the name of the stack that reads texts: the encoder where there is one."""
    return "decoder" if model.checkpoint.family in ("decoder", "recurrent") else "encoder"


def hidden_states_name(model: Pretrained) -> str:
    """Return the name of the hidden states of the stack that reads texts."""
    return f"{stack_of(model)}/{HIDDEN_STATES}"


def map_texts(
    model: Pretrained,
    texts: Sequence[str],
    capture: str | Sequence[str],
    function: Callable[[TextActivations], Result],
    *,
    batch_size: int = 16,
    max_length: int | None = None,
    shown: bool = False,
) -> list[Result]:
    """Return the results of a function of each text's activations, in the order of the texts.

    Args:
      model: Model with its tokenizer.
      texts: Texts.
      capture: Names of activations, without patterns.
      function: Called once for each text.
      batch_size: Number of texts that the model reads at once.
      max_length: Number of tokens to cut texts to; ``None`` for as many as the model reads.
      shown: Show progress.

    Raises:
      ValueError: The model has no tokenizer, no such activation, or a text has no token.
    """
    limit = token_limit(model, max_length)
    ids = [model.encode(text, max_length=limit)["input_ids"][0] for text in texts]
    return map_ids(model, ids, capture, function, batch_size=batch_size, shown=shown)


def token_limit(model: Pretrained, max_length: int | None) -> int | None:
    """Return the number of tokens to cut texts to; ``None`` if nothing limits it.

    Args:
      model: Model, which may have a limit of its own.
      max_length: Limit that was asked for.
    """
    limits = (max_length, model.checkpoint.max_positions)
    return min((each for each in limits if each is not None), default=None)


def map_ids(
    model: Pretrained,
    ids: Sequence[np.ndarray],
    capture: str | Sequence[str],
    function: Callable[[TextActivations], Result],
    *,
    batch_size: int = 16,
    shown: bool = False,
) -> list[Result]:
    """Return the results of a function of the activations of token ids, in the order of the texts.

    Args:
      model: Model.
      ids: Token ids of each text with the special ones, int32 [L].
      capture: Names of activations, without patterns.
      function: Called once for each text.
      batch_size: Number of texts that the model reads at once.
      shown: Show progress.

    Raises:
      ValueError: The model has no such activation.
    """
    longest = token_limit(model, None)
    names = list(one_or_several(capture))
    with Progress("analyze", len(ids), "texts", shown=shown) as progress:

        def run(indices: list[int]) -> list[Result]:
            length = round_length(max(len(ids[index]) for index in indices), longest)
            tokens, mask = pad_prompts(
                [ids[index] for index in indices],
                length=length,
                batch_size=batch_size,
                fill=model.special_ids.fill,
            )
            captured = model.activations(tokens, names, attention_mask=mask)
            results = []
            for row, index in enumerate(indices):
                own = {name: _row(name, array[:, row], len(ids[index])) for name, array in captured.items()}
                results.append(function(TextActivations(index, ids[index], own)))
            progress.add(len(indices))
            return results

        return run_by_length([len(each) for each in ids], batch_size, run)


def _row(name: str, array: np.ndarray, length: int) -> np.ndarray:
    """Return an activation of one text without padding; the last axis but one is that of its tokens."""
    array = array[..., :length, :]
    return array[..., :length] if name.endswith(PROBABILITIES) else array
