import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text.metrics.chunks import Chunk, chunk_f1, chunks_of

KINDS = ("LOC", "PER")
TAGS = st.lists(
    st.sampled_from(["O", *(f"{place}-{kind}" for place in "BIES" for kind in KINDS)]),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize(
    ("tags", "chunks"),
    [
        ("B-LOC I-LOC O", [("LOC", 0, 1)]),
        ("B-LOC B-LOC", [("LOC", 0, 0), ("LOC", 1, 1)]),
        ("I-LOC I-LOC B-LOC", [("LOC", 0, 1), ("LOC", 2, 2)]),  # IOB1
        ("I-LOC I-PER", [("LOC", 0, 0), ("PER", 1, 1)]),
        ("O I-PER", [("PER", 1, 1)]),
        ("B-LOC I-PER I-PER", [("LOC", 0, 0), ("PER", 1, 2)]),
        ("S-LOC B-PER I-PER E-PER I-PER", [("LOC", 0, 0), ("PER", 1, 3), ("PER", 4, 4)]),
        ("O O", []),
    ],
)
def test_chunks_begin_and_end_as_conlleval_says(tags, chunks):
    assert chunks_of(tags.split()) == [Chunk(*chunk) for chunk in chunks]


@settings(deadline=None)  # importing seqeval takes seconds
@given(st.lists(TAGS, min_size=1, max_size=5), st.randoms())
def test_scores_are_those_of_seqeval(sentences, random):
    seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval is not installed")
    guesses = [random.sample(sentence, len(sentence)) for sentence in sentences]
    found = chunk_f1(sentences, guesses)
    for name, function in (
        ("precision", seqeval.precision_score),
        ("recall", seqeval.recall_score),
        ("f1", seqeval.f1_score),
        ("tag_accuracy", seqeval.accuracy_score),
    ):
        expected = function(sentences, guesses, **({} if "accuracy" in name else {"zero_division": 0}))
        assert found[name] == pytest.approx(100 * expected)


@given(TAGS)
def test_chunks_lie_in_order_and_cover_what_is_not_outside(tags):
    found = chunks_of(tags)
    covered = [place for chunk in found for place in range(chunk.first, chunk.last + 1)]
    assert covered == [place for place, tag in enumerate(tags) if tag != "O"]
    assert all({tags[place][2:] for place in range(c.first, c.last + 1)} == {c.kind} for c in found)


def test_both_ends_and_the_kind_must_be_right():
    truth = [["B-LOC", "I-LOC", "O", "B-PER"]]
    guess = [["B-LOC", "I-LOC", "I-LOC", "B-LOC"]]
    assert chunk_f1(truth, guess) == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "tag_accuracy": 50.0}
    assert chunk_f1(truth, [["B-LOC", "I-LOC", "O", "O"]]) == {
        "precision": 100.0,
        "recall": 50.0,
        "f1": pytest.approx(200 / 3),
        "tag_accuracy": 75.0,
    }


def test_every_word_needs_a_tag():
    with pytest.raises(ValueError, match="sentence 0 has 2 tags but 1 predicted"):
        chunk_f1([["O", "O"]], [["O"]])
