"""The prefetcher hands over batches in order, knows where it is, and passes errors on."""

import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.training.prefetch import Prefetcher


class Counting:
    """A loader over 1, 2, 3 …"""

    def __init__(self, stop: int | None = None, fail_at: int | None = None):
        self.position, self.stop, self.fail_at = 0, stop, fail_at

    def __iter__(self):
        while self.position != self.stop:
            self.position += 1
            if self.position == self.fail_at:
                raise ValueError("row 7 of words.tsv has no column 'word'")
            yield Batch(target_tokens=np.full((1, 1), self.position))

    def state(self):
        return {"position": self.position}


def test_each_batch_comes_with_the_position_just_after_it_however_far_the_thread_has_read():
    with Prefetcher(Counting(stop=5), lambda batch: batch) as batches:
        prefetched = list(batches)
    assert [int(item.batch.target_tokens[0, 0]) for item in prefetched] == [1, 2, 3, 4, 5]
    assert [item.loader_state["position"] for item in prefetched] == [1, 2, 3, 4, 5]


def test_an_error_in_the_data_is_raised_at_the_step_that_needed_it():
    with Prefetcher(Counting(fail_at=3), lambda batch: batch) as batches:
        next(batches), next(batches)
        with pytest.raises(ValueError, match=r"row 7 of words\.tsv"):
            next(batches)


def test_closing_stops_a_thread_that_would_read_for_ever():
    with Prefetcher(Counting(), lambda batch: batch) as batches:
        next(batches)
    assert not batches._thread.is_alive()
