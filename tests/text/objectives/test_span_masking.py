import numpy as np
import pytest

from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.objectives.word_masking import SpanMasking
from tests.text.objectives.encoder_rows import IDS, MASK, chosen, runs, seeds


def make(masking, tokens, count):
    tokens = np.asarray(tokens, np.int32)
    return MaskedLM(masking=masking).make(
        [Text(tokens, len(tokens))] * count, seeds(count), Lengths(9999, 2), IDS
    )


def test_lengths_are_geometric_with_a_mean_of_3_8():
    shares = SpanMasking().shares()
    np.testing.assert_allclose(shares[1:] / shares[:-1], 0.8)
    assert shares.sum() == pytest.approx(1.0)
    assert shares @ np.arange(1, 11) == pytest.approx(3.797, abs=0.001)


def test_masked_spans_have_these_lengths():
    # So few of so many words that spans are seldom neighbors, and the one that is cut counts little.
    examples = make(SpanMasking(noise_density=0.03), [150] * 7998, 60)
    lengths = np.concatenate([np.diff(runs(chosen(example)), axis=1)[:, 0] for example in examples])
    assert np.mean(lengths) == pytest.approx(3.8, abs=0.25)
    result = np.bincount(lengths, minlength=11)[1:11] / len(lengths)
    np.testing.assert_allclose(result, SpanMasking().shares(), atol=0.03)


def test_512_tokens_have_77_predictions_in_spans_cut_where_the_share_ends():
    for example in make(SpanMasking(), np.arange(510) + 104, 50):
        assert example.weights.sum() == 77


def test_tokens_are_masked_equally_at_all_positions():
    weights = np.stack([example.weights[1:-1] for example in make(SpanMasking(), [150] * 510, 4000)])
    share = weights.mean(axis=0)
    np.testing.assert_allclose(share.reshape(10, 51).mean(axis=1), 77 / 510, atol=0.02)


def test_all_tokens_of_a_span_are_treated_in_the_same_way():
    tokens = np.arange(400) + 104
    kinds = {"mask": 0, "random": 0, "kept": 0}
    for example in make(SpanMasking(noise_density=0.05), tokens, 400):
        for start, end in runs(chosen(example)).tolist():
            is_mask = example.inputs[start:end] == MASK
            is_kept = example.inputs[start:end] == example.targets[start:end]
            if end - start > 10:
                continue  # two spans side by side
            kind = "mask" if is_mask[0] else "kept" if is_kept[0] else "random"
            kinds[kind] += 1
            matches = {"mask": is_mask, "kept": is_kept, "random": ~is_mask & ~is_kept}[kind]
            if end - start > 1 and not matches.all():
                kinds[kind] -= 1
                kinds["mixed"] = kinds.get("mixed", 0) + 1
    total = sum(kinds.values())
    assert kinds.pop("mixed", 0) / total < 0.06  # neighbors that happen to touch
    np.testing.assert_allclose(np.array(list(kinds.values())) / total, [0.8, 0.1, 0.1], atol=0.04)


def test_words_stay_whole_where_a_span_is_cut():
    tokens = [150, 900, 900] * 100
    sizes = set()
    for example in make(SpanMasking(), tokens, 30):
        for start, end in runs(chosen(example)).tolist():
            assert (start - 1) % 3 == 0
            assert (end - start) % 3 == 0
        sizes.add(int(example.weights.sum()))
    assert sizes == {45}  # round(0.15 · 302), and a multiple of 3


def test_with_single_tokens_spans_are_cut_anywhere():
    tokens = [150, 900, 900] * 100
    starts = {
        start for example in make(SpanMasking(whole_words=False), tokens, 30) for start in chosen(example) % 3
    }
    assert starts == {0, 1, 2}


@pytest.mark.parametrize(
    ("change", "said"), [({"p": 1.0}, "p must lie"), ({"max_span": 0}, "max_span must be")]
)
def test_impossible_lengths_are_refused(change, said):
    with pytest.raises(ValueError, match=said):
        SpanMasking(**change)
