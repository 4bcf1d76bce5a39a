"""What whole texts cost a decoder, however long: windows that overlap, every token scored once."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from t5x_like.batch import Batch
from t5x_like.evaluation.scorer import Asker
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.text.metrics.perplexity import TextCost, cost_of, windows

_DEFAULT_LENGTH = 1024


class _Piece(NamedTuple):
    """A window of one text: what is read, what follows each of it, and from where that is scored."""

    text: int
    inputs: np.ndarray
    targets: np.ndarray
    scored_from: int


def measure_texts(
    model: Checkpoint,
    texts: Sequence[str],
    *,
    length: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
) -> list[TextCost]:
    """The cost of each text: windows of ``length`` tokens, each ``stride`` (half of that) after the one before.

    Texts begin with the id that begins or ends the model's texts, so that their first token is scored too; where a
    vocabulary has neither, it isn't.

    Raises:
      ValueError: not a decoder, a window that the model can't read, or a stride that leaves tokens out.
    """
    if model.kind != "decoder":
        raise ValueError(
            f"perplexity is a decoder's: this is an {model.kind.replace('_', '-')}, which reads and writes apart"
        )
    most = model.max_positions or length or _DEFAULT_LENGTH
    length = min(most, _DEFAULT_LENGTH) if length is None else length
    if length > most:
        raise ValueError(f"windows of {length} tokens are longer than the {most} positions of the model")
    stride = max(length // 2, 1) if stride is None else stride
    asker = Asker(model, batch_size=batch_size, length=length)
    nats, tokens = np.zeros(len(texts)), np.zeros(len(texts), int)
    pieces = _pieces(model, texts, length=length, stride=stride)
    while batch := list(islice(pieces, batch_size)):
        costs = asker.score_batch(_batch(batch, batch_size, length))
        for piece, cost in zip(batch, costs.tolist(), strict=False):
            nats[piece.text] -= cost
            tokens[piece.text] += len(piece.targets) - piece.scored_from
    return [
        cost_of(text, float(cost), int(count)) for text, cost, count in zip(texts, nats, tokens, strict=True)
    ]


def _pieces(model: Checkpoint, texts: Iterable[str], *, length: int, stride: int) -> Iterator[_Piece]:
    begin = [model.begin_id] if model.begin_id is not None else list(model.end_ids[:1])
    for number, text in enumerate(texts):
        ids = np.array([*begin, *model.tokenizer.encode(text)], np.int32)
        # Each input has the token after it as its target, so there is one less than tokens.
        for window in windows(len(ids) - 1, length=length, stride=stride):
            yield _Piece(
                number,
                ids[window.start : window.end],
                ids[window.start + 1 : window.end + 1],
                window.scored_from - window.start,
            )


def _batch(pieces: Sequence[_Piece], batch_size: int, length: int) -> Batch:
    inputs, targets, real = (np.zeros((batch_size, length), np.int32) for _ in range(3))
    weights = np.zeros((batch_size, length), np.float32)
    real[:, 0] = 1
    for row, piece in enumerate(pieces):
        number = len(piece.inputs)
        inputs[row, :number], targets[row, :number], real[row, :number] = piece.inputs, piece.targets, 1
        weights[row, piece.scored_from : number] = 1.0
    return Batch(
        decoder_input_tokens=inputs, decoder_segment_ids=real, target_tokens=targets, loss_weights=weights
    )
