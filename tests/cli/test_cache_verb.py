from pathlib import Path

import numpy as np
import pytest
import soundfile

from t5x_like.cli.main import main
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.reader import CachedExamples

RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.text.tasks import mixtures
from t5x_like.text.tasks import pretraining
from t5x_like.text.tasks import text_task
TASKS = (@pretraining.PretrainingTask(), @text_task.TextTask(), @mixtures.Mixture())
pretraining.PretrainingTask:
    name = 'fables_{tag}'
    vocabulary = 'bytes'
    files = {{'train': 'train.txt', 'validation': 'validation.txt'}}
text_task.TextTask:
    name = 'spelling_{tag}'
    vocabulary = 'bytes'
    files = {{'train': 'words.tsv'}}
    input_template = 'spell: {{word}}'
    target_template = '{{letters}}'
mixtures.Mixture:
    name = 'both_{tag}'
    tasks = ('fables_{tag}', 'spelling_{tag}')
    rates = {{'fables_{tag}': 1.0, 'spelling_{tag}': 1.0}}
"""


@pytest.fixture
def tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A user's folder with a recipe and data; names are for one test, because tasks stay registered."""
    tag = str(abs(hash(request.node.name)))
    (tmp_path / "recipe.gin").write_text(RECIPE.format(tag=tag))
    (tmp_path / "train.txt").write_text("The fox.\nThe crow and the cheese.\n")
    (tmp_path / "validation.txt").write_text("The hare.\n")
    (tmp_path / "words.tsv").write_text("word\tletters\ncat\tc a t\n")
    monkeypatch.chdir(tmp_path)
    return tag


def test_all_splits_of_a_mixtures_tasks_are_cached_and_reported(
    tag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["cache", f"both_{tag}", "--gin_file=recipe.gin", "--output=caches", "--num_processes=1"]) == 0
    )
    assert capsys.readouterr().out.splitlines() == [
        f"caches/fables_{tag}/train: 2 examples (32 tokens), 0.1 MB in 1 shard",
        f"caches/fables_{tag}/validation: 1 example (9 tokens), 0.1 MB in 1 shard",
        f"caches/spelling_{tag}/train: 1 example (10 inputs, 5 targets), 0.1 MB in 1 shard",
    ]
    (example,) = CachedExamples.open(f"caches/fables_{tag}/validation").read(np.array([0]))
    assert bytes(example["tokens"].astype(np.uint8) - 3) == b"The hare."


def test_recordings_of_a_speech_task_are_cached_once_and_trained_from_there(
    tag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recipe.gin").write_text(
        "from __gin__ import dynamic_registration\n"
        "from t5x_like.text.tasks import speech_task\n"
        "TASKS = (@speech_task.SpeechTask(),)\n"
        f"speech_task.SpeechTask:\n    name = 'tones_{tag}'\n    vocabulary = 'bytes'\n"
        "    num_sentinels = 0\n    files = {'train': 'tones.jsonl'}\n"
    )
    soundfile.write("tone.wav", 0.5 * np.sin(np.arange(4_000) / 5), 16_000)
    (tmp_path / "tones.jsonl").write_text('{"audio": "tone.wav", "text": "beep"}\n')
    command = ["cache", f"tones_{tag}", "--gin_file=recipe.gin", "--output=caches", "--num_processes=1"]
    for _ in range(2):  # the second call finds it made
        assert main(command) == 0
        assert capsys.readouterr().out == f"caches/tones_{tag}/train: 1 recording (waveform)\n"
    config = LoaderConfig(
        mixture=f"tones_{tag}", batch_size=1, inputs_length=8, targets_length=8, pack=False, cache="caches"
    )
    assert next(build_loader(config)).declared.example["waveform_lengths"].tolist() == [4_000]
    assert main([*command, "--num_shards=2"]) == 2
    assert "--num_shards is for caches of tokens" in capsys.readouterr().err


def test_one_split_in_many_shards(tag: str) -> None:
    flags = ["--gin_file=recipe.gin", "--output=caches", "--num_processes=1"]
    assert main(["cache", f"fables_{tag}", *flags, "--split=train", "--num_shards=2"]) == 0
    assert [path.name for path in Path(f"caches/fables_{tag}").iterdir()] == ["train"]
    assert len(CachedExamples.open(f"caches/fables_{tag}/train").manifest.shards) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fables_TAG", "--split=test"], "has no split test; there are train, validation"),
        (
            ["fables_TAG", "--num_processes=0"],
            "argument --num_processes: 0 is too small; give a whole number of at least 1",
        ),
        (["fabels_TAG"], "did you mean 'fables_"),
        (["fables_TAG", "--num_shards=9"], "must lie between 1 and the 2 examples"),
        (["fables_TAG", "--runner=NoSuchRunner"], "NoSuchRunner"),
        ([], "the following arguments are required: TASK"),
    ],
)
def test_mistakes_end_with_2_and_a_message(
    tag: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tagged_arguments = [argument.replace("TAG", tag) for argument in arguments]
    assert main(["cache", *tagged_arguments, "--gin_file=recipe.gin", "--output=caches"]) == 2
    assert message in capsys.readouterr().err


def test_another_definition_under_the_same_folder_is_refused_with_the_difference(
    tag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["cache", f"fables_{tag}", "--gin_file=recipe.gin", "--output=caches", "--num_processes=1"]
    assert main(command) == 0
    Path("train.txt").write_text("The fox.\n")
    assert main(command) == 2
    message = capsys.readouterr().err
    assert "file 0, bytes: the cache has 34, you ask for 9" in message
    assert "Choose another output" in message
