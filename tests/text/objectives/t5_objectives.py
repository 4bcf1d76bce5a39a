"""Names, vocabulary and examples shared by tests of T5's objectives."""

import json
from typing import Any

import numpy as np

from benchmarks.references.objectives import FIRST_SENTINEL, IDS, objective_of

__all__ = ["FIRST_SENTINEL", "IDS", "assert_rows_are_independent", "make_one", "read"]

DENOISING: dict[str, Any] = {
    name: objective_of(name)
    for name in (
        *("span_15_3", "span_15_3_roll", "span_50_3", "span_15_8", "span_50_8", "span_15_64", "span_50_64"),
        *("iid_15_unique", "iid_15_mask_full (MASS-style)", "iid_15_bert_style_r10 (random_prob .1)"),
        *("iid_15_drop_drop", "iid_15_span_single_sentinel", "deshuffle_all"),
        *("regular_mask", "gathered", "random_token"),
    )
}
PREFIXES: dict[str, Any] = {name: objective_of(name) for name in ("prefix_lm", "prefix_lm_25")}


def read(golden, name):
    return json.loads((golden / "objectives" / name).read_text())


def make_one(objective, tokens, lengths, ids=IDS, seed=(1, 2), label=-1):
    from t5x_like.text.objectives.objective import Text

    text = Text(np.asarray(tokens, np.int32), len(tokens), label)
    (example,) = objective.make([text], np.array([seed], np.uint64), lengths, ids)
    return example


def assert_rows_are_independent(objective, row_lengths, lengths, ids=IDS):
    """Assert that an example depends only on its own text and seed, and changes with the seed."""
    from t5x_like.text.objectives.objective import Text

    texts = [Text(np.arange(3, 3 + length, dtype=np.int32), length) for length in row_lengths]
    seeds = np.stack([np.full(len(texts), 7), np.arange(len(texts))], axis=1).astype(np.uint64)
    together = objective.make(texts, seeds, lengths, ids)
    for row, example in enumerate(together):
        (alone,) = objective.make(texts[row : row + 1], seeds[row : row + 1], lengths, ids)
        for side, other in zip(alone[:2], example[:2], strict=True):
            np.testing.assert_array_equal(side, other)
    pairs = zip(together[0][:2], together[1][:2], strict=True)
    assert row_lengths[0] == row_lengths[1]
    assert not all(np.array_equal(*pair) for pair in pairs)
