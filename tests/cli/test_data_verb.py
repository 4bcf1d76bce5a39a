"""``t5x-like data``, and benchmarks among the tasks that ``t5x-like tasks`` shows."""

from pathlib import Path

import pytest

from t5x_like.cli.main import main


def test_status_tells_what_is_there_and_what_to_fetch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "glue" / "RTE").mkdir(parents=True)
    (tmp_path / "glue" / "RTE" / "dev.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n1\tC\tD\tperhaps\n"
    )
    assert main(["data", "status", "glue_rte_v002", "--data_dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "train       missing (2,490 rows): glue/RTE/train.tsv" in shown
    assert "validation  1 rows, of 277 published; official files:" in shown
    assert "1 bad rows; first:" in shown
    assert "dev.tsv:3: the label 'perhaps' is outside the set" in shown
    assert "from https://dl.fbaipublicfiles.com/glue/data/RTE.zip or let TensorFlow Datasets prepare" in shown
    assert f"t5x-like data fetch glue_rte_v002 --data_dir {tmp_path} downloads" in shown


def test_families_and_mixtures_name_their_benchmarks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "status", "dpr", "glue_mnli_and_dev_v002", "--data_dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for name in ("dpr_v001_simple", "glue_mnli_v002", "glue_mnli_matched_v002", "glue_mnli_mismatched_v002"):
        assert f"\n{name}  " in shown
    assert main(["data", "fetch", "gleu"]) == 2
    assert "no benchmark 'gleu'" in capsys.readouterr().err


def test_a_benchmark_is_shown_without_its_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "show", "super_glue_wsc_v102_simple_train"]) == 0
    shown = capsys.readouterr().out
    assert "splits      train 554" in shown
    assert "inputs   wsc: Ann told Bo that *he* won ." in shown
    assert "left out" in shown
    assert main(["tasks", "show", "wsc_dpr_simple_proportional"]) == 0
    assert "dpr_v001_simple 83.6%" in capsys.readouterr().out
