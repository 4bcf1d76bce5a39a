import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text.metrics.chunks import chunk_f1

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
        (
            "U-LOC U-LOC B-PER L-PER B-PER I-PER L-PER",
            [("LOC", 0, 0), ("LOC", 1, 1), ("PER", 2, 3), ("PER", 4, 6)],
        ),
        ("W-LOC W-LOC B-PER M-PER E-PER", [("LOC", 0, 0), ("LOC", 1, 1), ("PER", 2, 4)]),
        ("O O", []),
    ],
)
def test_chunks_begin_and_end_as_conlleval_says(tags, chunks):
    """The same chunks in plain B and I tags are all found, and no others."""
    tags = tags.split()
    plain = ["O"] * len(tags)
    for kind, first, last in chunks:
        plain[first : last + 1] = [f"B-{kind}", *[f"I-{kind}"] * (last - first)]
    result = chunk_f1([tags], [plain])
    expected = 100.0 if chunks else 0.0
    assert (result["precision"], result["recall"]) == (expected, expected)


@settings(deadline=None)  # importing seqeval takes seconds
@given(st.lists(TAGS, min_size=1, max_size=5), st.randoms())
def test_scores_are_shares_of_chunks_that_both_sides_have(sentences, random):
    guesses = [random.sample(sentence, len(sentence)) for sentence in sentences]
    truth, guess = (
        {(n, *c) for n, tags in enumerate(side) for c in chunks_of(tags)} for side in (sentences, guesses)
    )
    result = chunk_f1(sentences, guesses)
    assert result["precision"] == pytest.approx(100 * len(truth & guess) / max(len(guess), 1))
    assert result["recall"] == pytest.approx(100 * len(truth & guess) / max(len(truth), 1))
    assert result["f1"] == pytest.approx(200 * len(truth & guess) / max(len(truth) + len(guess), 1))


def chunks_of(tags):
    """Kind, first and last word of each chunk, from conlleval's definition word by word."""
    chunks, before = [], "O"
    for place, tag in enumerate(tags):
        continues = tag[2:] == before[2:] and tag[0] in "IE" and before[0] in "BI"
        if tag != "O":
            chunks[-1:] = (
                [(tag[2:], chunks[-1][1], place)] if continues else [*chunks[-1:], (tag[2:], place, place)]
            )
        before = tag
    return chunks


def test_tags_of_no_scheme_are_no_error():
    assert chunk_f1([["O", "B-LOC"]], [["what", "B-LOC"]])["recall"] == 100.0


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
