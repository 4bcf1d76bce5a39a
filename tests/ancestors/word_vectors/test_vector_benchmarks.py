"""Analogies and similarity: the literal files, scores by hand and as gensim computes them, and bad files."""

import numpy as np
import pytest

from t5x_like.ancestors.word_vectors.vector_benchmarks import (
    Analogy,
    SimilarPair,
    read_analogies,
    read_similarities,
    score_analogies,
    score_similarities,
)
from t5x_like.ancestors.word_vectors.vector_files import read_vectors
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.io.files import read_json
from tests.references import ROOT

GENSIM = ROOT / "tests" / "fixtures" / "word_vectors"
WORDS = ("man", "king", "woman", "queen", "apple")
TABLE = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [-1, 0, 0]], np.float32)


def test_questions_are_read_with_their_sections(tmp_path):
    (tmp_path / "q.txt").write_text(": family\nMan King  Woman Queen\r\n\n: gram9-plural-verbs\na b c d\n")
    assert read_analogies(tmp_path / "q.txt", lower_case=True) == [
        Analogy("family", "man", "king", "woman", "queen"),
        Analogy("gram9-plural-verbs", "a", "b", "c", "d"),
    ]
    assert read_analogies(tmp_path / "q.txt")[0].a == "Man"


@pytest.mark.parametrize(
    "text",
    [
        'Word 1,Word 2,Human (mean)\nKing,queen,8.58\n"love",sex,6.77\n',
        "Word 1\tWord 2\tHuman (mean)\nKing\tqueen\t8.58\nlove\tsex\t6.77\n",
        "# Source: a comment\n#\nKing\tqueen\t8.58\t9\t8\nlove\tsex\t6.77\t1\t2\n",
        "\ufeffKing queen 8.580000\r\nlove sex 6.770000\r\n",
    ],
    ids=["wordsim.csv", "wordsim.tab", "comments, more columns", "spaces"],
)
def test_pairs_are_read_from_all_forms(tmp_path, text):
    (tmp_path / "pairs").write_text(text, encoding="utf-8")
    assert read_similarities(tmp_path / "pairs", lower_case=True) == [
        SimilarPair("king", "queen", 8.58),
        SimilarPair("love", "sex", 6.77),
    ]


def test_the_answer_is_the_nearest_word_but_those_of_the_question():
    """By hand: unit vectors give king - man + woman = (0.414, 0.707, 0.707), whose cosine is largest with queen's."""
    vectors = WordVectors(WORDS, TABLE)
    questions = [
        Analogy("family", "man", "king", "woman", "queen"),
        Analogy("family", "man", "woman", "king", "queen"),
        Analogy("fruit", "man", "king", "woman", "apple"),
        Analogy("fruit", "man", "king", "woman", "pear"),
    ]
    scores = score_analogies(vectors, questions)
    assert (scores.num_questions, scores.num_answered) == (4, 3)
    assert scores.accuracy == pytest.approx(200 / 3)
    assert scores.sections == {
        "family": {"accuracy": 100.0, "num_answered": 2},
        "fruit": {"accuracy": 0.0, "num_answered": 1},
    }
    # The sum itself is nearest to king, which is a word of the question.
    close = WordVectors(WORDS, np.array([[1, 0], [0.9, 0.1], [1, 0.01], [0, 1], [-1, 0]], np.float32))
    assert score_analogies(close, questions[:1]).accuracy == 100.0


def test_the_correlation_is_that_of_ranks():
    """By hand: cosines 0.71, 0.71, 0.58, -1 have ranks 3.5, 3.5, 2, 1, and scores 9, 8, 1, 2 have 4, 3, 1, 2."""
    vectors = WordVectors(WORDS, TABLE)
    pairs = [
        SimilarPair("man", "king", 9.0),
        SimilarPair("man", "woman", 8.0),
        SimilarPair("man", "queen", 1.0),
        SimilarPair("man", "apple", 2.0),
        SimilarPair("man", "pear", 5.0),
    ]
    scores = score_similarities(vectors, pairs)
    actual, reference = np.array([3.5, 3.5, 2, 1]), np.array([4.0, 3, 1, 2])
    assert scores.spearman_corrcoef == pytest.approx(100 * np.corrcoef(actual, reference)[0, 1])
    assert scores.spearman_corrcoef == pytest.approx(73.786, abs=1e-3)
    assert (scores.num_pairs, scores.num_scored) == (5, 4)


def test_scores_are_gensims():
    vectors, expected = read_vectors(GENSIM / "gensim.bin"), read_json(GENSIM / "expected.json")
    scores = score_analogies(vectors, read_analogies(GENSIM / "questions.txt"))
    assert scores.accuracy == pytest.approx(100 * expected["accuracy"])
    for section, (right, wrong) in expected["correct"].items():
        assert scores.sections[section]["num_answered"] == right + wrong
        assert scores.sections[section]["accuracy"] == pytest.approx(100 * right / (right + wrong))
    assert scores.num_questions == scores.num_answered + 1
    similar = score_similarities(vectors, read_similarities(GENSIM / "pairs.tsv"))
    assert similar.spearman_corrcoef == pytest.approx(100 * expected["spearman"], abs=1e-4)


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_analogies, b"", "has no questions"),
        (read_analogies, b": only\n", "has no questions"),
        (read_analogies, b"a b c d\na b c\n", ":2: 'a b c' has 3 words; a question has four"),
        (read_analogies, b"a b c d\n\xff\n", "invalid UTF-8 at byte 8"),
        (read_similarities, b"", "has no pairs"),
        (read_similarities, b"w1,w2,score\n", "has no pairs"),
        (read_similarities, b"a b 1\na b\n", ":2: 'a b' is no pair"),
        (read_similarities, b"a b\n", ":1: 'a b' is no pair"),
        (
            read_similarities,
            b"a b 1\na b nan\n",
            ":2: 'a b nan' is no pair; give two words and a finite score",
        ),
        (read_similarities, b"a b 1\nc d e\n", ":2: 'c d e' is no pair"),
    ],
)
def test_a_bad_file_is_refused_by_its_line(tmp_path, read, content, message):
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is compared below
        read(tmp_path / "bad.txt")
    assert f"{tmp_path / 'bad.txt'}" in str(refused.value)
    assert message in str(refused.value)


def test_vectors_of_other_words_have_no_score():
    vectors = WordVectors(WORDS, TABLE)
    with pytest.raises(
        ValueError, match="none of 1 questions, such as 'Man King Woman Queen', has only words"
    ):
        score_analogies(vectors, [Analogy("", "Man", "King", "Woman", "Queen")])
    with pytest.raises(ValueError, match="none of 1 pairs, such as 'Man King'"):
        score_similarities(vectors, [SimilarPair("Man", "King", 1.0)])
    with pytest.raises(
        ValueError, match="1 pairs have words with vectors, and their scores or cosines are all the"
    ):
        score_similarities(vectors, [SimilarPair("man", "king", 1.0)])
