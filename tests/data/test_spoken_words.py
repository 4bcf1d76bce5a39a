"""Spoken words by a stand-in for espeak-ng, which hums each word in the pitch of its voice."""

import json
import stat
import sys

import numpy as np
import pytest

from data.prepare import spoken_words
from t5x_like.io.files import shipped_directory
from t5x_like.text.tasks.speech_table import SpeechTable, read_spoken_texts

# Without site packages it starts in some milliseconds.
PROGRAM = f"""#!{sys.executable} -SI
import array, io, math, sys, wave
if sys.argv[1] == "--version":
    sys.exit(print("eSpeak NG text-to-speech: 1.51  Data at: /usr/lib"))
voice, speed, word = sys.argv[2], int(sys.argv[4]), sys.argv[6]
if voice == "mute":
    word = ""
if voice == "broken":
    sys.exit("no such voice")
pitch = 2 * math.pi * (150 + 50 * len(voice)) / 22_050
sound = [int(32_767 * math.sin(pitch * at)) for at in range(int(22_050 * len(word) * 10 / speed))]
silence, file = [0] * 9_000, io.BytesIO()
with wave.open(file, "wb") as writer:
    writer.setparams((1, 2, 22_050, 0, "NONE", ""))
    writer.writeframes(array.array("h", silence + sound + silence).tobytes())
sys.stdout.buffer.write(file.getvalue())
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("bin") / "espeak-ng"
    file.write_text(PROGRAM)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, program):
    output = tmp_path_factory.mktemp("spoken")
    options = ["--output", str(output), "--program", program, "--train_words", "3", "--validation_words", "1"]
    spoken_words.main([*options, "--speakers", "en-us", "en-us+f2", "--workers", "2"])
    return output


def test_each_speaker_says_each_word(folder):
    rows = read_spoken_texts(str(folder / "train.jsonl"), SpeechTable(decode=True))
    assert len(rows) == 6
    assert len({row.text for row in rows}) == 3
    assert [row.cells["speaker"] for row in rows] == ["en-us", "en-us+f2"] * 3
    assert [row.cells["voice"] for row in rows[:2]] == [[1, 0], [0, 1]]
    assert rows[0].cells["phonemes"].isupper()


def test_recordings_have_16_kilohertz_and_little_silence(folder):
    for row in read_spoken_texts(str(folder / "train.jsonl")):
        assert row.text is not None
        spoken = len(row.text) * 10 / int(row.cells["speed"])
        assert row.seconds == pytest.approx(spoken + 0.04, abs=0.01)


def test_words_of_validation_are_not_in_training():
    train, validation = (
        {each.word for each in spoken_words.plan(split, 2_000, ["a"])} for split in ("train", "validation")
    )
    assert (len(train), len(validation)) == (2_000, 2_000)
    assert not train & validation


def test_speeds_vary_and_are_the_same_each_time():
    first, again = (spoken_words.plan("train", 50, spoken_words.SPEAKERS) for _ in range(2))
    assert first == again
    assert {each.speed for each in first} == set(spoken_words.SPEEDS)


def test_figures_are_written(folder):
    figures = json.loads((folder / "statistics.json").read_text())
    assert figures["program"] == "eSpeak NG text-to-speech: 1.51"
    assert figures["train"]["recordings"] == 6


def test_the_card_has_the_figures_of_the_command():
    card = (shipped_directory("data") / "spoken_words/README.md").read_text(encoding="utf-8")
    figures = json.loads((shipped_directory("data") / "spoken_words/statistics.json").read_text())
    for split, count in spoken_words.NUM_WORDS.items():
        each = figures[split]
        assert (each["words"], each["recordings"]) == (count, count * len(spoken_words.SPEAKERS))
        assert f"| {split} | {count:,} | {each['recordings']:,} | {each['minutes']} |" in card


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--program", "no-such-program"],
            "no-such-program isn't installed; on Debian or Ubuntu: apt-get install",
        ),
        (["--speakers", "mute"], "says nothing; is 'mute' one of its voices?"),
        (["--speakers", "broken"], "failed: no such voice"),
        (["--train_words", "60000"], "the dictionary's split train has 56,000 words, 60,000 are wanted"),
    ],
)
def test_a_problem_ends_with_its_reason_and_exit_code_2(tmp_path, capsys, program, options, message):
    arguments = [
        "--output",
        str(tmp_path),
        "--program",
        program,
        "--train_words",
        "1",
        "--validation_words",
        "1",
    ]
    with pytest.raises(SystemExit, match="2"):
        spoken_words.main([*arguments, *options])
    assert message in capsys.readouterr().err


def test_a_loud_voice_is_not_clipped(program):
    samples = spoken_words.speak(spoken_words.Utterance("word", "W ER D", "en-us", 175), program)
    assert np.abs(samples).max() == pytest.approx(0.9)
