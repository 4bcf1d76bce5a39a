import numpy as np
import pytest

from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.batches.row_maker import RowMaker, cut_to_bucket
from t5x_like.text.heads import MentionClassification, MentionTyping
from t5x_like.text.heads.entity_head import mark_mentions
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.vocabularies.opening import open_tokenizer

ROW = {
    "text": "Ann Lee saw Oslo.",
    "head": [0, 7],
    "tail": "[12, 16]",
    "linked": [[0, 7, "ann"], [12, 16, "oslo"]],
    "label": "visits",
}
CLASSES = ("visits", "leaves")


@pytest.fixture
def names(tmp_path):
    file = tmp_path / "entities.vec"
    file.write_text("3 2\nbob 0.1 0.2\noslo 0.3 0.4\nann 0.5 0.6\n")
    return str(file)


@pytest.fixture
def word_pieces(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ann", "lee", "saw", "os", "##lo", "."]
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join([*pieces, "[", "]", "hd", "tl", "ent"]) + "\n")
    return open_tokenizer(str(file))


def batch_of(head, rows, tokenizer, length=32):
    examples = make_examples(head, [head.read(row) for row in rows], tokenizer, length=length)
    maker = RowMaker((), Lengths(length, 2), head.spec(), False, True)
    return maker.lay_out([[examples.example(index)] for index in range(len(examples))])


def test_markers_surround_mentions_and_entities_move_with_them():
    marked, spans = mark_mentions(
        "Ann Lee saw Oslo", [(0, 7, "[HD]"), (12, 16, "[TL]")], [(4, 7, 1), (12, 16, 2)]
    )
    assert marked == "[HD] Ann Lee [HD] saw [TL] Oslo [TL]"
    assert [marked[start:end] for start, end, _ in spans] == ["Lee", "Oslo"]


def test_markers_of_adjacent_and_nested_mentions_stay_apart():
    assert mark_mentions("ab", [(0, 1, "#"), (1, 2, "$")], [(1, 2, 5)]) == ("# a #$ b $", ((7, 8, 5),))
    marked, spans = mark_mentions("New York", [(0, 8, "#"), (4, 8, "$")], [(0, 8, 5)])
    assert marked == "# New $ York $ #"
    assert [marked[start:end] for start, end, _ in spans] == ["New $ York"]


def test_the_entity_is_at_the_first_token_of_its_mention(names, word_pieces):
    head = MentionClassification(classes=CLASSES, entities="linked", entity_names=names)
    batch = batch_of(head, [ROW], word_pieces)
    words = [word_pieces.piece(int(token)) for token in batch.encoder_input_tokens[0]]
    entities = batch.declared["entities"][0]
    places = np.flatnonzero(entities >= 0)
    assert [(words[place], int(entities[place])) for place in places] == [("ann", 2), ("os", 1)]
    assert words[:8] == ["[CLS]", "[", "hd", "]", "ann", "lee", "[", "hd"]
    assert batch.sequence_labels.tolist() == [0]


def test_entities_are_optional_and_need_no_offsets():
    head = MentionClassification(classes=CLASSES)
    batch = batch_of(head, [ROW], open_tokenizer("bytes"), length=64)
    assert batch.declared is None


def test_entities_that_are_cut_off_are_left_out(names, word_pieces):
    head = MentionClassification(classes=CLASSES, entities="linked", entity_names=names)
    batch = batch_of(head, [ROW, {**ROW, "linked": []}], word_pieces, length=12)
    assert batch.declared["entities"].max(axis=1).tolist() == [2, -1]


def test_shorter_buckets_cut_entities_too(names, word_pieces):
    head = MentionClassification(classes=CLASSES, entities="linked", entity_names=names)
    batch = cut_to_bucket(batch_of(head, [ROW], word_pieces, length=128))
    assert batch.declared["entities"].shape == batch.encoder_input_tokens.shape == (1, 32)


def test_parts_keep_the_entities_of_their_rows(names, word_pieces):
    head = MentionClassification(classes=CLASSES, entities="linked", entity_names=names)
    rows = [head.read(row) for row in (ROW, {**ROW, "linked": [[12, 16, "bob"]]})]
    part = make_examples(head, rows, word_pieces, length=32).part([1])
    assert part.example(0).declared["entities"].max() == 0


def test_a_mention_has_any_number_of_types(names, word_pieces):
    head = MentionTyping(classes=("person", "artist", "place"), entities="linked", entity_names=names)
    row = {**ROW, "mention": [0, 3], "label": ["person", "artist"]}
    batch = batch_of(head, [row], word_pieces)
    assert batch.sequence_classes.tolist() == [[1, 1, 0]]
    assert head.read(row).texts[0][0] == "[ENT] Ann [ENT] Lee saw Oslo."


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"head": [0, 18]}, "column 'head': the span \\[0, 18\\] .* outside of the text's 17 characters"),
        ({"head": [3, 3]}, "column 'head': the span \\[3, 3\\] is empty"),
        ({"head": None}, "column 'head' is null"),
        ({"head": [0]}, "column 'head': \\[start, end\\], two whole numbers, is expected"),
        ({"head": "Ann"}, "column 'head': "),
        (
            {"linked": [[0, 7, "an"]]},
            "column 'linked': the entity 'an' is none of the 3 .* did you mean 'ann'",
        ),
        ({"linked": [[0, 99, "ann"]]}, "column 'linked': the span \\[0, 99\\]"),
        ({"linked": [[0, 7, "ann"], [4, 9, "oslo"]]}, "the mention \\[4, 9\\] overlaps another"),
        ({"linked": [[0, 7]]}, "\\[\\[start, end, entity\\], …\\], .* is expected"),
    ],
)
def test_rows_that_cant_be_marked_are_refused(cells, message, names):
    head = MentionClassification(classes=CLASSES, entities="linked", entity_names=names)
    with pytest.raises(ValueError, match=message):
        head.read({**ROW, **cells})


def test_a_row_without_the_mentions_column_is_refused():
    with pytest.raises(ValueError, match="no column 'tail'; the columns are text, head"):
        MentionClassification(classes=CLASSES).read({"text": "Ann", "head": [0, 3]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"texts": ("{text}", "{head}")}, "mentions are places in one text, so give its column alone"),
        ({"texts": ("about {text}",)}, "so give its column alone"),
        ({"mentions": {}}, "give a marker for the column of each mention"),
        ({"entities": "linked"}, "need each other; give both, or neither"),
    ],
)
def test_settings_that_cant_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MentionClassification(classes=CLASSES, **settings)


def test_one_class_is_refused_as_for_other_texts():
    with pytest.raises(ValueError, match="at least two"):
        MentionClassification(classes=("a",))
