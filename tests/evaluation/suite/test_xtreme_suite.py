"""A task of XTREME in all of its languages is one command, with the average over languages."""

from pathlib import Path

import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import read_json
from t5x_like.text.benchmarks.xtreme_languages import PAWSX


def write_tables(folder: Path, *languages: str) -> None:
    """Tests of PAWS-X, each with other labels."""
    for shift, language in enumerate(languages):
        (folder / language).mkdir(parents=True)
        rows = [f"{index}\tAnn saw {index}\tSaw Ann\t{int(index < shift)}\n" for index in range(8)]
        (folder / language / "test_2k.tsv").write_text("id\tsentence1\tsentence2\tlabel\n" + "".join(rows))


def test_pawsx_is_averaged_over_its_languages(
    gpt2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(tmp_path / "data/x-final", *PAWSX)
    flags = [f"--checkpoint={gpt2}", f"--data_dir={tmp_path}/data", "--split=test", "--batch_size=8"]
    quick = ["--inputs_length=64", "--resamples=0"]
    assert main(["evaluate", *flags, *quick, "--recipe=pawsx", f"--output_dir={tmp_path}/all"]) == 0
    scores = read_json(tmp_path / "all/scores.json")
    accuracies = [scores["tasks"][f"pawsx_{language}"]["scores"]["accuracy"] for language in PAWSX]
    assert len(set(accuracies)) > 1
    assert list(scores["averages"]) == ["pawsx"]
    assert scores["averages"]["pawsx"] == {"score": pytest.approx(sum(accuracies) / 7), "missing": []}
    assert f"pawsx average: {sum(accuracies) / 7:.2f}" in capsys.readouterr().out
    assert "the mean over its languages" in (tmp_path / "all/report.html").read_text()


def test_a_single_language_has_no_average(
    gpt2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(tmp_path / "data/x-final", "de")
    flags = [f"--checkpoint={gpt2}", f"--data_dir={tmp_path}/data", "--split=test", "--batch_size=8"]
    quick = ["--inputs_length=64", "--resamples=0", f"--output_dir={tmp_path}/one"]
    assert main(["evaluate", *flags, *quick, "--tasks", "pawsx_de"]) == 0
    assert read_json(tmp_path / "one/scores.json")["averages"] == {}
    assert "average" not in capsys.readouterr().out
