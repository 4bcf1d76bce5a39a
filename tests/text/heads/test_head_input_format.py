"""Inputs [CLS] A [SEP] B [SEP] equal those of the vocabulary's own library, and are cut as in BERT."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.heads import QuestionAnswering, TokenClassification
from t5x_like.text.heads.input_format import InputFormat, fit, input_format_of, num_input_ids
from t5x_like.text.heads.token_spans import encode_with_spans, encode_words, tokens_of
from t5x_like.text.vocabularies.opening import open_tokenizer

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", ",", ".", "##s", "##at", "c", "d", "m"]


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    file = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    letters = [
        letter for character in "abcdefghijklmnopqrstuvwxyz" for letter in (character, f"##{character}")
    ]
    pieces = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters])
    file.write_text("\n".join(pieces) + "\n")
    return open_tokenizer(str(file), 0)


@pytest.fixture(scope="module")
def roberta_like(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("roberta")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = {
        piece: index for index, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet, "<mask>"])
    }
    engine = Tokenizer(models.BPE(vocab=pieces, merges=[], unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    engine.save(str(folder / "tokenizer.json"))
    named = {
        "cls_token": "<s>",
        "sep_token": "</s>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps(named | {"mask_token": "<mask>", "unk_token": "<unk>"})
    )
    return open_tokenizer(str(folder), 0)


@pytest.fixture(scope="module")
def xlnet_like(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("xlnet")
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    engine = Tokenizer(
        models.Unigram(
            [(piece, 0.0) for piece in special] + [(f"▁{letter}", -1.0) for letter in "abcdefgh"], 0
        )
    )
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.add_special_tokens(special)
    engine.post_processor = processors.TemplateProcessing(  # as transformers has it for XLNet
        single="$A:0 <sep>:0 <cls>:2",
        pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
        special_tokens=[("<sep>", 4), ("<cls>", 3)],
    )
    engine.save(str(folder / "tokenizer.json"))
    named = {"cls_token": "<cls>", "sep_token": "<sep>", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps(named | {"pad_token": "<pad>", "mask_token": "<mask>", "unk_token": "<unk>"})
    )
    return open_tokenizer(str(folder), 0), engine


@pytest.mark.parametrize("texts", [("a b c",), ("a b c", "d e"), ("", "a")])
def test_xlnets_class_token_is_last_in_a_segment_of_its_own(xlnet_like, texts):
    tokenizer, engine = xlnet_like
    reference = engine.encode(*texts)
    framing = input_format_of(tokenizer, 64)
    framed = framing.join(tokenizer.encode_all(list(texts)))
    assert framed.tokens.tolist() == reference.ids
    assert framing.token_types(len(framed.tokens), framed.second).tolist() == reference.type_ids
    cut = input_format_of(tokenizer, 8).join([[9] * 20] * len(texts))
    assert (len(cut.tokens), cut.num_cut) == (8, 20 * len(texts) - 7 + len(texts))
    assert tokenizer.piece(int(cut.tokens[-1])) == "<cls>"


def test_xlnet_reads_the_context_before_the_question(xlnet_like):
    """Encode as transformers' reader of SQuAD does for tokenizers that pad on the left."""
    tokenizer, _ = xlnet_like
    context = "a b c d e f g h"
    row = {"question": "h a", "context": context, "answers": {"text": ["c d"], "answer_start": [4]}}
    none = row | {"answers": {"text": [], "answer_start": []}}
    rows = [QuestionAnswering(unanswerable=True).read(each) for each in (row, none)]
    examples = make_examples(QuestionAnswering(unanswerable=True), rows, tokenizer, length=32)
    inputs = np.asarray(examples.example(0).inputs)
    pieces = [tokenizer.piece(token_id) for token_id in inputs.tolist()]
    assert pieces == [*(f"▁{letter}" for letter in "abcdefgh"), "<sep>", "▁h", "▁a", "<sep>", "<cls>"]
    assert (examples.example(0).span, examples.example(1).span) == ((2, 3), (12, 12))
    assert (examples.context_start(0), examples.cls_position(0)) == (0, 12)
    assert list(np.asarray(examples.example(0).token_types)) == [0] * 9 + [1] * 3 + [2]


def test_xlnets_words_have_their_classes_at_their_positions(xlnet_like):
    tokenizer, _ = xlnet_like
    form = TokenClassification(classes=("O", "B-X"))
    rows = [form.read({"tokens": ["a", "b", "c"], "tags": [1, 0, 1]})]
    examples = make_examples(form, rows, tokenizer, length=16)
    example = examples.example(0)
    assert list(np.asarray(example.targets)) == [1, 0, 1, 0, 0]
    assert list(np.asarray(example.weights)) == [1, 1, 1, 0, 0]
    assert examples.character_offsets(0)[0].tolist() == [0, 1, 2]


