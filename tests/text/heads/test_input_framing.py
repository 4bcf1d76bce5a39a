"""Framings of a decoder's inputs: figure 1 of Radford et al. 2018, and rows for vocabularies without [CLS]."""

import json

import numpy as np
import pytest

from t5x_like.text import registry
from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import (
    InputFraming,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    SequenceClassification,
)
from t5x_like.text.heads.input_format import input_format_of, num_input_ids
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.vocabularies.opening import open_tokenizer

START, DELIMITER, EXTRACT = (f"<extra_id_{index}>" for index in range(3))
ONE = SequenceClassification(texts=("{text}",), classes=("no", "yes"))
PAIR = SequenceClassification(texts=("{premise}", "{hypothesis}"), classes=("no", "yes"))
SIMILAR = Regression(texts=("{first}", "{second}"), lowest=0.0, highest=5.0)


@pytest.fixture(scope="module")
def gpt_vocabulary(tmp_path_factory):
    """A byte-level vocabulary with one special id, as GPT-2's."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("gpt")
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|endoftext|>"]
    engine = Tokenizer(
        models.BPE(vocab={piece: token_id for token_id, piece in enumerate(pieces)}, merges=[])
    )
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.add_special_tokens(["<|endoftext|>"])
    engine.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return str(folder)


@pytest.fixture(scope="module")
def tokenizer(gpt_vocabulary):
    return open_tokenizer(gpt_vocabulary, 3)


def pieces_of(tokenizer, form, row, **options):
    """Return the pieces of every input row of an example."""
    options = {"framing": InputFraming(), "length": 32, **options}
    example = make_examples(form, [form.read(row)], tokenizer, **options).example(0)
    return [
        [tokenizer.piece(int(token_id)) for token_id in np.asarray(each.inputs)]
        for each in example.choices or (example,)
    ]


def test_a_text_to_classify_is_between_start_and_extract(tokenizer):
    assert pieces_of(tokenizer, ONE, {"text": "ab"}) == [[START, "a", "b", EXTRACT]]


def test_entailment_has_a_delimiter_between_premise_and_hypothesis(tokenizer):
    row = {"premise": "ab", "hypothesis": "c"}
    assert pieces_of(tokenizer, PAIR, row) == [[START, "a", "b", DELIMITER, "c", EXTRACT]]


def test_similarity_is_read_in_both_orders(tokenizer):
    framed = pieces_of(
        tokenizer, SIMILAR, {"first": "ab", "second": "c"}, framing=InputFraming(both_orders=True)
    )
    assert framed == [
        [START, "a", "b", DELIMITER, "c", EXTRACT],
        [START, "c", DELIMITER, "a", "b", EXTRACT],
    ]


def test_each_choice_has_a_row_with_the_context(tokenizer):
    form = MultipleChoice(context="{context}", choices=("{first}", "{second}", "{third}"))
    framed = pieces_of(tokenizer, form, {"context": "ab", "first": "c", "second": "d", "third": "e"})
    assert framed == [[START, "a", "b", DELIMITER, choice, EXTRACT] for choice in "cde"]


def test_an_answer_is_a_span_of_the_context_after_the_question(tokenizer):
    row = {"question": "?", "context": "a b", "answers": {"text": ["b"], "answer_start": [2]}}
    form = QuestionAnswering(unanswerable=True)
    none = row | {"answers": {"text": [], "answer_start": []}}
    examples = make_examples(
        form, [form.read(row), form.read(none)], tokenizer, length=32, framing=InputFraming()
    )
    assert pieces_of(tokenizer, form, row) == [[START, "?", DELIMITER, "a", "Ġ", "b", EXTRACT]]
    assert (examples.example(0).span, examples.example(1).span) == ((4, 5), (6, 6))
    assert (examples.context_start(0), examples.cls_position(0)) == (3, 6)


def test_any_piece_of_the_vocabulary_can_frame(tokenizer):
    framing = InputFraming(start="<|endoftext|>", delimiter="$", extract="<|endoftext|>")
    framed = pieces_of(tokenizer, PAIR, {"premise": "ab", "hypothesis": "c"}, framing=framing)
    assert framed == [["<|endoftext|>", "a", "b", "$", "c", "<|endoftext|>"]]


def test_framed_rows_are_cut_to_the_limit_and_keep_their_tokens(tokenizer):
    framed = pieces_of(tokenizer, PAIR, {"premise": "abcdef", "hypothesis": "xy"}, length=8)
    assert framed == [[START, "a", "b", "c", DELIMITER, "x", "y", EXTRACT]]


def test_without_cls_each_text_ends_with_the_end_of_sequence(gpt_vocabulary):
    own = open_tokenizer(gpt_vocabulary, 0)
    framed = pieces_of(own, PAIR, {"premise": "ab", "hypothesis": "c"}, framing=None)
    assert framed == [["a", "b", "<|endoftext|>", "c", "<|endoftext|>"]]


def test_inputs_need_embeddings_for_the_tokens_that_frame_them(gpt_vocabulary, tokenizer):
    own = open_tokenizer(gpt_vocabulary, 0)
    assert num_input_ids(tokenizer, input_format_of(tokenizer, 16, InputFraming())) == own.vocab_size + 3
    assert num_input_ids(own, input_format_of(own, 16)) == own.vocab_size


def test_a_framing_token_that_the_vocabulary_lacks_is_named(gpt_vocabulary):
    own = open_tokenizer(gpt_vocabulary, 0)
    with pytest.raises(
        ValueError, match=r"no piece '<extra_id_0>' for an InputFraming; num_sentinels=3 of the"
    ):
        input_format_of(own, 16, InputFraming())
    with pytest.raises(ValueError, match=r"no piece '<endoftext>'.* did you mean '<\|endoftext\|>'\?"):
        input_format_of(own, 16, InputFraming(start="<endoftext>", delimiter="$", extract="$"))


def test_both_orders_of_a_single_text_are_refused(tokenizer):
    with pytest.raises(ValueError, match=r"this task has no such pair, leave both_orders out of its InputFr"):
        pieces_of(tokenizer, ONE, {"text": "a"}, framing=InputFraming(both_orders=True))


def test_batches_have_both_orders_of_a_number_side_by_side(gpt_vocabulary, tmp_path):
    (tmp_path / "pairs.tsv").write_text("first\tsecond\tscore\nab\tc\t1.5\nd\tef\t5\n")
    task = TextTask(
        name="similar_letters",
        vocabulary=gpt_vocabulary,
        num_sentinels=3,
        files={"train": str(tmp_path / "pairs.tsv")},
        input_template="{first} {second}",
        target_template="{score}",
        head=Regression(texts=("{first}", "{second}"), label="score", lowest=0.0, highest=5.0),
        framing=InputFraming(both_orders=True),
    )
    registry.register([task])
    config = LoaderConfig(
        mixture=task.name, batch_size=2, inputs_length=16, targets_length=2, layout="encoder", shuffle=False
    )
    loader = build_loader(config)
    batch = next(loader)
    assert batch.encoder_input_tokens.shape == (2, 2, 16)
    assert batch.sequence_values.tolist() == [1.5, 5.0]
    lengths = (batch.encoder_segment_ids > 0).sum(-1)
    assert lengths.tolist() == [[6, 6], [6, 6]]
    first, second = (batch.encoder_input_tokens[0, order, 1:5].tolist() for order in (0, 1))
    assert first == [*second[2:], second[1], second[0]]
    assert loader.num_rows_of_example == 2
