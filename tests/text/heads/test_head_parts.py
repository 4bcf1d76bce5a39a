"""Parts of a head's examples equal the same rows of the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.heads import (
    ExtractiveSummarization,
    HeadFormat,
    MultipleChoice,
    QuestionAnswering,
    SequenceClassification,
    TokenClassification,
)
from t5x_like.text.vocabularies.opening import open_tokenizer

CONTEXT = "a b c d e f g h"
FORMS: dict[str, tuple[HeadFormat, list[dict]]] = {
    "classes": (
        SequenceClassification(texts=("{text}",), classes=("no", "yes")),
        [{"text": "a " * (3 * index + 1), "label": index % 2} for index in range(6)],
    ),
    "choices": (
        MultipleChoice(context="{text}", choices="choices"),
        [{"text": "a b", "choices": ["c " * index, "d"], "label": 1} for index in range(1, 6)],
    ),
    "spans": (
        QuestionAnswering(),
        [
            {
                "question": "a",
                "context": CONTEXT[: 2 * index + 1],
                "answers": {"text": ["a"], "answer_start": [0]},
            }
            for index in range(1, 8)
        ],
    ),
    "words": (
        TokenClassification(classes=("O", "X")),
        [{"tokens": ["ab", "c"] * index, "tags": [0, 1] * index} for index in range(1, 6)],
    ),
    "sentences": (
        ExtractiveSummarization(),
        [{"document": ["a b", "c"] * index, "summary": "c"} for index in range(1, 6)],
    ),
}


@pytest.fixture(scope="module")
def all_examples(tmp_path_factory):
    """Return examples of every format, with their rows."""
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    letters = [letter for character in "abcdefgh" for letter in (character, f"##{character}")]
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]) + "\n")
    tokenizer = open_tokenizer(str(file), 0)
    return {
        name: make_examples(form, [form.read(row) for row in rows], tokenizer, length=9, stride=2)
        for name, (form, rows) in FORMS.items()
    }


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
def test_a_part_has_the_examples_of_its_rows_in_their_order(all_examples, name, data):
    whole = all_examples[name]
    count = len(FORMS[name][1])
    rows = data.draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    part = whole.part(rows)
    numbers = [number for row in rows for number in np.flatnonzero(whole.origins == row).tolist()]
    assert len(part) == len(numbers)
    assert [rows[origin] for origin in part.origins.tolist()] == whole.origins[numbers].tolist()
    assert part.cut == {place for place, row in enumerate(rows) if row in whole.cut}
    assert part.sizes.tolist() == whole.sizes[numbers].tolist()
    for new, old in enumerate(numbers):
        for actual, reference in zip(_flat(part.example(new)), _flat(whole.example(old)), strict=True):
            np.testing.assert_array_equal(actual, reference)
        np.testing.assert_array_equal(part.character_offsets(new)[0], whole.character_offsets(old)[0])


def _flat(example):
    for value in example:
        yield from (inner for choice in value for inner in choice) if _is_choices(value) else [value]


def _is_choices(value):
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], tuple)


def test_there_are_windows_choices_and_cuts_to_be_taken(all_examples):
    assert len(all_examples["spans"]) > len(FORMS["spans"][1])
    assert all_examples["choices"].num_choices == 2
    assert all_examples["classes"].num_cut > 0
