import numpy as np
import pytest

from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from tests.text.objectives.encoder_rows import IDS, VOCAB_SIZE, seeds


def make(objective, tokens, count):
    objective.check(Lengths(600, 2), IDS)
    tokens = np.asarray(tokens, np.int32)
    return objective.make([Text(tokens, len(tokens))] * count, seeds(count), Lengths(600, 2), IDS)


def test_targets_mark_replaced_tokens_and_every_ordinary_token_counts():
    tokens = np.arange(510) + 104
    examples = make(ReplacedTokenDetection(), tokens, 200)
    inputs = np.stack([example.inputs[1:-1] for example in examples])
    targets = np.stack([example.targets[1:-1] for example in examples])
    np.testing.assert_array_equal(targets, inputs != tokens)
    assert targets.sum(axis=1).max() == 77
    assert targets.mean() == pytest.approx(77 / 510, abs=0.001)
    for example in examples:
        assert example.weights.tolist() == [0] + [1] * 510 + [0]
        assert (example.targets[0], example.targets[-1]) == (0, 0)


def test_a_word_drawn_again_counts_as_the_original(tmp_path):
    file = tmp_path / "frequencies.txt"
    counts = np.zeros(VOCAB_SIZE)
    counts[[200, 300]] = 1, 3
    counts[102] = 1e9  # of a special id, which is not drawn
    file.write_text("\n".join(map(str, counts)))
    examples = make(ReplacedTokenDetection(frequencies=str(file)), [200] * 510, 300)
    inputs = np.stack([example.inputs[1:-1] for example in examples])
    assert set(np.unique(inputs)) == {200, 300}
    targets = np.stack([example.targets[1:-1] for example in examples])
    np.testing.assert_array_equal(targets, inputs == 300)
    assert targets.sum(axis=1).mean() == pytest.approx(77 * 0.75, abs=1)


def test_words_are_drawn_evenly_by_default():
    inputs = np.stack(
        [example.inputs for example in make(ReplacedTokenDetection(noise_density=0.9), [150] * 510, 200)]
    )
    counts = np.bincount(inputs[inputs > 103], minlength=VOCAB_SIZE)[104:]
    counts = np.delete(counts, 150 - 104)
    assert counts.std() / counts.mean() == pytest.approx(counts.mean() ** -0.5, rel=0.15)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1\n2\n", "has 2 numbers, the vocabulary 1000 ids; write one for each"),
        ("a\n" * 1000, "a number for each id is expected on each line"),
        ("-1\n" * 1000, "finite and not negative"),
        ("0\n" * 1000, "one of them over 0"),
    ],
)
def test_frequencies_that_do_not_fit_are_refused(tmp_path, content, said):
    file = tmp_path / "frequencies.txt"
    file.write_text(content)
    with pytest.raises(ValueError, match=said):
        ReplacedTokenDetection(frequencies=str(file)).check(Lengths(20, 2), IDS)
