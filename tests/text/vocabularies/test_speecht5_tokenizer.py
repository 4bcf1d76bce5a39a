"""SpeechT5's characters: the ids of transformers' SpeechT5Tokenizer, from the files that it writes and older ones."""

import json
import shutil
from pathlib import Path

import pytest

from t5x_like.text.vocabularies.opening import open_tokenizer, vocabulary_files
from tests.references import FIXTURES

FOLDER = FIXTURES / "speech/tokenizer"
RECORDED = json.loads((FOLDER / "ids.json").read_text(encoding="utf-8"))
MASK, BLANK, UNKNOWN = RECORDED["special"]["<mask>"], RECORDED["special"]["<ctc_blank>"], 3


@pytest.mark.parametrize("row", RECORDED["rows"], ids=lambda row: repr(row["text"]))
def test_texts_have_the_ids_of_transformers_and_its_decoded_text(row: dict) -> None:
    tokenizer = open_tokenizer(FOLDER, 0)
    assert [*tokenizer.encode(row["text"]), tokenizer.special.eos] == row["ids"]
    if UNKNOWN not in row["ids"]:  # whose text is ⁇ here, as in all of SentencePiece's models
        assert tokenizer.decode(row["ids"]) == row["decoded"]


def test_added_tokens_have_ids_and_no_text_and_no_text_reaches_them() -> None:
    tokenizer = open_tokenizer(FOLDER, 0)
    assert tokenizer.vocab_size == BLANK + 1
    assert (tokenizer.special.mask, tokenizer.piece(BLANK)) == (MASK, "<ctc_blank>")
    a = tokenizer.encode("a")[-1]
    assert tokenizer.decode([a, MASK, BLANK, a]) == "aa"
    assert not {MASK, BLANK} & set(tokenizer.encode("<mask> <ctc_blank>"))
    assert (tokenizer.adds_bos, tokenizer.adds_eos) == (False, True)


def test_older_files_say_the_same(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "spm_char.model", tmp_path)
    shutil.copy(FOLDER / "added_tokens.json", tmp_path)
    settings = {"tokenizer_class": "SpeechT5Tokenizer", "mask_token": {"content": "<mask>", "lstrip": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert open_tokenizer(tmp_path, 0) == open_tokenizer(FOLDER, 0)


def test_the_file_keeps_its_name() -> None:
    assert set(vocabulary_files(FOLDER)) == {"spm_char.model", "tokenizer_config.json", "added_tokens.json"}


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (
            "tokenizer_config.json",
            {"normalize": True},
            "normalize=true in tokenizer_config.json spells numbers",
        ),
        (
            "added_tokens.json",
            {"<mask>": 30},
            "has 27 pieces, and added tokens have other ids than those after them",
        ),
        ("added_tokens.json", {"word": 29}, r"to which 1 tokens were added \('word'\)"),
    ],
)
def test_files_that_mean_other_ids_are_refused(
    file: str, changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    for name in ("spm_char.model", "added_tokens.json"):
        shutil.copy(FOLDER / name, tmp_path)
    path = tmp_path / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | changes))
    with pytest.raises(ValueError, match=message):
        open_tokenizer(tmp_path, 0)
