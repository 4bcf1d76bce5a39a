"""Windows of documents, and their division into runs over joined documents or parts of single documents."""

from collections.abc import Mapping, Sequence

import numpy as np

from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Text

MAX_CHUNK = 65_536  # tokens of one document used in one epoch
DOCUMENTS_TOGETHER = 128


def lay_window(
    records: Sequence[Mapping[str, np.ndarray]],
    *,
    chunks: np.ndarray,
    eos: int | None = None,
    with_sentences: bool = True,
) -> DocumentWindow:
    """Concatenate documents to a window.

    One chunk of 65,536 tokens is used of a longer document, so that it doesn't dominate an epoch. Empty documents are
    skipped.

    Args:
      records: Documents with ``tokens``, and optionally ``sentence_ends`` and ``spans``.
      chunks: Random numbers that choose the chunk of each long document, uint64 [D].
      eos: Id to append to each document; None appends nothing.
      with_sentences: Keep sentence ends of records that have them.
    """
    tokens, sentences, spans, end = [], [], [], 0
    ends = []
    for record, draw in zip(records, chunks.tolist(), strict=True):
        document = record["tokens"]
        if not len(document):
            continue
        start = MAX_CHUNK * (draw % -(-len(document) // MAX_CHUNK))
        part = document[start : start + MAX_CHUNK]
        if with_sentences and "sentence_ends" in record:
            inside = record["sentence_ends"] - start
            inside = inside[(inside > 0) & (inside < len(part))]
            sentences.append(np.append(inside, len(part)).astype(np.int64) + end)
        if "spans" in record:
            within = shifted(record["spans"].astype(np.int64), -start)
            inside = (within[:, 0] >= 0) & (within[:, 1] <= len(part))
            spans.append(shifted(within[inside], end))
        if eos is not None:
            part = np.append(part, np.asarray(eos, part.dtype))
            if sentences:
                sentences[-1][-1] += 1
        tokens.append(part)
        end += len(part)
        ends.append(end)
    return DocumentWindow(
        tokens=np.concatenate(tokens) if tokens else np.zeros(0, np.int32),
        ends=np.array(ends, np.int64),
        sentence_ends=np.concatenate(sentences) if sentences else None,
        spans=np.concatenate(spans) if spans else None,
    )


def cut_runs(window: DocumentWindow, run_length: int, *, together: int | None = DOCUMENTS_TOGETHER) -> Cuts:
    """Join documents in groups, and cut each group into runs of ``run_length`` tokens; the last run may be shorter.

    Args:
      window: Concatenated documents.
      run_length: Tokens of a run.
      together: Documents of a group, 128 as in the code of Raffel et al. 2020; None joins all.
    """
    if not len(window.ends):
        return Cuts(np.zeros((0, 1), np.int64), np.zeros((0, 1), np.int64))
    group = len(window.ends) if together is None else together
    last = np.arange(group - 1, len(window.ends) + group - 1, group)
    return _even(window.ends[np.minimum(last, len(window.ends) - 1)], run_length)


def cut_documents(window: DocumentWindow, max_length: int) -> Cuts:
    """Divide each document into as few parts as possible.

    Args:
      window: Concatenated documents.
      max_length: Highest number of tokens of a part.
    """
    return _even(window.ends, max_length)


def _even(ends: np.ndarray, max_length: int) -> Cuts:
    lengths = np.diff(ends, prepend=0)
    parts = -(-lengths // max_length)
    first = np.cumsum(parts) - parts
    part = np.arange(parts.sum()) - np.repeat(first, parts)
    starts = np.repeat(ends - lengths, parts) + part * max_length
    return Cuts(starts[:, None], np.minimum(starts + max_length, np.repeat(ends, parts))[:, None])


def texts_of(window: DocumentWindow, cuts: Cuts, indices: Sequence[int] | np.ndarray) -> list[Text]:
    """Return texts of a window.

    Args:
      window: Concatenated documents.
      cuts: Offsets of all texts.
      indices: Indices of the texts to return.
    """
    starts, ends = cuts.starts[indices].tolist(), cuts.ends[indices].tolist()
    labels = [-1] * len(starts) if cuts.labels is None else cuts.labels[indices].tolist()
    return [_text(window, *cut) for cut in zip(starts, ends, labels, strict=True)]


def _text(window: DocumentWindow, starts: list[int], ends: list[int], label: int) -> Text:
    parts = [window.tokens[start:end] for start, end in zip(starts, ends, strict=True)]
    tokens = parts[0] if len(parts) == 1 else np.concatenate(parts)
    spans = None if window.spans is None else _spans_within(window.spans, starts, ends)
    sentences = None if window.sentence_ends is None else _ends_within(window.sentence_ends, starts, ends)
    return Text(tokens.astype(np.int32), ends[0] - starts[0], label, spans, sentences)


def _ends_within(sentence_ends: np.ndarray, starts: list[int], ends: list[int]) -> np.ndarray:
    parts, shift = [], 0
    for start, end in zip(starts, ends, strict=True):
        first, last = np.searchsorted(sentence_ends, (start + 1, end))
        parts.append(sentence_ends[first:last] - start + shift)
        shift += end - start
    return np.concatenate(parts)


def _spans_within(spans: np.ndarray, starts: list[int], ends: list[int]) -> np.ndarray:
    parts, shift = [], 0
    for start, end in zip(starts, ends, strict=True):
        first, last = np.searchsorted(spans[:, 0], start), np.searchsorted(spans[:, 1], end, side="right")
        inside = spans[first:last]
        parts.append(shifted(inside, shift - start))
        shift += end - start
    return np.concatenate(parts)


def shifted(spans: np.ndarray, offset: int | np.ndarray) -> np.ndarray:
    """Return spans [N, 2], or [N, 3] with the number of an entity, that start and end later.

    Args:
      spans: Spans of tokens.
      offset: Number of tokens; one for all spans, or one for each [N, 1].
    """
    return np.concatenate([spans[:, :2] + offset, spans[:, 2:]], axis=1)


def by_length(texts: Sequence[Text]) -> dict[int, np.ndarray]:
    """Return the indices of the texts of each length."""
    lengths = np.array([len(text.tokens) for text in texts], np.int64)
    return {int(length): np.flatnonzero(lengths == length) for length in np.unique(lengths)}


def stacked(texts: Sequence[Text], indices: np.ndarray) -> np.ndarray:
    """Return the tokens of texts of equal length, int32 [N, L].

    Args:
      texts: Texts.
      indices: Indices of texts of equal length.
    """
    return np.stack([texts[index].tokens for index in indices])
