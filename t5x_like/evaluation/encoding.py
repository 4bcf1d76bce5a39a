"""Prompts as token ids: what fits, what is cut, and batches of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.batch import Batch
from t5x_like.evaluation.prompts import Prompt, Prompter
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.text.batches.buckets import bucket_lengths

_ANSWER_MULTIPLE = 8  # answers are padded to this, so that few programs are compiled


class Encoded(NamedTuple):
    """A prompt that fits. ``cut`` tokens of the question and ``dropped`` examples before it did not."""

    ids: np.ndarray  # int32, special ids included
    text: str
    cut: int = 0
    dropped: int = 0


class Pair(NamedTuple):
    """A prompt and an answer to it, as ids."""

    prompt: np.ndarray
    answer: np.ndarray


def encode_prompts(
    model: Checkpoint, prompter: Prompter, prompts: Sequence[Prompt], *, length: int
) -> list[Encoded]:
    """Ids of at most ``length``. Examples go first, the farthest first; then the question loses its end.

    A decoder's question loses its beginning instead: its end asks for the answer.
    """
    texts = [prompter.write(prompt) for prompt in prompts]
    return [
        _fit(model, prompter, prompt, text, ids, length)
        for prompt, text, ids in zip(prompts, texts, model.tokenizer.encode_all(texts), strict=True)
    ]


def _fit(
    model: Checkpoint, prompter: Prompter, prompt: Prompt, text: str, ids: list[int], length: int
) -> Encoded:
    room = length - len(_around(model, []))
    shown = len(prompt.examples)
    while len(ids) > room and shown:
        shown -= 1
        text = prompter.write(prompt, shown)
        ids = model.tokenizer.encode(text)
    cut = max(len(ids) - room, 0)
    if cut:
        ids = ids[cut:] if model.kind == "decoder" else ids[:room]
    return Encoded(np.array(_around(model, ids), np.int32), text, cut, len(prompt.examples) - shown)


def _around(model: Checkpoint, ids: list[int]) -> list[int]:
    """With the ids that begin and end what this model reads."""
    begin = [] if model.begin_id is None else [model.begin_id]
    if model.kind == "encoder_decoder":
        end = [] if not model.end_ids else [model.end_ids[0]]
        return [*begin, *ids, *end]
    return begin + ids if begin or ids else list(model.end_ids[:1])


def encode_answers(
    model: Checkpoint, encoded: Sequence[Encoded], answers: Sequence[str], *, length: int, joint: str
) -> list[Pair]:
    """Each prompt with an answer of at most ``length`` ids.

    An encoder-decoder's answer ends with its end of sequence. A decoder's goes on from the prompt: the text of both is
    encoded together, and what the prompt alone doesn't have is the answer, so that no piece is cut in two
    (Gao et al., lm-evaluation-harness).
    """
    if model.kind == "encoder_decoder":
        ids = model.tokenizer.encode_all(answers)
        ends = list(model.end_ids[:1])
        return [
            Pair(prompt.ids, np.array([*answer[: length - 1], *ends], np.int32))
            for prompt, answer in zip(encoded, ids, strict=True)
        ]
    alone = model.tokenizer.encode_all([prompt.text for prompt in encoded])
    whole = model.tokenizer.encode_all(
        [prompt.text + joint + answer for prompt, answer in zip(encoded, answers, strict=True)]
    )
    return [
        Pair(prompt.ids, np.array(both[len(before) :][:length], np.int32))
        for prompt, before, both in zip(encoded, alone, whole, strict=True)
    ]


def prompt_batch(
    rows: Sequence[np.ndarray], *, batch_size: int, limit: int, on_the_left: bool = False
) -> Batch:
    """Prompts to write on from, padded to the shortest bucket; rows beyond them have one token that nobody reads."""
    length = _bucket(max(map(len, rows)), limit)
    tokens, segments = (np.zeros((batch_size, length), np.int32) for _ in range(2))
    segments[:, -1 if on_the_left else 0] = 1
    for row, ids in enumerate(rows):
        places = slice(length - len(ids), length) if on_the_left else slice(len(ids))
        tokens[row, places], segments[row, places] = ids, 1
    return Batch(encoder_input_tokens=tokens, encoder_segment_ids=segments)


def answer_batch(model: Checkpoint, pairs: Sequence[Pair], *, batch_size: int, limit: int) -> Batch:
    """Prompts with answers whose tokens have weight 1, and nothing else has."""
    longest = max(len(pair.answer) for pair in pairs)
    size = -(-max(longest, 1) // _ANSWER_MULTIPLE) * _ANSWER_MULTIPLE
    if model.kind == "encoder_decoder":
        batch = prompt_batch([pair.prompt for pair in pairs], batch_size=batch_size, limit=limit)
        inputs, targets, real, weights = _streams(batch_size, size)
        for row, pair in enumerate(pairs):
            number = len(pair.answer)
            inputs[row, :number] = [model.start_id, *pair.answer[:-1]]
            targets[row, :number], real[row, :number], weights[row, :number] = pair.answer, 1, 1.0
        return batch._replace(
            decoder_input_tokens=inputs, decoder_segment_ids=real, target_tokens=targets, loss_weights=weights
        )
    length = _bucket(max(len(pair.prompt) + len(pair.answer) for pair in pairs) - 1, limit)
    inputs, targets, real, weights = _streams(batch_size, length)
    for row, pair in enumerate(pairs):
        ids = np.concatenate([pair.prompt, pair.answer])
        last = len(ids) - 1
        inputs[row, :last], targets[row, :last], real[row, :last] = ids[:-1], ids[1:], 1
        weights[row, len(pair.prompt) - 1 : last] = 1.0
    return Batch(
        decoder_input_tokens=inputs, decoder_segment_ids=real, target_tokens=targets, loss_weights=weights
    )


def _streams(rows: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    inputs, targets, real = (np.zeros((rows, length), np.int32) for _ in range(3))
    real[:, 0] = 1  # a row with nothing real in it would give no number
    return inputs, targets, real, np.zeros((rows, length), np.float32)


def _bucket(needed: int, limit: int) -> int:
    limit = max(needed, limit)
    return min(length for length in bucket_lengths(limit) if length >= needed)
