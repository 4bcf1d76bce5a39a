"""Tokenizers of GGUF files: the ids that llama.cpp and transformers read with the same files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from t5x_like.io.gguf_header import read_metadata
from t5x_like.text.vocabularies.gguf_vocabulary import GgufVocabulary, read_gguf_vocabulary
from t5x_like.text.vocabularies.opening import open_tokenizer, vocabulary_contents, vocabulary_files
from tests.references import FIXTURES

gguf = pytest.importorskip("gguf")

FOLDER = FIXTURES / "gguf"
IDS = json.loads((FOLDER / "ids.json").read_text(encoding="utf-8"))
TEXTS = IDS.pop("texts")
# Words of texts by way to cut them, with another engine of regular expressions.
WORDS = json.loads((FOLDER / "words.json").read_text(encoding="utf-8"))
WORD_TEXTS = WORDS.pop("texts")
BYTE_LEVEL = sorted(name for name in IDS if name.startswith(("smollm", "byte_level")))
# Texts whose ids differ, because transformers cuts words as GPT-2 does for a way that it doesn't know, adds no space
# before a text that begins with one, leaves out the rules that normalize for unigram models, and finds their special
# tokens in text.
UNLIKE_TRANSFORMERS = {
    "smollm": ["a  12"],
    "byte_level/smollm": ["1234567890 12", "a  12", "ﬁ Ⅷ"],
    "byte_level/falcon": ["1234567890 12", "a  12", "we'll", "<s> </s>", "!!!???"],
    "byte_level/default": ["1234567890 12", "a  12", "we'll", "<s> </s>", "ﬁ Ⅷ", "!!!???"],
    "llama": [" ", "   three"],
    "t5": ["cafe\u0301", "<s> </s>", "ﬁ Ⅷ"],
}
# llama.cpp leaves combining marks out of these models' own patterns, and the end of Korean syllables out of BERT's.
UNLIKE_LLAMA_CPP = {
    "byte_level/tekken": ["cafe\u0301"],
    "byte_level/gpt-4o": ["cafe\u0301"],
    "bert": ["한국어"],
}


def write(path: Path, source: str, *, others: Mapping[str, Any] | None = None, **changed: Any) -> Path:
    """Write a GGUF file with the tokenizer of a fixture and some other values; ``None`` leaves a value out."""
    metadata = read_metadata(FOLDER / f"{source}.gguf") | dict(others or {})
    metadata |= {f"tokenizer.ggml.{name}": value for name, value in changed.items()}
    writer = gguf.GGUFWriter(path, "llama")
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    for name, value in metadata.items():
        if value is not None and name != "general.architecture":
            add.get(type(value), writer.add_array)(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def file_of(name: str, folder: Path) -> Path:
    source, _, way = name.partition("/")
    return write(folder / "m.gguf", source, pre=way) if way else FOLDER / f"{source}.gguf"


def texts_with_other_ids(path: Path, ids: list[list[int]]) -> list[str]:
    """Return the texts that we read with other ids; the same beginnings mean the same texts."""
    result = open_tokenizer(path, 0).encode_all(TEXTS)
    return [text for text, actual, reference in zip(TEXTS, result, ids, strict=True) if actual != reference]


@pytest.mark.parametrize("name", sorted(IDS))
@pytest.mark.parametrize(
    ("program", "unlike"), [("llama.cpp", UNLIKE_LLAMA_CPP), ("transformers", UNLIKE_TRANSFORMERS)]
)
def test_texts_have_the_ids_that_other_programs_read(name, program, unlike, tmp_path):
    others = texts_with_other_ids(file_of(name, tmp_path), IDS[name][program])
    expected = unlike.get(name, [])
    assert len(others) == len(expected)
    assert all(text.startswith(beginning) for text, beginning in zip(others, expected, strict=True))


@pytest.mark.parametrize("way", sorted(WORDS))
def test_words_are_cut_as_the_models_own_files_say(way, tmp_path):
    tokenizer = open_tokenizer(file_of(f"byte_level/{way}", tmp_path), 0)
    whole = Tokenizer.from_str(
        json.dumps(read(tmp_path).definition)
    )  # merges within words, without cutting texts
    whole.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    expected = [
        [token_id for word in words for token_id in whole.encode(word, add_special_tokens=False).ids]
        for words in WORDS[way]
    ]
    assert tokenizer.encode_all(WORD_TEXTS) == expected
    assert expected != [whole.encode(text, add_special_tokens=False).ids for text in WORD_TEXTS]


@pytest.mark.parametrize("name", [*BYTE_LEVEL, "llama"])
def test_texts_come_back_from_their_ids(name, tmp_path):
    tokenizer = open_tokenizer(file_of(name, tmp_path), 0)
    assert [tokenizer.decode(tokenizer.encode(text)) for text in TEXTS] == TEXTS


def test_special_ids_are_those_of_the_file():
    tokenizer = open_tokenizer(FOLDER / "smollm.gguf", 0)
    special = tokenizer.special
    assert (special.bos, special.eos, special.pad, special.unk) == (1, 2, 2, 0)
    assert tokenizer.piece(1) == "<|im_start|>"
    assert (tokenizer.adds_bos, tokenizer.adds_eos) == (False, False)


def read(path: Path, **changed: Any) -> GgufVocabulary:
    return read_gguf_vocabulary(write(path / "m.gguf", "byte_level", **changed))


def test_texts_begin_with_bos_as_the_file_or_the_way_to_cut_words_says(tmp_path):
    assert not read(tmp_path, pre="qwen2", bos_token_id=560).configuration["add_bos_token"]
    assert read(tmp_path, pre="llama-bpe", bos_token_id=560).configuration["add_bos_token"]
    assert not read(tmp_path, pre="llama-bpe", bos_token_id=2**32 - 1).configuration["add_bos_token"]
    written = read(tmp_path, pre="llama-bpe", bos_token_id=560, add_bos_token=False, add_eos_token=True)
    assert [written.configuration[name] for name in ("add_bos_token", "add_eos_token")] == [False, True]
    last = {"SpecialToken": {"id": "<|end|>", "type_id": 0}}
    assert written.definition["post_processor"]["single"][-1] == last


def test_a_word_that_is_a_token_stays_whole_where_llama_cpp_ignores_merges(tmp_path):
    tokens = [*read_metadata(FOLDER / "byte_level.gguf")["tokenizer.ggml.tokens"][:-1], "zqx"]
    kinds = [1] * len(tokens)
    for way, is_whole in (("llama-bpe", True), ("qwen2", False)):
        path = write(tmp_path / f"{way}.gguf", "byte_level", pre=way, tokens=tokens, token_type=kinds)
        assert (open_tokenizer(path, 0).encode("zqx") == [len(tokens) - 1]) == is_whole


def test_user_defined_tokens_are_found_in_text_and_control_tokens_are_not():
    tokenizer = open_tokenizer(FOLDER / "byte_level.gguf", 0)
    assert tokenizer.piece(561) == "<think>"
    assert 561 in tokenizer.encode("so <think> on")
    assert 560 not in tokenizer.encode("so <|end|> on")
    assert tokenizer.decode([561, 560]) == "<think>"


def test_text_does_not_reach_tokens_of_a_unigram_model_that_are_of_no_use():
    assert read_metadata(FOLDER / "t5.gguf")["tokenizer.ggml.tokens"][-2:] == ["two  un", "▁used"]
    tokenizer = open_tokenizer(FOLDER / "t5.gguf", 0)
    assert max(tokenizer.encode("two  un used")) < tokenizer.vocab_size - 2


@pytest.mark.parametrize("name", ["llama", "t5", "bert"])
def test_texts_begin_and_end_as_llama_cpp_lets_them_where_the_file_is_silent(name):
    tokenizer = open_tokenizer(FOLDER / f"{name}.gguf", 0)
    expected = {"llama": (True, False), "t5": (False, True), "bert": (True, True)}
    assert (tokenizer.adds_bos, tokenizer.adds_eos) == expected[name]


def test_bert_has_its_own_special_ids_and_its_case(tmp_path):
    special = open_tokenizer(FOLDER / "bert.gguf", 0).special
    assert (special.pad, special.unk, special.cls, special.sep, special.mask) == (0, 1, 2, 3, 4)
    path = write(tmp_path / "cased.gguf", "bert", others={"tokenizer.ggml.normalizer.lowercase": False})
    assert open_tokenizer(path, 0).encode("The") != open_tokenizer(FOLDER / "bert.gguf", 0).encode("The")


def test_ids_that_a_sentencepiece_file_does_not_name_are_the_usual_ones(tmp_path):
    nameless = {f"{name}_token_id": None for name in ("bos", "eos", "unknown", "padding")}
    special = open_tokenizer(write(tmp_path / "m.gguf", "llama", **nameless), 0).special
    assert (special.unk, special.bos, special.eos) == (0, 1, 2)


def test_rows_that_only_fill_the_table_are_no_tokens():
    assert read_metadata(FOLDER / "byte_level.gguf")["tokenizer.ggml.tokens"][-1] == "[PAD562]"
    assert open_tokenizer(FOLDER / "byte_level.gguf", 0).vocab_size == 562


def test_files_of_the_tokenizer_are_those_that_hugging_face_reads(tmp_path):
    contents = vocabulary_contents(FOLDER / "smollm.gguf")
    assert sorted(contents) == ["tokenizer.json", "tokenizer_config.json"]
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    configuration = json.loads(contents["tokenizer_config.json"])
    assert configuration["bos_token"] == "<|im_start|>"
    assert "<|im_start|>" in configuration["chat_template"]
    assert open_tokenizer(tmp_path, 0) == open_tokenizer(FOLDER / "smollm.gguf", 0)


def test_several_chat_templates_keep_their_names(tmp_path):
    others = {"tokenizer.chat_templates": ["tools"], "tokenizer.chat_template.tools": "{{ 1 }}"}
    path = write(tmp_path / "m.gguf", "smollm", others=others)
    default, tools = read_gguf_vocabulary(path).configuration["chat_template"]
    assert default["name"] == "default"
    assert tools == {"name": "tools", "template": "{{ 1 }}"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pre": "superbpe"}, "tokenizer.ggml.pre is 'superbpe', a way to cut words that is not known"),
        ({"model": "rwkv"}, "tokenizer.ggml.model is 'rwkv'"),
        ({"model": "no_vocab"}, "the file holds no tokenizer; name one: vocabulary=PATH"),
        ({"merges": None}, "tokenizer.ggml.merges is missing"),
        ({"tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tokens": [1, 2]}, "tokenizer.ggml.tokens is missing, or holds no texts"),
        ({"model": "llama", "scores": None}, "tokenizer.ggml.scores is missing"),
        (
            {"model": "t5", "scores": [0.0] * 563, "unknown_token_id": 2**32 - 1},
            "tokenizer.ggml.unknown_token_id is missing",
        ),
        ({"token_type": [1, 1]}, "token_type has not a value for each of 563 tokens"),
        ({"tokens": ["a", "a"]}, "the token 'a' is there twice, id 1 again"),
    ],
)
def test_what_can_not_be_read_is_refused_by_name(changed, message, tmp_path):
    with pytest.raises(ValueError, match=r"m\.gguf") as caught:
        open_tokenizer(write(tmp_path / "m.gguf", "byte_level", **changed), 0)
    assert message in str(caught.value)


def test_a_file_without_a_tokenizer_has_no_vocabulary_files(tmp_path):
    assert vocabulary_files(write(tmp_path / "m.gguf", "byte_level", model="no_vocab")) == {}
    assert vocabulary_files(FOLDER / "smollm.gguf") == {"smollm.gguf": str(FOLDER / "smollm.gguf")}


def test_lower_case_is_not_for_gguf_files():
    with pytest.raises(ValueError, match="this file decides it"):
        open_tokenizer(FOLDER / "smollm.gguf", 0, lower_case=True)
