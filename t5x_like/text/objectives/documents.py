"""Documents joined and cut into even runs of tokens, as T5 prepares them: an index only, nothing is
copied."""

import numpy as np

MAX_CHUNK = 65_536  # tokens of one document used in one epoch
DOCUMENTS_TOGETHER = 128


class Runs:
    """Runs of tokens over documents laid end to end; the last run of each 128 documents may be shorter."""

    def __init__(
        self, flat: np.ndarray, chunk_starts: np.ndarray, chunk_lengths: np.ndarray, run_length: int
    ) -> None:
        self._flat = flat
        self._chunk_starts = chunk_starts  # where each document's chunk lies in ``flat``
        self._ends = np.cumsum(chunk_lengths)  # where each ends in the joined text
        last = np.arange(
            DOCUMENTS_TOGETHER - 1, len(chunk_lengths) + DOCUMENTS_TOGETHER - 1, DOCUMENTS_TOGETHER
        )
        group_ends = (
            self._ends[np.minimum(last, len(chunk_lengths) - 1)] if len(chunk_lengths) else np.zeros(0, int)
        )
        group_lengths = np.diff(group_ends, prepend=0)
        runs_of_group = -(-group_lengths // run_length)
        first_run = np.cumsum(runs_of_group) - runs_of_group
        number_in_group = np.arange(runs_of_group.sum()) - np.repeat(first_run, runs_of_group)
        self._starts = np.repeat(group_ends - group_lengths, runs_of_group) + number_in_group * run_length
        self.lengths = np.minimum(run_length, np.repeat(group_ends, runs_of_group) - self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def tokens(self, number: int) -> np.ndarray:
        """The tokens of one run, int32."""
        start = int(self._starts[number])
        end = start + int(self.lengths[number])
        parts = []
        document = int(np.searchsorted(self._ends, start, side="right"))
        while start < end:
            chunk_end = int(self._ends[document])
            chunk_start = chunk_end - self._chunk_length(document)
            place = int(self._chunk_starts[document]) + start - chunk_start
            take = min(end, chunk_end) - start
            parts.append(self._flat[place : place + take])
            start += take
            document += 1
        return np.concatenate(parts).astype(np.int32)

    def _chunk_length(self, document: int) -> int:
        return int(self._ends[document] - (self._ends[document - 1] if document else 0))


def cut_into_runs(
    flat: np.ndarray, ends: np.ndarray, *, order: np.ndarray, run_length: int, key: np.ndarray
) -> Runs:
    """Joins documents in ``order``, 128 at a time, and cuts each such text into runs of ``run_length``
    tokens.

    Of a document over 65,536 tokens one such chunk is used, drawn by ``key``, so that no single one dominates
    an epoch. Documents lie end to end in ``flat``, ending at ``ends``; the text of one run may come from
    several.
    """
    lengths = np.diff(ends, prepend=0)[order]
    starts = ends[order] - lengths
    num_chunks = np.maximum(-(-lengths // MAX_CHUNK), 1)
    draws = np.random.Philox(key=key).random_raw(len(order)) % num_chunks.astype(np.uint64)
    offsets = MAX_CHUNK * draws.astype(np.int64)
    return Runs(flat, starts + offsets, np.minimum(lengths - offsets, MAX_CHUNK), run_length)
