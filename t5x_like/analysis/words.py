"""States of words, which may be several tokens each, and the division of texts into those to train and to test on."""

from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from t5x_like.analysis.analysis import Row
from t5x_like.analysis.text_activations import TextActivations, hidden_states_name, map_ids, token_limit
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.text.heads.row_cells import column_of
from t5x_like.text.heads.token_head import cell_words, listed_cell
from t5x_like.text.heads.token_spans import encode_words
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

Pieces: TypeAlias = Literal["first", "mean"]


class EncodedWords(NamedTuple):
    """Token ids of a text of W words, of which the last may be cut off.

    Attributes:
      ids: Token ids with the special ones, int32 [L].
      starts: Position of the first token of each whole word, [W].
      ends: Position after its last token, [W].
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Split(NamedTuple):
    """Texts to train and to test on.

    Attributes:
      train: Indices of texts, in a random order.
      test: Indices of other texts.
    """

    train: np.ndarray
    test: np.ndarray


def words_in(rows: Sequence[Row], column: str) -> list[tuple[str, ...]]:
    """Return the words of each row: a list, or a text with spaces between words.

    Args:
      rows: Rows of a table.
      column: Name of the column.

    Raises:
      ValueError: There is no row, a row has no such column, or no words in it.
    """
    if not rows:
        raise ValueError("there are no texts; give at least one")
    texts = []
    for index, row in enumerate(rows, start=1):
        try:
            words = cell_words(column_of(row, column), column)
        except ValueError as error:
            raise ValueError(f"row {index}: {error}") from None
        if not words:
            raise ValueError(f"row {index} has no words in the column {column!r}")
        texts.append(words)
    return texts


def values_of_words(
    rows: Sequence[Row], column: str, words: Sequence[Sequence[str]]
) -> list[tuple[object, ...]]:
    """Return a column with a value for each word.

    Args:
      rows: Rows of a table.
      column: Name of the column.
      words: Words of each row.

    Raises:
      ValueError: A row has no such column, or not as many values as words.
    """
    texts = []
    for index, (row, text) in enumerate(zip(rows, words, strict=True), start=1):
        try:
            values = tuple(listed_cell(column_of(row, column)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"row {index}: {error}") from None
        if len(values) != len(text):
            raise ValueError(
                f"row {index} has {len(text)} words and {len(values)} values in the column {column!r}; "
                "give one for each word"
            )
        texts.append(values)
    return texts


def encode_texts_of_words(
    model: Pretrained, texts: Sequence[Sequence[str]], max_length: int | None
) -> list[EncodedWords]:
    """Tokenize each word by itself, as for tags of words.

    Args:
      model: Model with its tokenizer.
      texts: Words of each text.
      max_length: Number of tokens to cut texts to; ``None`` for as many as the model reads.

    Raises:
      ValueError: The model has no tokenizer, or no word fits into ``max_length``.
    """
    encoder = model.checkpoint.prompt_encoder
    tokenizer, before = model.checkpoint.tokenizer, len(encoder.prefix_ids)
    unknown = ids_of(tokenizer).unk
    limit = token_limit(model, max_length)
    room = None if limit is None else limit - before - len(encoder.suffix_ids)
    encoded = []
    for index, words in enumerate(encode_words(tokenizer, texts, unknown or 0), start=1):
        sizes = np.cumsum([len(word) for word in words])
        kept = sizes if room is None else sizes[sizes <= room]
        if not len(kept):
            raise ValueError(
                f"the first word of row {index} does not fit into {limit} tokens; raise max_length"
            )
        ids = [token_id for word in words for token_id in word][: kept[-1]]
        starts = before + np.concatenate([[0], kept[:-1]])
        encoded.append(EncodedWords(np.array(encoder.with_special_ids(ids), np.int32), starts, before + kept))
    return encoded


def states_of_words(
    model: Pretrained,
    texts: Sequence[EncodedWords],
    pieces: Pieces,
    layers: Sequence[int] = (),
    *,
    batch_size: int = 16,
) -> list[np.ndarray]:
    """Return the states of each text's words by layer, float32 [N, W, D].

    Args:
      model: Model.
      texts: Tokenized texts.
      pieces: A word is the state of its first token, or the mean of all.
      layers: Layers to return; all if empty.
      batch_size: Number of texts that the model reads at once.

    Raises:
      ValueError: There is no such layer.
    """
    name = hidden_states_name(model)

    def of_words(text: TextActivations) -> np.ndarray:
        states = with_layers(text.activations[name], layers)
        words = texts[text.index]
        if pieces == "first":
            return states[:, words.starts]
        sums = np.cumsum(states, axis=1, dtype=np.float64)
        sums = np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1)
        means = (sums[:, words.ends] - sums[:, words.starts]) / (words.ends - words.starts)[:, None]
        return means.astype(np.float32)

    ids = [text.ids for text in texts]
    return map_ids(model, ids, name, of_words, batch_size=batch_size, shown=True)


def with_layers(states: np.ndarray, layers: Sequence[int]) -> np.ndarray:
    """Return some layers of hidden states [N + 1, L, D].

    Args:
      states: Hidden states of all layers.
      layers: Numbers of layers; all if empty.

    Raises:
      ValueError: There is no such layer.
    """
    bad = [layer for layer in layers if not 0 <= layer < len(states)]
    if bad:
        raise ValueError(
            f"there is no layer {bad[0]}; layers are 0, the input of the first, to {len(states) - 1}, the last output"
        )
    return states[list(layers)] if layers else states


def split_texts(keys: Sequence[Hashable], test_share: float, num_texts: int, seed: int) -> Split:
    """Divide texts at random into those to train and to test on; equal texts are on one side.

    Args:
      keys: A key of each text, equal for equal texts.
      test_share: Share of the texts to test on.
      num_texts: Number of different texts to draw; 0 for all.
      seed: Seed of the draw.

    Raises:
      ValueError: There are fewer than two different texts.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    if len(groups) < 2:
        raise ValueError(
            "a probe is tested on other texts than it learns from; give at least two different texts"
        )
    members = list(groups.values())
    order = np.random.default_rng(seed).permutation(len(members))[: num_texts or None]
    size = min(max(round(test_share * len(order)), 1), len(order) - 1)
    sides = (order[size:], order[:size])
    return Split(*(np.array([index for group in side for index in members[group]]) for side in sides))
