"""Rows of conversations with a better and a worse last answer."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.text import registry
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.chat_preferences import ChatPreferenceTask


def says(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


BEFORE = [says("user", "a?"), says("assistant", "b"), says("user", "c?")]
BETTER, WORSE = says("assistant", "yes"), says("assistant", "never")
WHOLE = {"chosen": [*BEFORE, BETTER], "rejected": [*BEFORE, WORSE]}
AFTER_PROMPT = {"prompt": BEFORE, "chosen": [BETTER], "rejected": [WORSE]}
WITH_TEXT = {"prompt": "a?", **WHOLE}


def task(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> ChatPreferenceTask:
    (folder / "talk.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    files = {"train": str(folder / "talk.jsonl")}
    return ChatPreferenceTask(**{"name": folder.name, "vocabulary": "bytes", "files": files, **changes})


@pytest.mark.parametrize(
    "row", [WHOLE, AFTER_PROMPT, WITH_TEXT], ids=["whole", "after a prompt", "with a text"]
)
def test_the_last_answers_alone_are_learned(tmp_path: Path, row: dict[str, Any]) -> None:
    definition = task(tmp_path, [row])
    config = LoaderConfig(mixture=tmp_path.name, batch_size=1, inputs_length=8, targets_length=96)
    batch = next(Loader(config, registry.resolve(tmp_path.name, [definition])))

    def decode(ids: np.ndarray) -> str:
        return definition.tokenizer.decode(
            [int(each) for each in ids if each != definition.tokenizer.special.eos]
        )

    texts = []
    for answer in (0, 1):
        is_learned = batch.loss_weights[0, answer] > 0
        learned = decode(batch.target_tokens[0, answer][is_learned])
        read = decode(batch.decoder_input_tokens[0, answer])
        assert "a?" in read
        assert "c?" in read
        texts.append(learned)
    assert "yes" in texts[0]
    assert "never" in texts[1]
    assert not any("b" in text for text in texts)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": WHOLE["chosen"], "rejected": WHOLE["chosen"]}, "both conversations are equal"),
        ({"chosen": WHOLE["chosen"], "rejected": BEFORE}, "ends with a message of 'user'"),
        (
            {"chosen": [says("user", "x"), BETTER], "rejected": [*BEFORE, WORSE]},
            "differ before their last answers",
        ),
        ({"chosen": WHOLE["chosen"]}, "no column 'rejected'"),
        ({**WHOLE, "rejected": [*BEFORE, says("assistant", " ")]}, "ends with an empty answer"),
    ],
)
def test_conversations_that_can_not_be_compared_are_bad_rows(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=rf"talk.jsonl:1.*{message}"):
        list(task(tmp_path, [row]).read("train"))


def test_long_conversations_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    definition = task(tmp_path, [WHOLE])
    config = LoaderConfig(mixture=tmp_path.name, batch_size=1, inputs_length=8, targets_length=16)
    Loader(config, registry.resolve(tmp_path.name, [definition]))
    assert "1 conversations are longer than targets_length=16 and were cut" in caplog.text


def test_its_rows_are_shown(tmp_path: Path) -> None:
    definition = task(tmp_path, [AFTER_PROMPT])
    (row,) = definition.read("train")
    assert definition.shown(row)["rejected"] == ["user: a?", "assistant: b", "user: c?", "assistant: never"]
    with pytest.raises(ValueError, match="column"):
        task(tmp_path, [WHOLE], column="talk")