def pieces_of(tokenizer, framed):
    return [tokenizer.piece(int(token_id)) for token_id in framed.tokens]


def test_a_pair_is_framed_as_the_tokenizers_library_does(wordpiece):
    from tokenizers.implementations import BertWordPieceTokenizer

    reference = BertWordPieceTokenizer(str(wordpiece.name), lowercase=True).encode(
        "The cat sat.", "dogs, on a mat"
    )
    framing = input_format_of(wordpiece, 64)
    framed = framing.join(wordpiece.encode_all(["The cat sat.", "dogs, on a mat"]))
    assert framed.tokens.tolist() == reference.ids
    assert framing.token_types(len(framed.tokens), framed.second).tolist() == reference.type_ids


def test_one_text_is_between_cls_and_sep_with_types_0(wordpiece):
    framing = input_format_of(wordpiece, 64)
    framed = framing.join(wordpiece.encode_all(["a cat"]))
    assert pieces_of(wordpiece, framed) == ["[CLS]", "a", "cat", "[SEP]"]
    assert framing.token_types(4, framed.second).tolist() == [0, 0, 0, 0]


def test_an_empty_text_leaves_its_place(wordpiece):
    framed = input_format_of(wordpiece, 64).join(wordpiece.encode_all(["", "cat"]))
    assert pieces_of(wordpiece, framed) == ["[CLS]", "[SEP]", "cat", "[SEP]"]


def test_robertas_pairs_have_two_separators_and_no_types(roberta_like):
    framing = input_format_of(roberta_like, 64)
    framed = framing.join(roberta_like.encode_all(["a", "b"]))
    assert pieces_of(roberta_like, framed) == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert framing.token_types(6, framed.second).tolist() == [0] * 6
    assert len(input_format_of(roberta_like, 8).join([[9] * 20, [9] * 20]).tokens) == 8


@given(st.lists(st.integers(0, 40), min_size=2, max_size=2), st.integers(2, 50))
def test_pairs_are_cut_token_by_token_from_the_longer(sizes, max_tokens):
    first, second = sizes
    while first + second > max_tokens:  # BERT's own loop
        if first > second:
            first -= 1
        else:
            second -= 1
    assert fit(sizes, max_tokens) == [first, second]


@given(st.lists(st.lists(st.integers(5, 9), max_size=30), min_size=1, max_size=2), st.integers(6, 40))
def test_no_row_is_longer_than_the_limit_and_cut_tokens_are_counted(texts, limit):
    framing = InputFormat(limit, start=(1,), between=(2,), end=(2,))
    framed = framing.join(texts)
    assert len(framed.tokens) <= limit
    assert len(framed.tokens) + framed.num_cut == sum(map(len, texts)) + 1 + len(texts)


def test_inputs_need_embeddings_for_sentinels_only_where_these_are_cls_and_sep(wordpiece):
    for num_sentinels in (0, 100):
        tokenizer = open_tokenizer(wordpiece.name, num_sentinels)
        assert num_input_ids(tokenizer, input_format_of(tokenizer, 64)) == wordpiece.vocab_size
    tokenizer = open_tokenizer("bytes", 100)
    assert num_input_ids(tokenizer, input_format_of(tokenizer, 64)) == 259 + 3  # a mask, then cls and sep


def test_a_limit_too_short_for_text_is_refused(wordpiece):
    with pytest.raises(ValueError, match=r"inputs_length=4 is too short for two texts.*raise it"):
        input_format_of(wordpiece, 4)


@given(st.text(alphabet="abc. ,\n", max_size=60))
def test_words_with_places_have_the_ids_of_the_whole_text(wordpiece, text):
    (pieces,) = encode_with_spans(wordpiece, [text])
    assert pieces.ids.tolist() == wordpiece.encode(text)
    for start, end in zip(pieces.starts, pieces.ends, strict=True):
        assert text[start:end].strip() == text[start:end] != ""


def test_an_answer_is_found_by_its_characters(wordpiece):
    text = "the cats sat, on a mat."
    (pieces,) = encode_with_spans(wordpiece, [text])
    start = text.index("sat")
    first, last = tokens_of(pieces, (start, start + len("sat, on")))
    assert [wordpiece.piece(int(token_id)) for token_id in pieces.ids[first : last + 1]] == ["sat", ",", "on"]
    with pytest.raises(ValueError, match="no token covers the answer"):
        tokens_of(pieces, (len(text), len(text) + 3))


def test_a_word_that_tokenises_to_nothing_is_unknown(wordpiece):
    assert encode_words(wordpiece, [["cat", "\u200b"]], 1)[0][1] == [1]
