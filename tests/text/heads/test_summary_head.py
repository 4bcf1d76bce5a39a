"""Extractive summaries: what is read, labeled, chosen and refused."""

import numpy as np
import pytest

from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.heads import ExtractiveSummarization, InputFraming
from t5x_like.text.vocabularies.opening import open_tokenizer

HEAD = ExtractiveSummarization()
SENTENCES = ["a b c d", "e f", "a b c e", "g h"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]) + "\n")
    return open_tokenizer(str(file), 0)


def examples_of(tokenizer, rows, length=64, head=HEAD):
    return make_examples(head, [head.read(row) for row in rows], tokenizer, length=length)


def scores_for(starts, logits, length):
    scores = np.zeros((length, 2), np.float32)
    scores[starts, 1] = logits
    return scores


def answer(row, logits, head=HEAD):
    starts = np.arange(len(logits)) * 3
    return head.answers_of([row], [scores_for(starts, logits, 40)], lambda _: starts)[0]


def test_each_sentence_has_a_cls_with_its_label_and_types_take_turns(tokenizer):
    examples = examples_of(tokenizer, [{"document": SENTENCES, "summary": "e f"}])
    example = examples.example(0)
    assert example.inputs is not None
    assert example.targets is not None
    pieces = "".join(tokenizer.piece(token) for token in example.inputs.tolist())
    assert pieces == "[CLS]abcd[SEP][CLS]ef[SEP][CLS]abce[SEP][CLS]gh[SEP]"
    is_cls = example.inputs == example.inputs[0]
    np.testing.assert_array_equal(example.weights, is_cls.astype(np.float32))
    np.testing.assert_array_equal(example.targets[is_cls], [0, 1, 0, 0])
    np.testing.assert_array_equal(example.token_types, [0] * 6 + [1] * 4 + [0] * 6 + [1] * 4)


def test_a_text_is_split_at_full_stops_and_lines(tokenizer):
    row = HEAD.read({"document": "It rained.  A ferry ran\taground! Why?\nNobody knows", "summary": None})
    assert row.words == ("It rained.", "A ferry ran aground!", "Why?", "Nobody knows")
    assert HEAD.read({"document": '["a b", "c"]'}).words == ("a b", "c")


def test_sentences_that_do_not_fit_are_left_out_whole_and_counted(tokenizer):
    rows = [{"document": SENTENCES, "summary": "g h"}, {"document": ["a"], "summary": "a"}]
    examples = examples_of(tokenizer, rows, length=12)
    assert examples.sizes.tolist() == [10, 3]
    assert (examples.num_cut, examples.cut_in_all) == (1, 2)
    assert examples.character_offsets(0)[0].tolist() == [0, 6]


def test_a_first_sentence_that_is_too_long_is_cut(tokenizer):
    examples = examples_of(tokenizer, [{"document": ["a b c d e f g h", "a"], "summary": "a"}], length=8)
    assert examples.sizes.tolist() == [8]
    assert (examples.num_cut, examples.cut_in_all) == (1, 2)


def test_a_summary_has_the_best_sentences_in_their_order():
    row = HEAD.read({"document": SENTENCES})
    assert answer(row, [0.1, 3.0, -2.0, 2.0]) == "a b c d\ne f\ng h"
    two = ExtractiveSummarization(num_sentences=2)
    assert answer(row, [0.1, 3.0, -2.0, 2.0], two) == "e f\ng h"


def test_a_repeated_trigram_is_blocked():
    row = HEAD.read({"document": SENTENCES})
    logits = [3.0, 1.0, 2.0, 0.0]
    assert answer(row, logits) == "a b c d\ne f\ng h"
    assert answer(row, logits, ExtractiveSummarization(trigram_blocking=False)) == "a b c d\ne f\na b c e"


def test_sentences_beyond_the_length_are_never_chosen():
    row = HEAD.read({"document": SENTENCES})
    assert answer(row, [0.0, 1.0]) == "a b c d\ne f"
    (shares,) = HEAD.probabilities([row], [scores_for([0, 3], [0.0, 2.0], 9)], lambda _: np.array([0, 3]), ())
    assert shares.predicted == [0.5, pytest.approx(0.880797)]
    assert isinstance(shares.by_class, dict)
    assert list(shares.by_class.items())[1:3] == [("e f", pytest.approx(0.880797)), ("a b c e", 0.0)]


def test_the_first_sentences_and_the_oracle_are_scored_for_comparison():
    rows = [HEAD.read({"document": SENTENCES, "summary": "g h"}), HEAD.read({"document": ["a"]})]
    assert HEAD.baseline_answers(rows, []) == ["a b c d\ne f\na b c e", "a"]
    details = HEAD.details_of(rows, [np.zeros(0)] * 2)
    assert details == [{"oracle": ["g h"]}, {}]
    written = [{"target": HEAD.written_target(rows[0], ()), **details[0]}, {"target": None, **details[1]}]
    assert HEAD.further_scores(written)["oracle"]["rouge2"] == pytest.approx(100.0)
    assert HEAD.further_scores(written[1:]) == {}


@pytest.mark.parametrize("summary", [None, "", " \n", []])
def test_a_row_without_a_summary_has_no_label(summary):
    row = HEAD.read({"document": SENTENCES, "summary": summary})
    assert not HEAD.is_labeled(row)
    assert set(row.tags) == {-1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"document": "  ", "summary": "a"}, "column 'document' has no sentence; give a text or a list"),
        ({"document": [], "summary": "a"}, "has no sentence"),
        ({"document": None, "summary": "a"}, "column 'document' is null"),
        ({"summary": "a"}, "no column 'document'; the columns are summary"),
        ({"document": {"a": 1}, "summary": "a"}, 'holds {"a": 1}; a list of sentences or a text is needed'),
        ({"document": [["a"]], "summary": "a"}, "a list of sentences or a text is needed"),
        ({"document": "a", "summary": {"b": 1}}, "column 'summary' holds .*a list of sentences or a text"),
    ],
)
def test_a_bad_row_is_named(row, message):
    with pytest.raises(ValueError, match=message):
        HEAD.read(row)


def test_settings_that_make_no_summary_are_refused(tokenizer):
    with pytest.raises(ValueError, match="num_sentences is 0; give at least 1 sentence"):
        ExtractiveSummarization(num_sentences=0)
    with pytest.raises(ValueError, match=r"leave out the task's InputFraming"):
        HEAD.input_format(tokenizer, 16, InputFraming())
    with pytest.raises(ValueError, match=r"no id such as \[CLS\] to begin each sentence"):
        HEAD.input_format(open_tokenizer("bytes", 0), 16, None)
