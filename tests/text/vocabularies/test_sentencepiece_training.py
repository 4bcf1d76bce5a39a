import random

import pytest

from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary
from t5x_like.text.vocabularies.sentencepiece_training import learn_sentencepiece


def write_corpus(path, num_lines=400, words_per_line=12):
    chooser = random.Random(0)
    words = ["".join(chooser.choices("abcdefghij", k=chooser.randint(2, 6))) for _ in range(150)]
    path.write_text("\n".join(" ".join(chooser.choices(words, k=words_per_line)) for _ in range(num_lines)))
    return path


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.seqio
def test_the_learned_vocabulary_has_the_asked_size_and_t5s_ids(tmp_path, kind):
    learn_sentencepiece([str(write_corpus(tmp_path / "a.txt"))], tmp_path / "v.model", size=120, kind=kind)
    vocabulary = load_vocabulary(tmp_path / "v.model")
    assert vocabulary.vocab_size == 220
    assert (vocabulary.pad_id, vocabulary.eos_id, vocabulary.unk_id, vocabulary.bos_id) == (0, 1, 2, -1)
    assert vocabulary.decode(vocabulary.encode("abc def")) == "abc def"


def test_learning_twice_gives_the_same_bytes_even_from_a_sample(tmp_path):
    corpus = write_corpus(tmp_path / "a.txt")
    for name in ("1.model", "2.model"):
        learn_sentencepiece(str(corpus), tmp_path / name, size=100, max_sentences=120, seed=3)
    assert (tmp_path / "1.model").read_bytes() == (tmp_path / "2.model").read_bytes()


@pytest.mark.seqio
def test_lines_longer_than_sentencepieces_limit_are_read(tmp_path):
    corpus = write_corpus(tmp_path / "a.txt", num_lines=1, words_per_line=8000)
    assert corpus.stat().st_size > 20_000
    learn_sentencepiece([str(corpus)], tmp_path / "v.model", size=100)
    assert load_vocabulary(tmp_path / "v.model", num_sentinels=0).vocab_size == 100


@pytest.mark.seqio
def test_asked_pieces_are_one_piece_each(tmp_path):
    corpus = write_corpus(tmp_path / "a.txt")
    learn_sentencepiece(
        [str(corpus)], tmp_path / "v.model", size=100, pieces=["▁ENTAILMENT"], character_coverage=1.0
    )
    assert len(load_vocabulary(tmp_path / "v.model").encode("ENTAILMENT")) == 1


def test_invalid_utf8_is_named_by_file_and_line(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"good line\nbad \xff line\n")
    with pytest.raises(ValueError, match=r"bad\.txt:2: invalid UTF-8 at byte 4"):
        learn_sentencepiece([str(tmp_path / "bad.txt")], tmp_path / "v.model", size=50)
    assert not (tmp_path / "v.model").exists()


def test_empty_and_missing_files_are_named(tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(ValueError, match=r"empty\.txt holds no text"):
        learn_sentencepiece([str(tmp_path / "empty.txt")], tmp_path / "v.model", size=50)
    with pytest.raises(ValueError, match="does not exist"):
        learn_sentencepiece([str(tmp_path / "none.txt")], tmp_path / "v.model", size=50)


def test_a_size_the_text_cannot_give_is_refused_with_the_largest_that_it_can(tmp_path):
    corpus = write_corpus(tmp_path / "a.txt", num_lines=5)
    with pytest.raises(ValueError, match=r"cannot learn 5000 pieces.*<="):
        learn_sentencepiece([str(corpus)], tmp_path / "v.model", size=5000)
