import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from t5x_like.text.vocabularies.opening import open_tokenizer
from tests.references import SHARED

BERT = SHARED / "data" / "vocab" / "bert_uncased_vocab.txt"
WORD_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "king", "é", "e", "中", "!"]


def write_word_pieces(folder, pieces=WORD_PIECES, **configuration):
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    if configuration:
        (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    return folder


def pieces_of(tokenizer, text):
    return [tokenizer.piece(token_id) for token_id in tokenizer.encode(text)]


def test_word_pieces_are_lower_cased_if_no_piece_has_a_capital(tmp_path):
    tokenizer = open_tokenizer(write_word_pieces(tmp_path / "a"), 0)
    assert pieces_of(tokenizer, "The KINGS é 中!") == ["the", "king", "##s", "e", "中", "!"]
    cased = open_tokenizer(write_word_pieces(tmp_path / "b", [*WORD_PIECES, "The"]), 0)
    assert pieces_of(cased, "The the é") == ["The", "the", "é"]


def test_a_configuration_file_decides_and_an_argument_overrides_it(tmp_path):
    folder = write_word_pieces(tmp_path / "a", do_lower_case=False)
    assert pieces_of(open_tokenizer(folder, 0), "The the") == ["[UNK]", "the"]
    assert pieces_of(open_tokenizer(folder, 0, lower_case=True), "The the") == ["the", "the"]
    accents = write_word_pieces(tmp_path / "b", do_lower_case=True, strip_accents=False)
    assert pieces_of(open_tokenizer(accents, 0), "É") == ["é"]
    chinese = write_word_pieces(tmp_path / "c", tokenize_chinese_chars=False)
    assert pieces_of(open_tokenizer(chinese, 0), "the中") == ["[UNK]"]


def test_berts_special_ids_and_the_sentinels_after_them(tmp_path):
    tokenizer = open_tokenizer(write_word_pieces(tmp_path / "a") / "vocab.txt", 7)
    special = tokenizer.special
    assert (special.pad, special.unk, special.cls, special.sep, special.mask) == (0, 1, 2, 3, 4)
    assert special.eos == special.sep
    assert tokenizer.vocab_size == len(WORD_PIECES) + 7


def test_berts_own_vocabulary_reads_the_example_of_its_readme():
    if not BERT.is_file():
        pytest.skip(f"BERT's vocabulary is not at {BERT}")
    tokenizer = open_tokenizer(BERT, 0)
    assert tokenizer.vocab_size == 30522
    assert pieces_of(tokenizer, "John Johanson's house") == ["john", "johan", "##son", "'", "s", "house"]
    assert tokenizer.encode("Hello world") == [7592, 2088]
    assert pieces_of(tokenizer, "naïve 中文, [MASK]") == ["naive", "中", "文", ",", "[", "mask", "]"]


def test_either_file_of_byte_pairs_or_their_directory_opens_the_same(every_kind):
    folder = Path(every_kind["bytebpe"])
    tokenizers = [open_tokenizer(path, 5) for path in (folder, folder / "vocab.json", folder / "merges.txt")]
    assert tokenizers[0] == tokenizers[1] == tokenizers[2]
    assert tokenizers[0].special.pad == 0


def test_half_of_a_pair_of_files_names_the_other(every_kind, tmp_path):
    for present, missing in (("vocab.json", "merges.txt"), ("merges.txt", "vocab.json")):
        home = tmp_path / present
        home.mkdir()
        shutil.copy(Path(every_kind["bytebpe"]) / present, home)
        with pytest.raises(ValueError, match=rf"needs the {missing} that belongs to it"):
            open_tokenizer(home / present)


def test_merges_of_another_vocabulary_are_named_by_line(every_kind, tmp_path):
    folder = Path(every_kind["bytebpe"])
    shutil.copy(folder / "vocab.json", tmp_path)
    first = (folder / "merges.txt").read_text().split("\n")[1]
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{first}\nzz qq\n")
    with pytest.raises(ValueError, match=r"merges\.txt:3: 'zzqq' is not in .* don't belong together"):
        open_tokenizer(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nth\n")
    with pytest.raises(ValueError, match=r"merges\.txt:2: a merge is two pieces with a space between"):
        open_tokenizer(tmp_path)


def test_byte_pairs_with_robertas_names_classify_with_the_beginning(every_kind, tmp_path):
    numbers = json.loads((Path(every_kind["bytebpe"]) / "vocab.json").read_text())
    names = {"<pad>": "<s>", "</s>": "<pad>", "<unk>": "</s>"}
    numbers = {names.get(piece, piece): number for piece, number in numbers.items()} | {
        "<mask>": len(numbers)
    }
    (tmp_path / "vocab.json").write_text(json.dumps(numbers))
    shutil.copy(Path(every_kind["bytebpe"]) / "merges.txt", tmp_path)
    special = open_tokenizer(tmp_path, 0).special
    assert (special.cls, special.pad, special.sep, special.eos, special.mask) == (
        0,
        1,
        2,
        2,
        len(numbers) - 1,
    )


def test_a_tokenizer_json_keeps_its_own_sentinels_and_adds_no_end(every_kind):
    tokenizer = open_tokenizer(every_kind["unigram json"], 100)
    assert tokenizer.num_sentinels == 2
    assert tokenizer.piece(tokenizer.vocab_size - 1) == "<extra_id_0>"
    assert pieces_of(tokenizer, "the </s> the the the") == ["▁the", "▁", "<", "/", "s", ">", *["▁the"] * 3]


def test_markup_listed_as_ordinary_is_not_reached_but_added_words_are(tmp_path, every_kind):
    definition = json.loads(Path(every_kind["unigram json"]).read_text())
    size = len(definition["model"]["vocab"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    definition["added_tokens"] += [
        {"id": size, "content": "<|im_start|>", **flags},
        {"id": size + 1, "content": "kingdom", **flags},
    ]
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    ids = open_tokenizer(tmp_path, 0).encode("<|im_start|>kingdom")
    assert size + 1 in ids
    assert size not in ids


def test_whole_words_that_look_special_are_unknown_where_words_are_split_at_spaces(tmp_path):
    pieces = ["<pad>", "</s>", "<unk>", "the"]
    words = {"format": "t5x_like words", "lower_case": False, "punctuation_apart": False, "pieces": pieces}
    (tmp_path / "words.json").write_text(json.dumps(words))
    assert open_tokenizer(tmp_path, 0).encode("the </s> <pad> <unk>") == [3, 2, 2, 2]


def test_tiktoken_files_need_the_name_of_their_encoding(every_kind, tmp_path):
    content = Path(every_kind["tiktoken"]).read_bytes()
    (tmp_path / "mine.tiktoken").write_bytes(content)
    with pytest.raises(ValueError, match=r"doesn't define how text is split .* cl100k_base\.tiktoken"):
        open_tokenizer(tmp_path / "mine.tiktoken")
    (tmp_path / "gpt2.tiktoken").write_bytes(content + b"not base64\n")
    with pytest.raises(ValueError, match=r"gpt2\.tiktoken:262 is not base64 and a rank: b'not base64'"):
        open_tokenizer(tmp_path / "gpt2.tiktoken")
    special = open_tokenizer(every_kind["tiktoken"], 0).special
    assert special.eos == 261


def test_other_files_are_refused_with_the_known_kinds(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "empty.model").write_bytes(b"")
    for name, message in {
        "notes.txt": "is no vocabulary; what can be opened is a SentencePiece .model, a tokenizer.json",
        "list.json": "list.json holds a value of type list, not an object",
        "broken.json": "is not valid JSON",
        "empty.model": "is not a SentencePiece model: it has no pieces",
        ".": "holds no vocabulary: none of tokenizer.json, .*; name one of its files|is not a SentencePiece model",
    }.items():
        with pytest.raises(ValueError, match=message):
            open_tokenizer(tmp_path / name)
    with pytest.raises(ValueError, match="num_sentinels must not be negative, got -1"):
        open_tokenizer("bytes", -1)
    with pytest.raises(ValueError, match="does not exist"):
        open_tokenizer(tmp_path / "absent")


def test_a_damaged_tokenizer_json_is_named(tmp_path, every_kind):
    definition = json.loads(Path(every_kind["unigram json"]).read_text())
    del definition["model"]["vocab"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    with pytest.raises(ValueError, match=r"is not a tokenizer\.json: KeyError 'vocab'"):
        open_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({**definition, "model": {"type": "Odd", "vocab": {"a": 0}}})
    )
    with pytest.raises(
        ValueError, match=r"tokenizer.json.* is damaged or cut short, or another kind of file"
    ):
        open_tokenizer(tmp_path)


def test_a_tokenizer_json_without_its_unknown_piece_says_so_when_it_needs_it(tmp_path):
    model = {"type": "WordLevel", "vocab": {"the": 0}, "unk_token": "<unk>"}
    split = {"type": "WhitespaceSplit"}
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": split, "model": model})
    )
    tokenizer = open_tokenizer(tmp_path, 0)
    assert tokenizer.encode("the the") == [0, 0]
    with pytest.raises(ValueError, match="WordLevel error: Missing"):
        tokenizer.encode("the king")


def test_lower_case_is_refused_where_the_file_decides(every_kind):
    for kind in ("t5 pieces", "unigram json"):
        with pytest.raises(ValueError, match="lower_case is for word pieces and byte pairs"):
            open_tokenizer(every_kind[kind], lower_case=True)


def test_a_directory_of_t5s_is_read_by_its_model_and_others_by_their_json(every_kind, tmp_path):
    shutil.copy(every_kind["t5 pieces"], tmp_path / "spiece.model")
    shutil.copy(every_kind["unigram json"], tmp_path / "tokenizer.json")
    assert open_tokenizer(tmp_path, 0).kind == "tokenizer.json"
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "T5TokenizerFast"}')
    assert open_tokenizer(tmp_path, 0).kind == "sentencepiece"


def test_a_file_written_anew_is_read_anew(tmp_path):
    folder = write_word_pieces(tmp_path / "a")
    assert open_tokenizer(folder, 0).vocab_size == len(WORD_PIECES)
    write_word_pieces(folder, [*WORD_PIECES, "more", "words"])
    assert open_tokenizer(folder, 0).vocab_size == len(WORD_PIECES) + 2


def test_opening_imports_neither_tensorflow_nor_seqio(every_kind):
    program = (
        "import sys, time\n"
        "for absent in ('tensorflow', 'tensorflow_text', 'seqio', 'jax'): sys.modules[absent] = None\n"
        "start = time.monotonic()\n"
        "from t5x_like.text.vocabularies.opening import open_tokenizer\n"
        "from t5x_like.text.vocabularies.vocabulary_ids import ids_of\n"
        "for path in sys.argv[1:]: ids_of(open_tokenizer(path, 10)); open_tokenizer(path, 10).encode('the king')\n"
        "print(time.monotonic() - start)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *every_kind.values()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 10  # under a second on an idle machine


@pytest.mark.parametrize("name", ["spiece.model", "tokenizer.json", "vocab.txt", "vocab.json", "a.gguf"])
def test_a_file_that_git_lfs_holds_is_named_with_the_command(tmp_path, name):
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n")
    with pytest.raises(ValueError, match=rf"{name} is a Git LFS pointer.*git lfs pull"):
        open_tokenizer(str(tmp_path / name))
