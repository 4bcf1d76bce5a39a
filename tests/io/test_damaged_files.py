"""Files of others: JSON within limits, and errors about content that name the file."""

import json
from pathlib import Path

import pytest

from t5x_like.io import files
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import read_json, read_jsonl, write_json


class Panic(BaseException):
    """As those of libraries in Rust."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "a.json is not valid JSON: nested deeper than 64 levels"),
        ('{"a":' * 65 + "1" + "}" * 65, "a.json is not valid JSON: nested deeper than 64 levels"),
        ('{"a": ' + "9" * 5000 + "}", "a.json is not valid JSON: Exceeds the limit"),
        ('{"a": 1, "b": 2, "a": 3}', "a.json is not valid JSON: the key 'a' occurs twice in an object"),
        ('{"a": NaN}', "a.json is not valid JSON: NaN is no number of JSON's"),
        ("[]", "a.json holds a value of type list, not an object"),
        ("null", "a.json holds a value of type NoneType, not an object"),
        ('{"a"', "a.json is not valid JSON: Expecting ':' delimiter"),
        ("\ufeff{}", "a.json is not valid JSON: Unexpected UTF-8 BOM"),
    ],
)
def test_json_of_others_is_refused_with_the_files_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.json") as caught:
        read_json(tmp_path / "a.json", dict)
    assert message in str(caught.value)


def test_json_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match=r"a\.json is not valid JSON: 'utf-8' codec"):
        read_json(tmp_path / "a.json")


def test_a_json_file_beyond_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_JSON_BYTES", 10)
    write_json(tmp_path / "a.json", {"a": "b" * 10})
    with pytest.raises(ValueError, match=r"a\.json has 24 bytes; a JSON file of at most 10 is read"):
        read_json(tmp_path / "a.json")


def test_the_deepest_json_is_read(tmp_path: Path) -> None:
    text = '{"a":' * 64 + "1" + "}" * 64
    (tmp_path / "a.json").write_text(text)
    assert read_json(tmp_path / "a.json") == json.loads(text)
    (tmp_path / "a.json").write_text("[1]")
    assert read_json(tmp_path / "a.json", list) == [1]


def test_a_line_nested_deeply_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n" + "[" * 100_000 + "\n{}\n")
    with pytest.raises(ValueError, match=r"a\.jsonl:2 is not valid JSON: nested deeper"):
        list(read_jsonl(tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    "error", [KeyError("x"), TypeError("x"), RecursionError(), Panic("index out of bounds")]
)
def test_any_error_about_content_names_the_file(error: BaseException) -> None:
    says = pytest.raises(ValueError, match=r"runs/a\.bin is damaged or cut short, .*; fetch it again")
    with says, refusing_damage("runs/a.bin"):
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), FileNotFoundError("a.bin")])
def test_what_is_not_about_content_passes(error: BaseException) -> None:
    with pytest.raises(type(error)), refusing_damage("a.bin"):
        raise error


def test_a_message_that_names_the_file_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match=r"^a\.bin lacks a header$"), refusing_damage("runs/a.bin"):
        raise ValueError("a.bin lacks a header")
