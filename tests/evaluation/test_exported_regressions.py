"""A regression and its exports have the same scores and predict the same numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.evaluation.run_predictor import row_predictor
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction, evaluate_run
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import read_jsonl, write_json, write_jsonl
from t5x_like.model import parameters
from t5x_like.pretrained.averaged_weights import open_mean
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.text import registry
from t5x_like.text.heads import Regression
from t5x_like.text.tasks.text_task import TextTask
from tests.integration.test_fine_tuning_heads import BERT, PIECES

TASK = "prices_of_letters"
TEXTS = ["a b", "c d e", "f", "g h a b", "b b b"]
HEAD = Regression(texts=("{text}",), lowest=0, highest=100_000, mean=50_000, deviation=2000)
CHECKPOINTS = ("run", "export", "converted")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, its export, and a conversion of the export."""
    folder = tmp_path_factory.mktemp("regressions")
    config = replace(BERT, task="sequence_classification", num_labels=1)
    write_hugging_face(config, parameters.split(config.build(jax.random.key(3)))[1], folder / "published")
    vocabulary = folder / "published/vocab.txt"
    vocabulary.write_text("\n".join(PIECES) + "\n")
    for source, target, *flags in (
        ("published", "run"),
        ("run", "export", "--export", "hf"),
        ("export", "converted"),
    ):
        assert main(["convert", "--from", str(folder / source), "--to", str(folder / target), *flags]) == 0
        (folder / target / "vocab.txt").write_bytes(vocabulary.read_bytes())
        if target == "run":
            scale = {"tasks.0.head.mean": HEAD.mean, "tasks.0.head.deviation": HEAD.deviation}
            write_json(folder / target / "config.json", {"tasks.0.name": TASK, **scale})
    rows = [{"text": text, "label": 49_000 + 500 * index} for index, text in enumerate(TEXTS)]
    write_jsonl(folder / "rows.jsonl", rows)
    registry.register([_task(folder, TASK, HEAD)])
    return folder


def _task(folder: Path, name: str, head: Regression) -> TextTask:
    return TextTask(
        name=name,
        vocabulary=str(folder / "published/vocab.txt"),
        num_sentinels=0,
        files={"validation": str(folder / "rows.jsonl")},
        input_template="{text}",
        target_template="{label}",
        metrics=(),
        head=head,
    )


@pytest.fixture(scope="module")
def numbers(folder: Path) -> list[float]:
    """The numbers that the run predicts."""
    return _numbers(folder / "run", ())


def _numbers(checkpoint: Path, ensemble: tuple[str, ...], task: str = TASK) -> list[float]:
    run = RunPrediction(checkpoint=str(checkpoint), ensemble=ensemble, task=task, inputs_length=8)
    predictor = row_predictor(run)
    return [each.prediction for each in predictor.predict([predictor.read({"text": text}) for text in TEXTS])]


@pytest.mark.slow
def test_a_suite_scores_a_run_and_its_exports_alike(
    folder: Path, numbers: list[float], tmp_path: Path
) -> None:
    assert len({*numbers}) == len(TEXTS)
    assert all(HEAD.lowest < number < HEAD.highest for number in numbers)
    results: list[dict[str, Any]] = []
    for name in CHECKPOINTS:
        suite = SuiteEvaluation(
            checkpoint=str(folder / name), tasks=(TASK,), output_dir=str(tmp_path / name), inputs_length=8
        )
        results.append(evaluate_suite(suite, shown=False)["tasks"][TASK])
        rows = read_jsonl(tmp_path / name / TASK / "predictions.jsonl")
        assert [row["prediction"] for row in rows] == pytest.approx(numbers, rel=1e-6)
    for entry in results[1:]:
        assert entry["scores"] == pytest.approx(results[0]["scores"], rel=1e-3)


@pytest.mark.parametrize("name", CHECKPOINTS[1:])
def test_exports_predict_the_numbers_of_their_run(folder: Path, numbers: list[float], name: str) -> None:
    assert _numbers(folder / name, ()) == pytest.approx(numbers, rel=1e-6)
    assert _numbers(folder / "run", (str(folder / name),)) == pytest.approx(numbers, rel=1e-6)


def test_an_export_is_evaluated_as_its_run_and_scales_are_not_mixed(
    folder: Path, numbers: list[float], tmp_path: Path
) -> None:
    registry.register([_task(folder, f"{TASK}_plain", replace(HEAD, mean=0.0, deviation=1.0))])
    one, both = (
        tuple(HeadEvaluation(mixture=task, inputs_length=8) for task in tasks)
        for tasks in ((TASK,), (TASK, f"{TASK}_plain"))
    )
    run = RunEvaluation(checkpoint=str(folder / "export"), evaluations=one, output_dir=str(tmp_path))
    rows = evaluate_run(run)[TASK].rows
    assert [row["prediction"] for row in rows] == pytest.approx(numbers, rel=1e-6)
    with pytest.raises(ValueError, match="have numbers of 2 scales; evaluate one task at a time"):
        evaluate_run(replace(run, evaluations=both))
    assert _numbers(folder / "export", (), f"{TASK}_plain") == pytest.approx(numbers, rel=1e-6)


def test_rows_of_a_sample_have_the_predictions_and_numbers_of_the_split(
    folder: Path, numbers: list[float], tmp_path: Path
) -> None:
    suite = SuiteEvaluation(
        checkpoint=str(folder / "run"),
        tasks=(TASK,),
        output_dir=str(tmp_path),
        inputs_length=8,
        limit=3,
        resamples=0,
    )
    for _ in range(2):  # the second continues the first
        evaluate_suite(suite, shown=False)
        rows = list(read_jsonl(tmp_path / TASK / "predictions.jsonl"))
        drawn = [row["number"] for row in rows]
        assert drawn == sorted({*drawn})
        assert len(drawn) == 3
        assert drawn != [0, 1, 2]
        assert [row["input"] for row in rows] == [TEXTS[number] for number in drawn]
        assert [row["prediction"] for row in rows] == pytest.approx([numbers[number] for number in drawn])


def test_a_run_is_not_averaged_with_an_export(folder: Path) -> None:
    with (
        pytest.raises(ValueError, match="average the run that was exported, or exports only"),
        open_mean([folder / "run", folder / "converted"]),
    ):
        pass


def test_a_checkpoint_without_a_task_predicts_the_numbers_of_its_export(
    folder: Path, numbers: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--input={text}" for text in TEXTS]
    for name in CHECKPOINTS[1:]:
        capsys.readouterr()
        assert main(["predict", "--checkpoint", str(folder / name), *flags]) == 0
        printed = [float(line) for line in capsys.readouterr().out.split()]
        assert printed == pytest.approx(numbers, rel=1e-6)
