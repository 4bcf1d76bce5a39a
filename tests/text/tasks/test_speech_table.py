import json

import numpy as np
import pytest
import soundfile

from t5x_like.audio.audio_options import AudioOptions
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.tasks.speech_table import SpeechTable, read_spoken_texts

ROWS = [{"audio": "clips/a.wav", "text": "the king"}, {"audio": "clips/b.flac", "text": "a goat"}]


def tone(seconds: float, rate: int = 16_000, peak: float = 0.5) -> np.ndarray:
    return peak * np.sin(2 * np.pi * 300 * np.arange(int(seconds * rate)) / rate)


@pytest.fixture
def clips(tmp_path):
    (tmp_path / "clips").mkdir()
    soundfile.write(tmp_path / "clips/a.wav", tone(0.5), 16_000)
    soundfile.write(tmp_path / "clips/b.flac", tone(0.25), 16_000)
    return tmp_path / "clips"


@pytest.fixture
def table(tmp_path, clips):
    def written(*rows: object, name: str = "train.jsonl") -> str:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(tmp_path / name)

    return written


def test_rows_have_the_path_the_text_the_length_and_other_columns(table, clips):
    first, second = read_spoken_texts(table({**ROWS[0], "speaker": "en-us"}, ROWS[1]))
    assert (first.audio, first.text, first.seconds) == (str(clips / "a.wav"), "the king", 0.5)
    assert first.cells["speaker"] == "en-us"
    assert (second.location.rpartition("/")[2], second.seconds) == ("train.jsonl:2", 0.25)


@pytest.mark.parametrize(("name", "mark"), [("train.tsv", "\t"), ("train.csv", ",")])
def test_tables_of_cells_are_read(tmp_path, clips, name, mark):
    lines = [["audio", "text"], *([row["audio"], row["text"]] for row in ROWS)]
    (tmp_path / name).write_text("".join(mark.join(cells) + "\n" for cells in lines))
    assert [row.text for row in read_spoken_texts(str(tmp_path / name))] == ["the king", "a goat"]


def test_an_absolute_path_is_read_as_it_is(table, clips):
    (row,) = read_spoken_texts(table({**ROWS[0], "audio": str(clips / "b.flac")}))
    assert row.seconds == 0.25


def test_recordings_alone_need_no_text(table):
    (row,) = read_spoken_texts(
        table({"wav": "clips/a.wav"}), SpeechTable(audio_column="wav", text_column=None)
    )
    assert row.text is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"audio": "clips/a.wav"}, r"no column 'text'; the columns are audio"),
        ({"audio": "clips/a.wav", "text": " "}, "column 'text' is empty; it needs the words of clips/a.wav"),
        ({"audio": "", "text": "x"}, "column 'audio' is empty; it needs the path"),
        ({"audio": None, "text": "x"}, "column 'audio' is null"),
        ({"audio": {"path": "a"}, "text": "x"}, "column 'audio' holds an object"),
        ({"audio": "none.wav", "text": "x"}, r"none.wav is no file; give the path of a WAV or FLAC file"),
        ({"audio": "clips", "text": "x"}, "clips is no file"),
        ({"audio": "train.jsonl", "text": "x"}, "train.jsonl is no WAV or FLAC file"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(table, row, message):
    with pytest.raises(ValueError, match=rf"train\.jsonl:2: .*{message}"):
        read_spoken_texts(table(ROWS[0], row))


def test_a_table_without_the_columns_is_refused_with_a_hint(tmp_path):
    (tmp_path / "t.csv").write_text("audio;text\na.wav;x\n")
    with pytest.raises(
        ValueError, match=r"no column 'audio'; the columns are audio;text\. Are the columns separated"
    ):
        read_spoken_texts(str(tmp_path / "t.csv"))


def test_a_file_of_another_name_is_no_table(clips):
    with pytest.raises(ValueError, match=r"a\.wav is no table; give a file whose name ends in tsv"):
        read_spoken_texts(str(clips / "a.wav"))


@pytest.mark.parametrize(
    ("limits", "seconds"), [({"max_seconds": 0.4}, "0.50"), ({"min_seconds": 0.3}, "0.25")]
)
def test_lengths_outside_of_the_limits_are_bad_rows(table, limits, seconds):
    with pytest.raises(ValueError, match=rf"has {seconds} seconds; from min_seconds"):
        read_spoken_texts(table(*ROWS), SpeechTable(**limits))


def test_bad_rows_are_skipped_and_counted(table):
    policy = RowPolicy("skip")
    rows = read_spoken_texts(table(*ROWS, {"audio": "none.wav", "text": "x"}), policy=policy)
    assert (len(rows), policy.num_skipped) == (2, 1)
    assert "train.jsonl:3" in policy.first_skipped[0]


def test_a_table_without_a_usable_row_is_refused(table):
    bad = {"audio": "none.wav", "text": "x"}
    with pytest.raises(ValueError, match=r"has no usable recording; skipped 1 of 1 rows \(first: .*none.wav"):
        read_spoken_texts(table(bad), policy=RowPolicy("skip"))


def test_other_rates_are_said_once_for_the_table(table, clips, caplog):
    soundfile.write(clips / "b.flac", tone(0.25, 8_000), 8_000)
    read_spoken_texts(table(*ROWS, ROWS[1]))
    assert "2 of 3 recordings are resampled to 16,000 Hz: 2 of 8,000 Hz" in caplog.text
    with pytest.raises(ValueError, match=r"train\.jsonl:2: .*set resample=True"):
        read_spoken_texts(table(*ROWS), SpeechTable(options=AudioOptions(resample=False)))


def test_damage_silence_and_clipping_are_found_where_samples_are_read(table, clips, caplog):
    whole = SpeechTable(decode=True)
    soundfile.write(clips / "b.flac", np.clip(tone(0.25, peak=3), -1, 1), 16_000)
    read_spoken_texts(table(*ROWS), whole)
    assert "1 of 2 recordings are clipped: " in caplog.text
    assert "train.jsonl:2" in caplog.text
    soundfile.write(clips / "b.flac", tone(0.25, peak=0), 16_000)
    assert len(read_spoken_texts(table(*ROWS))) == 2
    with pytest.raises(ValueError, match=r"train\.jsonl:2: .*b\.flac: it is silent"):
        read_spoken_texts(table(*ROWS), whole)
    soundfile.write(clips / "b.flac", tone(0.25), 16_000)
    content = (clips / "b.flac").read_bytes()
    (clips / "b.flac").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"train\.jsonl:2: .*b\.flac is damaged or cut short"):
        read_spoken_texts(table(*ROWS), whole)


@pytest.mark.parametrize("limits", [{"min_seconds": 5.0, "max_seconds": 1.0}, {"max_seconds": float("inf")}])
def test_limits_are_ascending_lengths(limits):
    with pytest.raises(ValueError, match="must be ascending lengths"):
        SpeechTable(**limits)
