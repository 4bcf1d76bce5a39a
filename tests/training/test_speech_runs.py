"""Runs on tables of recordings, from the files to scores; and what can't be trained together."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.evaluation.row_predictors import TextRowPredictor
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.model.families.speech_and_text import ClusterHeadConfig
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.speech_pretraining_task import SpeechPretrainingTask
from t5x_like.text.tasks.speech_table import SpeechTable
from t5x_like.text.tasks.speech_task import SpeechTask
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.methods.speech_pretraining import SpeechPretraining
from t5x_like.training.methods.speech_recognition import SpeechRecognition
from t5x_like.training.methods.speech_synthesis import SpeechSynthesis
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.run_config import Intervals, RunConfig
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.train import train
from t5x_like.training.training_data import TrainingData

MODEL = SpeechT5Config(
    vocab_size=384,
    model_dim=16,
    encoder_mlp_dim=32,
    decoder_mlp_dim=32,
    num_encoder_heads=2,
    num_decoder_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    conv_channels=(8, 8),
    conv_kernel_sizes=(40, 16),
    conv_strides=(20, 16),
    position_kernel_size=4,
    position_groups=2,
    prenet_units=8,
    speaker_dim=2,
    postnet_layers=2,
    postnet_units=8,
)
T5 = T5Config(
    vocab_size=384,
    model_dim=8,
    mlp_dim=8,
    num_heads=1,
    head_dim=8,
    num_encoder_layers=1,
    num_decoder_layers=1,
)
SPEAKING = replace(MODEL, task="text_to_speech")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of two splits of six tones, whose names are their words."""
    folder = tmp_path_factory.mktemp("tones")
    lines = []
    for index in range(6):
        times = np.arange(3_200 + 800 * index) / 16_000
        soundfile.write(folder / f"{index}.wav", 0.5 * np.sin(2 * np.pi * 200 * (index + 1) * times), 16_000)
        lines.append({"audio": f"{index}.wav", "text": "abcdef"[index] * 3, "voice": [index % 2, 1]})
    for split in ("train", "validation"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def recordings(tables: Path, **fields: Any) -> SpeechTask:
    return SpeechTask(
        name=f"tones_of_{tables.name}" + "_spoken" * ("direction" in fields),
        vocabulary="bytes",
        num_sentinels=0,
        files={split: str(tables / f"{split}.jsonl") for split in ("train", "validation")},
        table=SpeechTable(max_seconds=0.5),
        metrics=("cer",),
        **fields,
    )


def to_speak(tables: Path, **fields: Any) -> SpeechTask:
    fields = {"speaker_column": "voice", "speaker_dim": 2} | fields
    return recordings(tables, direction="text_to_speech", **fields)


def experiment(
    home: Path, task: Any, model: Any, method: Any, *, steps: int = 2, length: int = 8, **data: Any
) -> Experiment:
    config = LoaderConfig(
        mixture=task.name, batch_size=8, inputs_length=length, targets_length=2 * length, pack=False
    )
    held_out = replace(config, split="validation")
    return Experiment(
        model=model,
        data=TrainingData(train=config, tasks=(task,), validations=(held_out,), **data),
        run=RunConfig(
            model_dir=str(home),
            total_steps=steps,
            intervals=Intervals(save_every_steps=2, evaluate_every_steps=2, log_every_steps=1),
        ),
        method=method,
        optimizer=AdamW(learning_rate=1e-3),
    )


RECOGNITION = SpeechRecognition(unaligned_ids=(1,))


def test_a_run_learns_from_recordings_transcribes_held_out_ones_and_continues(
    tables: Path, tmp_path: Path
) -> None:
    task = recordings(tables)
    evaluation = TaskEvaluation(
        mixture=task.name,
        inputs_length=8,
        targets_length=8,
        batch_size=8,
        generation=GenerationConfig(max_new_tokens=4),
    )
    for steps in (2, 4):
        train(experiment(tmp_path / "run", task, MODEL, RECOGNITION, steps=steps, evaluations=(evaluation,)))
    lines = list(read_jsonl(tmp_path / "run/metrics.jsonl"))
    assert [line["step"] for line in lines if line["split"] == "train"] == [1, 2, 3, 4]
    assert all(line["ctc_loss"] > 0 for line in lines if line["split"] == "train")
    scores = read_json(tmp_path / "run/evaluations/step_4/scores.json", dict)
    assert scores["tasks"][task.name]["scores"].keys() == {"cer"}
    rows = list(read_jsonl(tmp_path / f"run/evaluations/step_4/{task.name}/predictions.jsonl"))
    assert [row["target"] for row in rows] == ["aaa", "bbb", "ccc", "ddd", "eee", "fff"]
    assert rows[0]["input"] == str(tables / "0.wav")


@pytest.mark.slow  # losses and batches have tests of their own
def test_a_run_learns_to_speak_and_logs_its_losses_of_held_out_rows(tables: Path, tmp_path: Path) -> None:
    train(experiment(tmp_path / "run", to_speak(tables), SPEAKING, SpeechSynthesis()))
    (line,) = [
        line for line in read_jsonl(tmp_path / "run/metrics.jsonl") if line["split"].startswith("validation/")
    ]
    assert all(line[name] > 0 for name in ("coarse_l1", "refined_l1", "stop", "guided_attention"))


@pytest.mark.slow  # losses and batches have tests of their own
def test_pretraining_logs_all_losses_and_recognition_starts_from_it(tables: Path, tmp_path: Path) -> None:
    clusters = [{"audio": f"{index}.wav", "label_rate": 50, "clusters": [index, 1] * 9} for index in range(6)]
    (tables / "clusters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in clusters))
    (tables / "texts.txt").write_text("the king spoke\nand the people heard\n")
    splits = ("train", "validation")
    task = SpeechPretrainingTask(
        name=f"unpaired_of_{tables.name}",
        vocabulary="bytes",
        files=dict.fromkeys(splits, str(tables / "clusters.jsonl")),
        texts=dict.fromkeys(splits, str(tables / "texts.txt")),
        table=SpeechTable(text_column=None, max_seconds=0.5),
    )
    model = replace(MODEL, task="speech_pretraining", clusters=ClusterHeadConfig(num_clusters=8))
    train(experiment(tmp_path / "first", task, model, SpeechPretraining(), length=32))
    lines = read_jsonl(tmp_path / "first/metrics.jsonl")
    (held_out,) = [line for line in lines if line["split"].startswith("validation/")]
    names = ("cluster_loss", "refined_l1", "stop", "cross_entropy", "text_code_perplexity")
    assert all(held_out[name] > 0 for name in names)
    start = PretrainedWeights(start_from=str(tmp_path / "first"))
    train(replace(experiment(tmp_path / "second", recordings(tables), MODEL, RECOGNITION), start=start))


def text_task(tables: Path) -> TextTask:
    return TextTask(
        name=f"texts_of_{tables.name}",
        vocabulary="bytes",
        num_sentinels=0,
        files={split: str(tables / f"{split}.jsonl") for split in ("train", "validation")},
        input_template="{text}",
        target_template="{text}",
    )


@pytest.mark.parametrize(
    ("make_task", "model", "method", "message"),
    [
        (
            recordings,
            T5,
            Supervised(),
            "T5Config for .* reads none; take Speech",
        ),
        (text_task, MODEL, RECOGNITION, "reads recordings, and mixture '.*' has none; train on a SpeechTask"),
        (
            text_task,
            SPEAKING,
            SpeechSynthesis(),
            "writes speech, and mixture '.*' has none; train on a SpeechTask",
        ),
        (
            recordings,
            SPEAKING,
            SpeechSynthesis(),
            "has recordings to read, and SpeechT5Config for text_to_speech",
        ),
        (to_speak, SPEAKING, Supervised(), "which Supervised doesn't learn; give method=SpeechSynthesis"),
        (
            to_speak,
            replace(SPEAKING, speaker_dim=3),
            SpeechSynthesis(),
            "2 numbers, and the model has speaker_dim=3",
        ),
        (
            recordings,
            MODEL,
            SpeechRecognition(),
            r"unaligned_ids=\(2,\) lack 1, which ends texts in this vocabulary",
        ),
    ],
)
def test_models_and_methods_that_do_not_fit_the_data_are_refused_before_a_step(
    tables: Path, tmp_path: Path, make_task: Any, model: Any, method: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        train(experiment(tmp_path / "run", make_task(tables), model, method))
    assert not (tmp_path / "run").exists()


def test_rows_to_transcribe_name_files_relative_to_their_table_and_bad_ones_are_named(tables: Path) -> None:
    evaluator: Any = None
    predictor = TextRowPredictor(evaluator=evaluator, params=None, definition=recordings(tables))
    assert predictor.read({"audio": "0.wav"}, folder=str(tables)) == str(tables / "0.wav")
    assert predictor.read({"audio": str(tables / "0.wav")}) == str(tables / "0.wav")
    soundfile.write(tables / "click.wav", np.full(100, 0.5), 16_000)
    with pytest.raises(ValueError, match=r"click\.wav has 0\.01 seconds; from min_seconds=0\.1 to"):
        predictor.read({"audio": "click.wav"}, folder=str(tables))
    with pytest.raises(ValueError, match=r"9\.wav is no file; give the path of a WAV or FLAC file"):
        predictor.read({"audio": "9.wav"}, folder=str(tables))


def test_a_model_without_a_head_for_ctc_is_not_decoded_by_it(tables: Path, tmp_path: Path) -> None:
    task = recordings(tables)
    generation = GenerationConfig(ctc_weight=0.3)
    evaluation = TaskEvaluation(
        mixture=task.name, inputs_length=8, targets_length=8, batch_size=8, generation=generation
    )
    method = replace(RECOGNITION, ctc_weight=0.0)
    with pytest.raises(ValueError, match=r"ctc_weight=0\.3 needs a model with a head for CTC"):
        train(experiment(tmp_path / "run", task, MODEL, method, evaluations=(evaluation,)))


def test_speech_as_targets_has_no_metrics_of_answers(tables: Path, tmp_path: Path) -> None:
    task = to_speak(tables)
    evaluation = TaskEvaluation(mixture=task.name, inputs_length=8, targets_length=8, batch_size=8)
    with pytest.raises(ValueError, match="has speech as its targets, which no metric scores"):
        train(experiment(tmp_path / "run", task, SPEAKING, SpeechSynthesis(), evaluations=(evaluation,)))
