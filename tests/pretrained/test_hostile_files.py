"""Small files that ask for much: each is refused by the name of the field, before anything is made of it."""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from t5x_like.io.files import read_json
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.gguf_files import read_gguf
from t5x_like.pretrained.hugging_face import configuration_of
from t5x_like.pretrained.sentence_transformers import find_sentence_transformer
from t5x_like.pretrained.tokenizer_files import special_ids_of
from t5x_like.text.vocabularies import definitions, hugging_face_tokenizer
from t5x_like.text.vocabularies.opening import open_tokenizer
from tests.references import ROOT

MODELS = ROOT / "tests" / "fixtures" / "models"


def config_with(tmp_path: Path, model: str, **fields: Any) -> Path:
    config = read_json(MODELS / model / "config.json")
    (tmp_path / "config.json").write_text(json.dumps(config | fields))
    return tmp_path


@pytest.mark.parametrize(
    ("model", "fields", "message"),
    [
        (
            "llama",
            {"num_hidden_layers": 2**31},
            "num_hidden_layers is 2,147,483,648; at most 10,000 is possible",
        ),
        ("t5_v11", {"num_layers": 2**31}, "num_layers is 2,147,483,648; at most 10,000"),
        ("gpt2", {"n_layer": 10**30}, "n_layer is 1,000,000"),
        ("llama", {"hidden_size": 2**31}, "hidden_size is 2,147,483,648; at most 16,777,216"),
        ("bert_mlm", {"vocab_size": 2**40}, "vocab_size is 1,099,511,627,776; at most"),
        ("bert_mlm", {"type_vocab_size": -1}, "is -1; give"),
        ("llama", {"rope_scaling": [1]}, "config.json"),
        ("llama", {"model_type": ["llama"]}, "config.json"),
        (
            "gpt_neo",
            {"attention_types": [[["global"], 2**31]]},
            "attention_types' layers is 2,147,483,648; at most",
        ),
        ("albert_seqcls", {"inner_group_num": 2**20}, "the number of layers is 2,097,152; at most 10,000"),
        ("llama", {"hidden_act": {}}, "hidden_act is {}"),
    ],
)
def test_a_config_names_the_field(tmp_path: Path, model: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"config\.json") as caught:
        configuration_of(config_with(tmp_path, model, **fields))
    assert message in str(caught.value)


@pytest.mark.parametrize("content", ["[" * 100_000 + "]" * 100_000, "[]", "3", ""])
def test_a_config_that_is_no_object_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json (is not valid JSON|holds a value)"):
        configuration_of(tmp_path)


def test_the_sizes_of_a_configuration_in_python_have_the_same_limits() -> None:
    with pytest.raises(ValueError, match=r"num_encoder_layers is 2,147,483,648; at most 10,000 is possible"):
        T5Config(
            vocab_size=384,
            model_dim=8,
            mlp_dim=8,
            num_heads=1,
            head_dim=8,
            num_encoder_layers=2**31,
            num_decoder_layers=1,
        )


@pytest.mark.parametrize("ids", [{"eos_token_id": 2**31}, {"pad_token_id": "0"}, {"eos_token_id": [1, {}]}])
def test_a_special_id_that_can_be_none_is_refused(ids: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"config\.json: {next(iter(ids))} is .*; ids are whole numbers"):
        special_ids_of({"model_type": "t5", **ids})


def tokenizer_with(tmp_path: Path, **model: Any) -> Path:
    result = definitions.words(["<pad>", "</s>", "<unk>", "the"], lower_case=False, punctuation_apart=True)
    result["model"] = result["model"] | model
    (tmp_path / "tokenizer.json").write_text(json.dumps(result))
    return tmp_path


@pytest.mark.parametrize("number", [2**31, 2**70, -1, 1.5, "1", None, True])
def test_an_id_that_a_vocabulary_of_this_size_has_not_is_refused(tmp_path: Path, number: Any) -> None:
    home = tokenizer_with(tmp_path, vocab={"<unk>": 0, "the": number})
    with pytest.raises(
        ValueError, match=r"the id of the piece 'the' is .*; ids of 2 pieces are whole numbers below"
    ):
        open_tokenizer(home)


@pytest.mark.parametrize("model", [{"type": "Unigram"}, {"vocab": None}, {"vocab": []}, {"unk_token": [1]}])
def test_a_damaged_tokenizer_is_named(tmp_path: Path, model: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tokenizer"):
        open_tokenizer(tokenizer_with(tmp_path, **model))


class Panic(BaseException):
    """As those of libraries in Rust."""


def test_a_panic_of_the_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(definition: Any) -> None:
        raise Panic("called `Option::unwrap()` on a `None` value")

    monkeypatch.setattr(hugging_face_tokenizer, "_build", panic)
    with pytest.raises(ValueError, match=r"tokenizer\.json.* is damaged or cut short, .*Panic: called"):
        open_tokenizer(tokenizer_with(tmp_path, vocab={"<unk>": 0, "panics": 1}))


def header(*, num_tensors: int = 0, values: bytes = b"", num_values: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_values) + values


def value(kind: int, content: bytes) -> bytes:
    return struct.pack("<Q", 4) + b"name" + struct.pack("<I", kind) + content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(num_tensors=2**62), "it says that 4,611,686,018,427,387,904 tensors follow"),
        (header(num_values=2**62), "4,611,686,018,427,387,904 metadata values follow"),
        (header(num_values=1, values=value(9, struct.pack("<IQ", 0, 2**60))), "values of an array follow"),
        (
            header(num_values=1, values=value(9, struct.pack("<IQ", 9, 1) + b"0" * 900)),
            "an array is in an array",
        ),
        (
            header(num_values=1, values=value(8, struct.pack("<Q", 2**60))),
            "a text of 1,152,921,504,606,846,976 bytes",
        ),
        (header(num_values=1, values=value(99, b"0" * 20)), "there is no value of type 99"),
        (
            header(num_tensors=1, values=struct.pack("<Q", 1) + b"w" + struct.pack("<I", 9) + b"0" * 99),
            "9 dimensions",
        ),
        (b"GGUF\0\0\0\3" + b"\0" * 900, "it is of the other byte order"),
        (b"GG", "it does not begin with GGUF"),
        (b"GGUF\3\0\0\0\1", "it ends before a tensor count"),
    ],
)
def test_a_gguf_file_that_counts_more_than_it_holds_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    pytest.importorskip("gguf")
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=r"m\.gguf is damaged or cut short, or no GGUF file") as caught:
        read_gguf(tmp_path / "m.gguf")
    assert message in str(caught.value)


def test_a_module_outside_of_its_directory_is_refused(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bert_mlm" / "config.json", tmp_path)
    modules = [{"type": "m.Transformer", "path": ""}, {"type": "m.Pooling", "path": "../other"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=r"modules\.json names the folder '\.\./other'; only folders in"):
        find_sentence_transformer(tmp_path)
