import json
import os
import subprocess
import sys
import time

import pytest

from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.read_vocabulary import OUR_CHARACTERS
from t5x_like.text.vocabularies.training_corpus import Corpus
from t5x_like.text.vocabularies.vocabulary_training import VocabularyTraining

OUTPUTS = {
    "unigram": "v.model", "bpe": "v.model", "wordpiece": "v", "bytebpe": "v.json", "words": "v.json",
    "characters": "v.json",
}  # fmt: skip


def learn(corpus, output, **options):
    return VocabularyTraining(inputs=str(corpus), output=output, **options).run()


@pytest.mark.parametrize(("kind", "size"), [("wordpiece", 120), ("bytebpe", 300)])
def test_a_trained_vocabulary_has_the_given_size_and_merges_frequent_pairs(corpus, tmp_path, kind, size):
    assert learn(corpus, tmp_path / OUTPUTS[kind], kind=kind, size=size) == size
    tokenizer = open_tokenizer(tmp_path / OUTPUTS[kind], 0)
    assert tokenizer.vocab_size == size
    assert len(tokenizer.encode("the king")) < 7
    assert len(tokenizer.encode("qzx")) >= 1


def test_word_pieces_have_berts_special_ids_and_say_whether_they_lower_case(corpus, tmp_path):
    for lower_case in (True, False):
        folder = tmp_path / str(lower_case)
        learn(corpus, folder, kind="wordpiece", size=120, lower_case=lower_case)
        pieces = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        assert any(piece != piece.lower() for piece in pieces[5:]) is not lower_case
        written = json.loads((folder / "tokenizer_config.json").read_text())
        assert written == {"tokenizer_class": "BertTokenizer", "do_lower_case": lower_case}


@pytest.mark.parametrize("output", ["v.json", "folder"])
@pytest.mark.parametrize(
    "options", [{"kind": "bytebpe", "size": 300}, {"kind": "bpe", "end_of_word": True, "size": 110}]
)
def test_byte_pairs_are_written_as_one_file_or_as_two(corpus, tmp_path, output, options):
    learn(corpus, tmp_path / output, **options)
    tokenizer = open_tokenizer(tmp_path / output, 0)
    assert tuple(tokenizer.special.by_role.values())[:4] == (0, 1, None, 2)
    assert tokenizer.encode("the king") == open_tokenizer(tmp_path / output, 5).encode("the king")
    assert sorted(os.listdir(tmp_path / output) if output == "folder" else []) == (
        ["merges.txt", "tokenizer_config.json", "vocab.json"] if output == "folder" else []
    )


def test_sennrichs_pieces_tell_where_words_end(corpus, tmp_path):
    learn(corpus, tmp_path / "v.json", kind="bpe", end_of_word=True, size=110)
    tokenizer = open_tokenizer(tmp_path / "v.json", 0)
    pieces = [tokenizer.piece(token_id) for token_id in tokenizer.encode("the king spoke")]
    assert [piece.endswith("</w>") for piece in pieces].count(True) == 3
    assert tokenizer.decode(tokenizer.encode("the king spoke")) == "the king spoke"


def test_words_are_cut_off_by_count_and_by_size(tmp_path):
    (tmp_path / "a.txt").write_text("a a a, b b c\nA b a\n")
    for options, kept in {
        (("size", 50),): ["a", "b", ",", "A", "c"],
        (("size", 5),): ["a", "b"],
        (("size", 50), ("min_count", 2)): ["a", "b"],
        (("size", 50), ("lower_case", True)): ["a", "b", ",", "c"],
        (("size", 50), ("whitespace_only", True)): ["a", "b", "A", "a,", "c"],
    }.items():
        num_ids = learn(tmp_path / "a.txt", tmp_path / "v.json", kind="words", **dict(options))
        pieces = json.loads((tmp_path / "v.json").read_text())["pieces"]
        assert pieces == ["<pad>", "</s>", "<unk>", *kept]
        assert num_ids == len(pieces)


