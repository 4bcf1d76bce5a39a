"""word2vec and GloVe: formulas against plain numpy, counts by brute force, and vectors that learn."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.word_vectors import glove, skip_gram
from t5x_like.ancestors.word_vectors.glove import Glove, GloveTables
from t5x_like.ancestors.word_vectors.skip_gram import SkipGram, SkipGramTables
from t5x_like.ancestors.word_vectors.training_batches import STEPS_AT_ONCE, check_loss, stacked_batches
from t5x_like.ancestors.word_vectors.word_text import WordText, read_word_text, words_of
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_training import VocabularyTraining

# Words of a kind occur in the same places: two kinds of subjects with their own verbs.
LINES = [
    f"the {animal} {verb} by the {place} ."
    for animals, verbs, places in (
        (("cat", "dog", "cow", "hen"), ("ran", "slept"), ("barn", "field")),
        (("king", "queen", "lord", "judge"), ("spoke", "ruled"), ("throne", "court")),
    )
    for animal in animals
    for verb in verbs
    for place in places
]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> WordText:
    folder = tmp_path_factory.mktemp("words")
    (folder / "text.txt").write_text("\n".join(LINES * 4) + "\n")
    training = VocabularyTraining(
        kind="words", inputs=str(folder / "text.txt"), output=folder / "words.json", size=100
    )
    training.run()
    return read_word_text(str(folder / "text.txt"), open_tokenizer(folder / "words.json", 3))


def made(rows: list[int], lines: list[int]) -> WordText:
    counts = np.bincount(rows)
    return WordText(
        tuple(f"w{row}" for row in range(len(counts))),
        counts,
        np.array(rows, np.int32),
        np.array(lines, np.int32),
    )


def test_a_text_is_rows_of_its_words_by_frequency(text):
    assert text.words[0] == "the"
    assert text.counts[0] == 2 * len(LINES) * 4
    assert list(text.counts) == sorted(text.counts, reverse=True)
    assert " ".join(text.words[row] for row in text.rows[text.lines == 1]) == LINES[1]
    assert text.lines.max() == 4 * len(LINES) - 1


def test_rare_and_unknown_words_are_left_out(tmp_path):
    (tmp_path / "text.txt").write_text("a a b b b c\nd <unk> a b\n")
    (tmp_path / "words.json").write_text(
        '{"format": "t5x_like words", "lower_case": true, "punctuation_apart": true, '
        '"pieces": ["<pad>", "</s>", "<unk>", "a", "b", "c", "z"]}'
    )
    tokenizer = open_tokenizer(tmp_path / "words.json", 2)
    assert words_of(tokenizer) == {3: "a", 4: "b", 5: "c", 6: "z"}
    word_text = read_word_text(str(tmp_path / "text.txt"), tokenizer, min_count=2)
    assert word_text.words == ("b", "a")
    assert word_text.counts.tolist() == [4, 3]
    assert word_text.rows.tolist() == [1, 1, 0, 0, 0, 1, 0]
    assert word_text.lines.tolist() == [0, 0, 0, 0, 0, 1, 1]
    with pytest.raises(
        ValueError, match=r"has 0 words of the vocabulary .* with min_count=9; give more text"
    ):
        read_word_text(str(tmp_path / "text.txt"), tokenizer, min_count=9)
    with pytest.raises(ValueError, match="min_count is 0"):
        read_word_text(str(tmp_path / "text.txt"), tokenizer, min_count=0)
    with pytest.raises(
        ValueError,
        match="'bytes' is of the kind bytes; word vectors and models that read characters need one",
    ):
        words_of(open_tokenizer("bytes", 0))


def test_noise_is_drawn_by_counts_to_the_power_of_three_quarters():
    counts = np.array([10_000, 625, 81, 16, 1])
    expected = np.array([1000, 125, 27, 8, 1]) / 1161  # by hand
    distribution = skip_gram.noise_distribution(counts)
    np.testing.assert_allclose(distribution, expected, rtol=1e-12)
    cumulative = jnp.asarray(np.cumsum(distribution), jnp.float32)
    drawn = np.asarray(skip_gram.sample_noise(jax.random.key(0), cumulative, (200_000,)))
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(shares, expected, atol=4 * np.sqrt(0.25 / len(drawn)))
    assert drawn.max() == 4
    assert skip_gram.sample_noise(jax.random.key(1), jnp.array([0.0, 0.0, 0.5]), (99,)).max() == 2


def test_frequent_words_are_kept_with_the_root_of_threshold_by_frequency():
    counts = np.array([900, 90, 9, 1])
    np.testing.assert_allclose(
        skip_gram.keep_probabilities(counts, 0.009), [0.1, 0.1**0.5, 1.0, 1.0], rtol=1e-12
    )  # sqrt(0.009 / 0.9) = 0.1, sqrt(0.009 / 0.09), and both others above 1
    np.testing.assert_array_equal(skip_gram.keep_probabilities(counts, 0), 1)


def test_windows_have_every_reach_equally_often_and_end_with_the_line():
    rows, window = np.arange(3000, dtype=np.int32), 4
    lines = (rows // 1000).astype(np.int32)
    centers, contexts = skip_gram.window_pairs(rows, lines, window, np.random.default_rng(0))
    pairs = set(zip(centers.tolist(), contexts.tolist(), strict=True))
    assert len(pairs) == len(centers)
    distances = np.abs(centers - contexts)
    assert (lines[centers] == lines[contexts]).all()
    # A word at distance d is in the window if the reach, 1 to 4, is at least d: in (5 - d) / 4 of all cases.
    shares = np.bincount(distances, minlength=5)[1:] / (2 * len(rows))
    np.testing.assert_allclose(shares, [1, 0.75, 0.5, 0.25], atol=0.03)
    for center in (0, 999, 1000, 1500):  # the reach is the same on both sides, and has no gaps
        near = sorted(context - center for other, context in pairs if other == center)
        reach = max(map(abs, near))
        assert near == [
            step
            for step in range(-reach, reach + 1)
            if step and 0 <= center + step < 3000 and lines[center + step] == lines[center]
        ]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_a_step_of_word2vec_is_gradient_descent_on_its_objective():
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(5, 3)) for _ in range(2)]
    centers, contexts = np.array([0, 1, 0, 3]), np.array([2, 2, 4, 3])
    noise = np.array([[1, 2], [1, 0], [4, 4], [0, 1]])  # the words of the context are no noise
    is_real, rate = np.array([True, True, True, False]), 0.1
    expected, loss = [table.copy() for table in tables], 0.0
    for center, context, others in list(zip(centers, contexts, noise, strict=True))[:3]:
        v = tables[0][center]
        for word, label in [(context, 1.0), *((other, 0.0) for other in others if other != context)]:
            u = tables[1][word]
            p = sigmoid(u @ v)
            loss -= np.log(p if label else 1 - p)
            expected[0][center] -= rate * (p - label) * u
            expected[1][word] -= rate * (p - label) * v
    result, total = skip_gram.descend(
        SkipGramTables(*(jnp.asarray(table, jnp.float32) for table in tables)),
        *(jnp.asarray(each) for each in (centers, contexts, noise, is_real)),
        jnp.float32(rate),
    )
    assert float(total) == pytest.approx(loss, rel=1e-6)
    for actual, reference in zip(result, expected, strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-5, atol=1e-6)


def test_cooccurrences_are_those_counted_one_by_one():
    rng = np.random.default_rng(0)
    rows, lines = rng.integers(0, 7, 60).tolist(), sorted(rng.integers(0, 8, 60).tolist())
    expected = np.zeros((7, 7))
    for i in range(60):
        for j in range(60):
            if i != j and lines[i] == lines[j] and abs(i - j) <= 3:
                expected[rows[i], rows[j]] += 1 / abs(i - j)
    cooccurrences = glove.count_cooccurrences(made(rows, lines), 3)
    matrix = np.zeros((7, 7))
    matrix[cooccurrences.words, cooccurrences.contexts] = cooccurrences.counts
    np.testing.assert_allclose(matrix, expected, rtol=1e-6)
    assert len(cooccurrences.counts) == np.count_nonzero(expected)


def test_text_in_parts_has_the_same_counts(monkeypatch):
    rng = np.random.default_rng(1)
    text = made(rng.integers(0, 5, 40).tolist(), [0] * 25 + [1] * 15)
    whole = glove.count_cooccurrences(text, 4)
    for size in (1, 3, 7, 24):
        monkeypatch.setattr(glove, "_WORDS_AT_ONCE", size)
        for actual, reference in zip(glove.count_cooccurrences(text, 4), whole, strict=True):
            np.testing.assert_allclose(actual, reference, rtol=1e-6)


def test_small_counts_weigh_less():
    np.testing.assert_allclose(
        glove.weighting(jnp.array([1.0, 100 / 16, 100.0, 1e6]), 100.0, 0.75),
        [0.01**0.75, 0.125, 1, 1],
        rtol=1e-6,
    )


def test_a_step_of_glove_is_adagrad_on_its_objective():
    rng = np.random.default_rng(0)
    shapes = ((4, 3), (4, 3), (4,), (4,))
    tables, squares = ([rng.uniform(0.5, 1.5, size=shape) for shape in shapes] for _ in range(2))
    words, contexts = np.array([0, 1, 0]), np.array([2, 0, 2])
    counts, rate = np.array([3.0, 250.0, 0.5]), 0.05
    weights = np.minimum(counts / 100, 1) ** 0.75
    loss, gradients = 0.0, []
    for word, context, count, weight in zip(words, contexts, counts, weights, strict=True):
        w, c, b, d = (
            table[place] for table, place in zip(tables, (word, context, word, context), strict=True)
        )
        error = w @ c + b + d - np.log(count)
        loss += weight * error**2
        slope = 2 * weight * error
        gradients.append([(word, slope * c), (context, slope * w), (word, slope), (context, slope)])
    sums, after = [each.copy() for each in squares], [each.copy() for each in tables]
    for entry in gradients:
        for each, (place, gradient) in zip(sums, entry, strict=True):
            each[place] += gradient**2
    for entry in gradients:
        for table, each, (place, gradient) in zip(after, sums, entry, strict=True):
            table[place] -= rate * gradient / np.sqrt(each[place])

    def arrays(several):
        return GloveTables(*(jnp.asarray(each, jnp.float32) for each in several))

    result, result_sums, total = glove.adagrad_step(
        arrays(tables), arrays(squares), *(jnp.asarray(each) for each in (words, contexts)),
        *(jnp.asarray(each, jnp.float32) for each in (counts, weights)), rate,
    )  # fmt: skip
    assert float(total) == pytest.approx(loss, rel=1e-5)
    for actual, reference in zip([*result, *result_sums], [*after, *sums], strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-5)


def test_batches_have_every_example_once():
    first, second = np.arange(1000), np.arange(1000) * 2
    seen, shares = [], []
    for share, (a, b), is_real in stacked_batches((first, second), 3, np.random.default_rng(0)):
        assert a.shape == b.shape == is_real.shape == (STEPS_AT_ONCE, 3)
        np.testing.assert_array_equal(2 * a, b)
        seen += a[is_real].tolist()
        shares.append(share)
    assert sorted(seen) == first.tolist()
    assert seen != first.tolist()
    assert shares == [start / 1000 for start in range(0, 1000, STEPS_AT_ONCE * 3)]


SETTINGS = {
    "word2vec": functools.partial(
        SkipGram, dim=8, window=3, epochs=30, learning_rate=0.2, batch_size=8, subsample=0.05
    ),
    "glove": functools.partial(Glove, dim=8, window=4, epochs=60, batch_size=16, count_limit=20.0),
}


@pytest.mark.parametrize("method", SETTINGS)
def test_words_of_a_kind_become_neighbors_the_same_for_a_seed(text, method):
    vectors, losses = SETTINGS[method]().train(text)
    assert losses[-1] < 0.9 * losses[0]
    animals, people = ("cat", "dog", "cow", "hen"), ("king", "queen", "lord", "judge")
    chosen = vectors.table[[vectors.rows[word] for word in (*animals, *people)]]
    centered = chosen - chosen.mean(axis=0)  # all have in common that they follow "the"
    products = centered @ centered.T
    assert min(products[:4, :4].min(), products[4:, 4:].min()) > 0 > products[:4, 4:].max()
    again, _ = SETTINGS[method](epochs=2).train(text)
    same, _ = SETTINGS[method](epochs=2).train(text)
    other, _ = SETTINGS[method](epochs=2, seed=1).train(text)
    np.testing.assert_array_equal(again.table, same.table)
    assert (again.table != other.table).mean() > 0.9


def test_the_vectors_are_those_of_centers_and_the_sums_of_words_and_contexts(text):
    """With almost no learning rate they are the fresh ones."""
    vectors, _ = Glove(dim=3, epochs=1, learning_rate=1e-12).train(text)
    fresh = glove._fresh_tables(jax.random.key(0), len(text.words), 3)
    np.testing.assert_allclose(vectors.table, fresh.words + fresh.contexts, rtol=1e-6)
    vectors, _ = SkipGram(dim=3, epochs=1, learning_rate=1e-12).train(text)
    assert 0.1 < np.abs(vectors.table).max() <= 0.5 / 3  # contexts begin with zeros


@pytest.mark.parametrize("method", [SkipGram, Glove])
def test_bad_settings_and_texts_are_refused(method):
    for name in ("dim", "window", "epochs", "learning_rate", "batch_size"):
        with pytest.raises(ValueError, match=f"{name} is 0; give a positive number"):
            method(**{name: 0})
    with pytest.raises(ValueError, match="no word of the text has a neighbor; give longer lines"):
        method().train(made([0, 1, 0], [0, 1, 2]))
    with pytest.raises(
        ValueError, match="loss of word vectors became nan: training diverged; lower learning_rate"
    ):
        check_loss(float("nan"))


def test_the_threshold_of_subsampling_is_a_share():
    with pytest.raises(ValueError, match=r"subsample is 1\.5; give a share of at most 1"):
        SkipGram(subsample=1.5)
