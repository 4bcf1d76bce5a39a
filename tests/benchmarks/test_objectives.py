"""What a recipe of answers is compared with: how frequent whole answers are."""

import json
import math
from pathlib import Path

import pytest

from benchmarks.objectives import entropy_of_answers
from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.chat import ChatTask


def test_answers_are_counted_whole_and_spread_over_their_tokens(tmp_path: Path) -> None:
    def conversation(*answers: str) -> str:
        turns = [
            ({"role": "user", "content": "?"}, {"role": "assistant", "content": each}) for each in answers
        ]
        return json.dumps({"messages": [message for turn in turns for message in turn]})

    file = tmp_path / "talk.jsonl"
    file.write_text("\n".join([conversation("yes", "no"), conversation("yes"), conversation("no"), ""]))
    registry.register([ChatTask(name="talk", vocabulary="bytes", files={"validation": str(file)})])
    config = LoaderConfig(
        mixture="talk",
        split="validation",
        batch_size=2,
        inputs_length=8,
        targets_length=64,
        shuffle=False,
        repeat=False,
    )
    # Two of four answers each; "yes" and "no" are 4 and 3 tokens long with their ends.
    assert entropy_of_answers(config) == pytest.approx(4 * math.log(2) / 14)