@pytest.mark.parametrize(
    ("characters", "message"), [(["a", "bc"], "'bc' among its characters"), ("aba", "a character twice")]
)
def test_a_character_is_one_code_point_and_there_once(tmp_path, characters, message):
    (tmp_path / "v.json").write_text(json.dumps({"format": OUR_CHARACTERS, "characters": characters}))
    with pytest.raises(ValueError, match=f"v.json' has {message}"):
        open_tokenizer(str(tmp_path / "v.json"))


def test_characters_are_kept_by_count_and_ends_of_lines_among_them(tmp_path):
    (tmp_path / "a.txt").write_text("bbb aa\nb aa\nc中\n", encoding="utf-8")
    learn(tmp_path / "a.txt", tmp_path / "v.json", kind="characters", size=7, min_count=2)
    assert json.loads((tmp_path / "v.json").read_text())["characters"] == "ab\n "
    tokenizer = open_tokenizer(tmp_path / "v.json", 0)
    assert tokenizer.encode("ab\nc") == [3, 4, 5, 2]
    assert tokenizer.decode([3, 4, 5, 2]) == "ab\n\ufffd"


@pytest.mark.parametrize("kind", [*OUTPUTS, "sennrich"])
def test_another_process_learns_the_same_bytes(corpus, tmp_path, kind):
    size = {"bytebpe": 300, "wordpiece": 130, "unigram": 90}.get(kind, 110)
    program = (
        "import sys; from t5x_like.text.vocabularies.vocabulary_training import VocabularyTraining\n"
        "kind, corpus, output, size = sys.argv[1:]\n"
        "bpe = {'kind': 'bpe', 'end_of_word': True} if kind == 'sennrich' else {'kind': kind}\n"
        "VocabularyTraining(inputs=corpus, output=output, size=int(size), max_sentences=300, seed=1, **bpe).run()"
    )
    for run, hash_seed in (("1", "1"), ("2", "2")):
        output = str(tmp_path / run / OUTPUTS.get(kind, "v.json"))
        command = [sys.executable, "-c", program, kind, str(corpus), output, str(size)]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "RAYON_NUM_THREADS": run}
        subprocess.run(command, check=True, env=environment)
    first, second = (sorted((tmp_path / run).rglob("*")) for run in ("1", "2"))
    assert [file.name for file in first] == [file.name for file in second]
    for one, other in zip(first, second, strict=True):
        assert one.is_dir() or one.read_bytes() == other.read_bytes()


def test_text_with_special_strings_teaches_no_special_piece(tmp_path):
    (tmp_path / "a.txt").write_text("</s> <pad> [MASK] the king\n" * 300)
    for kind, size in (("bytebpe", 270), ("wordpiece", 40), ("words", 60)):
        output = tmp_path / kind / OUTPUTS[kind]
        learn(tmp_path / "a.txt", output, kind=kind, size=size)
        tokenizer = open_tokenizer(output, 0)
        reserved = {token_id for token_id in tokenizer.special.by_role.values() if token_id is not None} - {
            tokenizer.special.unk
        }
        assert not reserved.intersection(tokenizer.encode("</s> <pad> [MASK] </s></s>"))


@pytest.mark.parametrize("kind", OUTPUTS)
def test_bad_text_is_named_by_file_and_line_and_nothing_is_written(tmp_path, kind):
    bad = {
        "bad.txt": (b"good line\nbad \xff line\n", r"bad\.txt:2: invalid UTF-8 at byte 4 of the line"),
        "utf16.txt": (
            "the king".encode("utf-16"),
            r"utf16\.txt:1: this is UTF-16 .* iconv -f UTF-16 -t UTF-8",
        ),
        "empty.txt": (b"\n \n", r"empty\.txt holds no text"),
    }
    for name, (content, message) in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            learn(tmp_path / name, tmp_path / "out" / OUTPUTS[kind], kind=kind, size=300)
    assert not (tmp_path / "out").exists()


