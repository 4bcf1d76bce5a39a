import numpy as np
import pytest

from t5x_like.text.objectives.knowledge_masking import KnowledgeMasking
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.objectives.sentence_pairs import SentencePairs
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of
from tests.text.objectives.encoder_rows import IDS, SEP, chosen, examples_of, runs, seeds, window_of

TEXT = "we met in new york, not in york or new yorkshire"


def masked_words(tokenizer, masking, text, count=200):
    """What is masked together, in words."""
    ids = ids_of(tokenizer)
    objective = MaskedLM(masking=masking)
    objective.check(Lengths(512, 2), ids)
    tokens = np.array(tokenizer.encode(text), np.int32)
    result = set()
    examples = objective.make([Text(tokens, len(tokens))] * count, seeds(count), Lengths(512, 2), ids)
    for example in examples:
        for start, end in runs(chosen(example)) if example.weights.any() else ():
            result.add(tokenizer.decode(example.targets[start:end].tolist()).strip())
    return result


@pytest.fixture
def word_list(tmp_path):
    file = tmp_path / "places.txt"
    file.write_text("new york\n\nin new york\nmet in\n", encoding="utf-8")
    return str(file)


@pytest.fixture
def word_pieces(tmp_path):
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "we",
        "met",
        "in",
        "new",
        "york",
        ",",
        "not",
        "or",
        "##shire",
    ]
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(pieces) + "\n")
    return str(file)


def test_listed_phrases_are_masked_as_a_whole_and_the_longest_at_the_leftmost_place(word_pieces, word_list):
    masking = KnowledgeMasking(noise_density=0.15, word_list=word_list, vocabulary=word_pieces)
    result = masked_words(open_tokenizer(word_pieces), masking, f"{TEXT} {TEXT}")
    assert "met in" in result
    assert "new york" in result
    assert "new yorkshire" in result  # widened to whole words
    alone = {"met", "new", "shire"}
    assert not alone & result
    assert {"york", "in"} <= result  # single words elsewhere


def test_bytes_find_phrases_at_a_text_s_start_and_after_spaces(tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("a b\n")
    masking = KnowledgeMasking(noise_density=0.2, word_list=str(file), vocabulary="bytes")
    result = masked_words(open_tokenizer("bytes"), masking, "a b xxx a b yyy")
    assert result == {"a b"}  # other words are too long for the share


def test_sentencepiece_finds_phrases_inside_texts(pieces_path, tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("this is\n")
    tokenizer = open_tokenizer(str(pieces_path))
    masking = KnowledgeMasking(noise_density=0.3, word_list=str(file), vocabulary=str(pieces_path))
    result = masked_words(tokenizer, masking, "this is a test and this is a test and this is it")
    assert not {"this", "is"} & result
    assert any("this is" in words for words in result)


def test_annotated_spans_are_units_in_both_segments():
    spans = [[[0, 3], [4, 6]], [[2, 5]], [[1, 3]]]
    window = window_of([[3, 3], [5], [2, 2]], spans=spans)
    objective = SentencePairs(masking=KnowledgeMasking(noise_density=0.5), short_rate=0.0)
    num_units = 0
    for key in range(200):
        texts, examples = examples_of(objective, window, 20, key=np.array([key, 1], np.uint64))
        for text, example in zip(texts, examples, strict=True):
            for start, end in text.spans.tolist():
                offset = 1 if start < text.second else 2
                assert len(set(example.weights[start + offset : end + offset])) == 1
                num_units += 1
    assert num_units > 200


def test_phrases_side_by_side_are_two_units():
    window = window_of([[8]], spans=[[[0, 4], [4, 8]]])
    objective = MaskedLM(masking=KnowledgeMasking(noise_density=0.45))
    firsts = set()
    for key in range(40):
        _, (example,) = examples_of(objective, window, 20, key=np.array([key, 1], np.uint64))
        assert example.weights.sum() == 4
        firsts.add(int(chosen(example)[0]))
    assert firsts == {1, 5}


def test_missing_settings_are_named(word_list, word_pieces, tmp_path):
    with pytest.raises(ValueError, match="set vocabulary to the task's"):
        KnowledgeMasking(word_list=word_list)
    masking = MaskedLM(masking=KnowledgeMasking())
    with pytest.raises(ValueError, match="set the task's spans_column, or the masking's word_list"):
        examples_of(masking, window_of([[5]], eos=SEP), 20)
    other = KnowledgeMasking(word_list=word_list, vocabulary="bytes")
    with pytest.raises(ValueError, match="vocabulary='bytes' of the word list is not the task's"):
        other.check(IDS)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    ids = ids_of(open_tokenizer(word_pieces))
    with pytest.raises(ValueError, match="is empty; write a word"):
        KnowledgeMasking(word_list=str(empty), vocabulary=word_pieces).check(ids)
    single = tmp_path / "single.txt"
    single.write_text("york\n")
    with pytest.raises(ValueError, match="every line of the word list"):
        KnowledgeMasking(word_list=str(single), vocabulary=word_pieces).check(ids)
    with pytest.raises(ValueError, match="does not exist"):
        KnowledgeMasking(word_list="nowhere.txt", vocabulary=word_pieces).check(ids)
