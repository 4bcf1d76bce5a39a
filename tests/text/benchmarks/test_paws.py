from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.text.benchmarks import catalogue

SENTENCES = ("In 1868 he came to Oslo .", 'He came to "Oslo" in 1868 .')
WORDED = f"paws sentence1: {SENTENCES[0]} sentence2: {SENTENCES[1]}"


def pairs(folder: Path, split: str) -> list[tuple[str, str]]:
    task = catalogue.benchmark_task("paws_wiki_v110", vocabulary="bytes", data_dir=str(folder))
    return [(row.inputs, row.targets) for row in task.read(split)]


@pytest.mark.parametrize("folder", ["paws/final", "paws", "final"])
def test_official_tables_are_read(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for split in ("train", "dev", "test"):
        rows = ("id\tsentence1\tsentence2\tlabel", "\t".join(("1", *SENTENCES, "1")), "2\ta\tb\t0")
        (tmp_path / folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    for split in ("train", "validation", "test"):
        assert pairs(tmp_path, split) == [
            (WORDED, "paraphrase"),
            ("paws sentence1: a sentence2: b", "not_paraphrase"),
        ]


def test_hugging_faces_rows_are_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "paws" / "labeled_final"
    folder.mkdir(parents=True)
    columns = {"id": [1], "sentence1": SENTENCES[:1], "sentence2": SENTENCES[1:], "label": [1]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "validation-00000-of-00001.parquet")
    assert pairs(tmp_path, "validation") == [(WORDED, "paraphrase")]


def test_a_label_outside_the_set_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "paws").mkdir()
    (tmp_path / "paws" / "dev.tsv").write_text("id\tsentence1\tsentence2\tlabel\n1\ta\tb\t2\n")
    with pytest.raises(ValueError, match=r"dev\.tsv:2: the label '2' is outside the set"):
        pairs(tmp_path, "validation")


def test_an_encoders_head_reads_the_pair_and_scores_are_f1_and_accuracy() -> None:
    benchmark = catalogue.benchmark("paws_wiki_v110")
    assert benchmark.head is not None
    row = benchmark.head.read({"sentence1": "a", "sentence2": "b", "label": 1})
    assert (row.texts, row.label) == ((("a", "b"),), 1)
    scores = [metric([1, 0], [1, -1]) for metric in benchmark.metrics]
    assert scores == [{"f1": pytest.approx(200 / 3)}, {"accuracy": 50.0}]