def test_a_size_that_the_text_cannot_give_is_refused_with_the_one_it_can(corpus, tmp_path):
    for kind in ("wordpiece", "bytebpe"):
        with pytest.raises(ValueError, match=r"text\.txt gives \d+ ids, size is 9000: give more text"):
            learn(corpus, tmp_path / OUTPUTS[kind], kind=kind, size=9000)
    with pytest.raises(
        ValueError, match=r"so many characters that they need \d+ ids; set size to at least that"
    ):
        learn(corpus, tmp_path / "v", kind="wordpiece", size=20)
    with pytest.raises(ValueError, match="256 bytes and 3 special ids don't fit into 200 ids"):
        learn(corpus, tmp_path / "v.json", kind="bytebpe", size=200)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kind": "unigram", "lower_case": True},
            "lower_case is not for kind unigram, but for wordpiece, words, bpe with",
        ),
        ({"kind": "bpe", "min_count": 2}, "min_count is not for kind bpe, but for wordpiece"),
        (
            {"kind": "bpe", "end_of_word": True, "byte_fallback": True},
            "byte_fallback is not for kind bpe with end_of_word",
        ),
        ({"kind": "wordpiece", "pieces": ("A",)}, "pieces is not for kind wordpiece, but for unigram, bpe"),
        ({"kind": "words", "end_of_word": True}, "end_of_word is not for kind words"),
        (
            {"kind": "words", "output": "v.model"},
            r"kind words writes a \.json file, so output can't be 'v\.model'",
        ),
        ({"kind": "letters"}, "there is no kind 'letters'; choose from unigram, bpe, wordpiece"),
        ({"size": 0}, "size must be at least 1, got 0"),
    ],
)
def test_options_that_have_no_use_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        VocabularyTraining(
            **({"kind": "unigram", "inputs": "a.txt", "output": "v.model", "size": 100} | options)
        )


def test_another_vocabularys_configuration_is_not_overwritten(corpus, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Other"}')
    with pytest.raises(ValueError, match=r"tokenizer_config\.json belongs to another vocabulary"):
        learn(corpus, tmp_path, kind="wordpiece", size=120)
    assert os.listdir(tmp_path) == ["tokenizer_config.json"]


def test_of_many_lines_a_seeded_sample_is_drawn_evenly(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"line {index}\n" for index in range(20_000)))

    def drawn(seed):
        return list(Corpus(str(tmp_path / "a.txt"), max_bytes=100, max_lines=2000, seed=seed))

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    numbers = [int(line.split()[1]) for line in drawn(0)]
    assert 1800 < len(numbers) < 2200
    assert 0.4 < sum(number < 10_000 for number in numbers) / len(numbers) < 0.6
    whole = list(Corpus(str(tmp_path / "a.txt"), max_bytes=100, max_lines=20_001))
    assert len(whole) == 20_000


def test_lines_longer_than_memory_are_read_in_parts_that_lose_nothing(tmp_path):
    text = "中文 word " * 200_000  # 2.6 MB, and blocks of 1 MB that end inside a character
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + text.encode("utf-8"))
    parts = list(Corpus(str(tmp_path / "a.txt"), max_bytes=4192))
    assert max(len(part.encode("utf-8")) for part in parts) <= 4192
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_an_endless_repetition_takes_no_quadratic_time(corpus, tmp_path):
    (tmp_path / "a.txt").write_text(corpus.read_text() + "x" * 300_000 + "\n")
    start = time.monotonic()
    learn(tmp_path / "a.txt", tmp_path / "v.model", kind="unigram", size=60, character_coverage=1.0)
    assert time.monotonic() - start < 60  # a second; hours where every repetition counts
    assert open_tokenizer(tmp_path / "v.model", 0).encode("the")
