import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from t5x_like.audio.feature_caching import cache_features
from t5x_like.batch import CLUSTERS, SPEAKERS, SPECTROGRAM_LENGTHS, SPECTROGRAMS, WAVEFORM_LENGTHS, WAVEFORMS
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.tasks.speech_pretraining_task import SpeechPretrainingTask
from t5x_like.text.tasks.speech_table import SpeechTable
from t5x_like.text.tasks.speech_task import SpeechTask
from t5x_like.text.tasks.task_set import TaskSet

SECONDS = [0.2, 1.1, 0.3, 1.2, 0.25, 1.3, 0.35, 1.4]
CONFIG = LoaderConfig(mixture="words", batch_size=4, inputs_length=8, targets_length=8, pack=False)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Return a table of eight tones, half of them short, with a vector of the speaker in two forms."""
    lines = []
    np.save(tmp_path / "speaker.npy", np.arange(3.0))
    for index, seconds in enumerate(SECONDS):
        times = np.arange(int(seconds * 16_000)) / 16_000
        soundfile.write(
            tmp_path / f"{index}.wav", 0.5 * np.sin(2 * np.pi * (300 + 50 * index) * times), 16_000
        )
        speaker = "speaker.npy" if index % 2 else [float(index), 1, 2]
        lines.append({"audio": f"{index}.wav", "text": "a" * (index + 1), "voice": speaker})
    table = tmp_path / "train.jsonl"
    table.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return table


def task_of(rows: Path, **fields: object) -> SpeechTask:
    return SpeechTask(
        name="words",
        vocabulary="bytes",
        num_sentinels=0,
        files={"train": str(rows)},
        table=SpeechTable(max_seconds=2.0),
        **fields,
    )


def loader_of(task: SpeechTask, **changes: object) -> Loader:
    return Loader(replace(CONFIG, **changes), TaskSet(name="words", tasks={"words": task}))


def spoken(rows: Path) -> SpeechTask:
    return task_of(rows, direction="text_to_speech", speaker_column="voice", speaker_dim=3)


def test_a_batch_has_waveforms_with_their_lengths_and_the_tokens_of_the_texts(rows: Path) -> None:
    batch = next(loader_of(task_of(rows), shuffle=False))
    streams = batch.declared.example
    assert streams[WAVEFORM_LENGTHS].tolist() == [3200, 17600, 4800, 19200]
    samples, _ = soundfile.read(rows.parent / "0.wav", dtype="float32")
    np.testing.assert_array_equal(streams[WAVEFORMS][0, :3200], samples)
    assert not streams[WAVEFORMS][0, 3200:].any()
    assert batch.encoder_input_tokens is None
    assert batch.target_tokens[1].tolist() == [100, 100, 1, 0, 0, 0, 0, 0]
    assert batch.decoder_input_tokens[1].tolist() == [0, 100, 100, 1, 0, 0, 0, 0]


def test_text_to_speech_has_spectrograms_speakers_and_the_encoders_tokens(rows: Path) -> None:
    loader = loader_of(spoken(rows), shuffle=False)
    batch = next(loader)
    streams = batch.declared.example
    lengths = streams[SPECTROGRAM_LENGTHS].tolist()
    assert lengths == [1 + int(seconds * 16_000) // 256 for seconds in SECONDS[:4]]
    assert streams[SPECTROGRAMS].shape[2] == 80
    assert streams[SPECTROGRAMS].shape[1] % 2 == 0, "whole steps of the decoder"
    assert streams[SPEAKERS].tolist() == [[0, 1, 2], [0, 1, 2], [2, 1, 2], [0, 1, 2]]
    assert batch.encoder_input_tokens[1].tolist() == [100, 100, 1, 0, 0, 0, 0, 0]
    assert batch.decoder_input_tokens is None


def test_recordings_of_similar_length_share_a_batch_that_is_padded_to_half(rows: Path) -> None:
    loader = loader_of(task_of(rows), group_by_length=True, repeat=False)
    batches = [batch.declared.example for batch in loader]
    shapes = sorted(streams[WAVEFORMS].shape[1] for streams in batches)
    assert shapes == [8192, 32768]
    for streams in batches:
        assert streams[WAVEFORM_LENGTHS].max() <= streams[WAVEFORMS].shape[1]
    lengths = np.concatenate([streams[WAVEFORM_LENGTHS] for streams in batches])
    assert sorted(lengths.tolist()) == sorted(int(seconds * 16_000) for seconds in SECONDS)


def test_each_epoch_has_every_recording_once_in_another_order(rows: Path) -> None:
    loader = loader_of(task_of(rows))
    first, second = (
        np.concatenate([next(loader).declared.example[WAVEFORM_LENGTHS] for _ in range(2)]) for _ in range(2)
    )
    assert sorted(first.tolist()) == sorted(second.tolist())
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_restored_loader_gives_the_same_batches(rows: Path, num_workers: int) -> None:
    loader = loader_of(task_of(rows), num_workers=num_workers)
    next(loader)
    state, wanted = loader.state(), next(loader)
    loader.close()
    again = loader_of(task_of(rows))
    again.restore(state)
    continued = next(again)
    np.testing.assert_array_equal(continued.target_tokens, wanted.target_tokens)
    np.testing.assert_array_equal(continued.declared[WAVEFORMS], wanted.declared[WAVEFORMS])


def test_two_processes_have_rows_of_the_same_batch_in_arrays_of_one_shape(rows: Path) -> None:
    whole = next(loader_of(task_of(rows)))
    tasks = TaskSet(name="words", tasks={"words": task_of(rows)})
    halves = [next(Loader(CONFIG, tasks, process_index=index, process_count=2)) for index in range(2)]
    lengths = np.concatenate([half.declared[WAVEFORM_LENGTHS] for half in halves])
    np.testing.assert_array_equal(lengths, whole.declared[WAVEFORM_LENGTHS])
    assert {half.declared[WAVEFORMS].shape for half in halves} == {(2, 32768)}


def test_other_texts_or_recordings_are_noticed_when_a_run_continues(rows: Path) -> None:
    state = loader_of(task_of(rows)).state()
    rows.write_text(rows.read_text().replace('"aaa"', '"aab"'))
    with pytest.raises(ValueError, match="task words has other examples than before"):
        loader_of(task_of(rows)).restore(state)


def test_a_cache_gives_the_batches_of_the_files_and_is_refused_with_other_settings(
    rows: Path, tmp_path: Path
) -> None:
    task = task_of(rows)
    features = task.recording_features
    cache_features(
        task.spoken_texts(list(task.read("train"))),
        features,
        tmp_path / "caches/words/train",
        settings=features.fingerprint,
    )
    wanted = next(loader_of(task))
    cached = next(loader_of(task, cache=str(tmp_path / "caches")))
    np.testing.assert_array_equal(cached.declared[WAVEFORMS], wanted.declared[WAVEFORMS])
    np.testing.assert_array_equal(cached.target_tokens, wanted.target_tokens)
    with pytest.raises(ValueError, match="features: the cache has waveform, you ask for log_mel"):
        loader_of(spoken(rows), cache=str(tmp_path / "caches"))


def unpaired(rows: Path, **fields: object) -> SpeechPretrainingTask:
    table = rows.with_name("clusters.jsonl")
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    clusters = [
        {"audio": line["audio"], "label_rate": 100, "clusters": [index] * int(100 * seconds)}
        for index, (line, seconds) in enumerate(zip(lines, SECONDS, strict=True))
    ]
    table.write_text("".join(json.dumps(line) + "\n" for line in clusters))
    rows.with_name("texts.txt").write_text("".join(f"text {index} of many\n" for index in range(5)))
    return SpeechPretrainingTask(
        name="words",
        vocabulary="bytes",
        files={"train": str(table)},
        texts={"train": str(rows.with_name("texts.txt"))},
        table=SpeechTable(text_column=None, max_seconds=2.0),
        **fields,
    )


def test_pretraining_has_recordings_with_clusters_next_to_texts_of_their_own_epochs(rows: Path) -> None:
    task = unpaired(rows)
    loader = loader_of(task, inputs_length=32, targets_length=48, shuffle=False)
    batches = [next(loader) for _ in range(2)]
    streams = batches[0].declared.example
    assert streams[WAVEFORM_LENGTHS].tolist() == [3200, 17600, 4800, 19200]
    assert streams[SPECTROGRAM_LENGTHS].tolist() == [1 + each // 256 for each in (3200, 17600, 4800, 19200)]
    clusters = streams[CLUSTERS]
    assert clusters[1].tolist() == [1] * 55 + [-1] * (clusters.shape[1] - 55)
    ids = np.concatenate([batch.target_tokens for batch in batches])
    texts = [task.tokenizer.decode([each for each in row.tolist() if each > 1]) for row in ids]
    assert texts == [f"text {index % 5} of many" for index in range(8)]
    assert not np.array_equal(batches[0].encoder_input_tokens[:, :16], ids[:4, :16]), (
        "the encoder reads noise"
    )


def test_pretraining_continues_with_the_same_batches(rows: Path) -> None:
    loader = loader_of(unpaired(rows), inputs_length=32, targets_length=48)
    next(loader)
    state, wanted = loader.state(), next(loader)
    again = loader_of(unpaired(rows), inputs_length=32, targets_length=48)
    again.restore(state)
    continued = next(again)
    np.testing.assert_array_equal(continued.encoder_input_tokens, wanted.encoder_input_tokens)
    np.testing.assert_array_equal(continued.declared[CLUSTERS], wanted.declared[CLUSTERS])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"clusters": None}, "clusters.jsonl:1: clusters, a list of whole numbers, is expected"),
        ({"clusters": [1, -1]}, "clusters.jsonl:1: clusters is no list of whole numbers from 0 on"),
        ({"label_rate": 0}, "clusters.jsonl:1: label_rate, the clusters of a second, is missing"),
    ],
)
def test_rows_without_usable_clusters_are_bad(rows: Path, cells: dict[str, object], message: str) -> None:
    task = unpaired(rows)
    table = rows.with_name("clusters.jsonl")
    first, *others = table.read_text().splitlines()
    table.write_text("\n".join([json.dumps(json.loads(first) | cells), *others]))
    with pytest.raises(ValueError, match=message):
        loader_of(task, inputs_length=32, targets_length=48)


def test_pretraining_refuses_objectives_of_one_stack_and_splits_without_texts(rows: Path) -> None:
    with pytest.raises(ValueError, match="CausalLM is for a model with one stack"):
        unpaired(rows, objective=CausalLM())
    with pytest.raises(ValueError, match="has recordings of train and no texts"):
        replace(unpaired(rows), texts={"validation": "texts.txt"})


def test_longer_texts_are_cut_and_counted(rows: Path, caplog: pytest.LogCaptureFixture) -> None:
    batch = next(loader_of(task_of(rows), targets_length=4, shuffle=False))
    assert batch.target_tokens[3].tolist() == [100, 100, 100, 1]
    assert "5 texts are longer than targets_length=4 and were cut" in caplog.text


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ([1.0], r"train.jsonl:1: column 'voice' is a vector of shape \[1\], and speaker_dim=3"),
        ("nobody.npy", "nobody.npy can't be read as a vector"),
        ("en-us", "train.jsonl:1: column 'voice': not JSON"),
        (None, "train.jsonl:1: column 'voice': a list of numbers, or the path of an .npy file, is expected"),
    ],
)
def test_a_speaker_without_a_usable_vector_is_an_error_before_training(
    rows: Path, cell: object, message: str
) -> None:
    first, *others = rows.read_text().splitlines()
    rows.write_text("\n".join([json.dumps(json.loads(first) | {"voice": cell}), *others]))
    with pytest.raises(ValueError, match=message):
        loader_of(spoken(rows))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layout": "decoder"}, "leave layout out"),
        ({"cache": "nowhere", "on_corruption": "quarantine"}, "make a damaged cache of features again"),
    ],
)
def test_options_of_texts_are_refused(rows: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loader_of(task_of(rows), **changes)
