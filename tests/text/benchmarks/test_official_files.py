"""Official files on disk, well and badly written, into rows as TensorFlow Datasets has them."""

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.references.reference import compare_all
from benchmarks.references.tasks import super_glue_lines
from t5x_like.text.benchmarks import catalogue, glue
from t5x_like.text.benchmarks.task import BenchmarkTask

SPLITS = ("train", "validation", "test")


def task_of(name: str, folder: Path, **settings: Any) -> BenchmarkTask:
    return catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder), **settings)


def write(folder: Path, name: str, content: str | bytes) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def rows_of(task: BenchmarkTask, split: str = "train") -> list[dict[str, Any]]:
    return [dict(row.values) for row in task.raw_rows(split)]


def lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_super_glue_lines_are_as_tensorflow_datasets_reads_them(golden: Path) -> None:
    assert compare_all(super_glue_lines(golden / "tasks" / "superglue_jsonl_to_tfds.json")) > 5


def test_tables_are_read_without_quoting_and_with_any_line_ends(tmp_path: Path) -> None:
    write(
        tmp_path, "glue/CoLA/train.tsv", b'\xef\xbb\xbfgj\t1\t\tHe said "no.\r\ngj\t0\t*\t"He "no" said\r\n'
    )
    write(tmp_path, "glue/CoLA/test.tsv", "index\tsentence\n0\tIt rains.\n1\tIt's fine.\n")
    task = task_of("glue_cola_v002", tmp_path)
    assert rows_of(task) == [
        {"sentence": 'He said "no.', "label": 1, "idx": 0},
        {"sentence": '"He "no" said', "label": 0, "idx": 1},
    ]
    assert [row["label"] for row in rows_of(task, "test")] == [-1, -1]
    assert [formatted.targets for formatted in task.read("test")] == ["<unk>", "<unk>"]
    assert next(iter(task.read("train"))).extras == {"idx": 0}


def test_mnli_columns_are_found_by_their_names(tmp_path: Path) -> None:
    header = "index\tgenre\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n"
    write(
        tmp_path,
        "glue_data/MNLI/dev_matched.tsv",
        header + "0\tfiction\tA\tB\tneutral\tneutral\tcontradiction\n",
    )
    assert rows_of(task_of("glue_mnli_matched_v002", tmp_path), "validation") == [
        {"premise": "A", "hypothesis": "B", "label": 2, "idx": 0}
    ]
    assert rows_of(task_of("glue_mnli_v002", tmp_path), "validation_matched")


def test_rows_of_qqp_that_are_broken_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    write(
        tmp_path,
        "QQP/train.tsv",
        header + "1\t2\t3\tA?\tB?\t1\n4\t5\t6\tcut here\n7\t8\t9\tC?\tD?\t\n7\t8\t9\tC?\tD?\t0\n",
    )
    with caplog.at_level(logging.WARNING):
        rows = rows_of(task_of("glue_qqp_v002", tmp_path))
    assert [(row["idx"], row["label"]) for row in rows] == [(0, 1), (3, 0)]
    assert "2 broken rows are left out" in caplog.text
    assert "train.tsv:3" in caplog.text


def test_microsofts_pairs_are_parted_by_the_list_of_ids(tmp_path: Path) -> None:
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
    write(
        tmp_path,
        "glue/MRPC/msr_paraphrase_train.txt",
        header + "1\t10\t11\tA\tB\r\n0\t12\t13\tC\tD\r\n1\t14\t15\tE\tF\r\n",
    )
    write(tmp_path, "glue/MRPC/dev_ids.tsv", "12\t13\n")
    write(tmp_path, "glue/MRPC/msr_paraphrase_test.txt", header + "1\t20\t21\tG\tH\r\n")
    task = task_of("glue_mrpc_v002", tmp_path)
    results = {
        split: [(row["sentence1"], row["label"], row["idx"]) for row in rows_of(task, split)]
        for split in SPLITS
    }
    assert results == {
        "train": [("A", 1, 0), ("E", 1, 2)],
        "validation": [("C", 0, 1)],
        "test": [("G", -1, 0)],
    }


def test_definite_pronouns_come_in_blocks(tmp_path: Path) -> None:
    write(
        tmp_path,
        "dpr/train.c.txt",
        "Ann met Bo, for he ran.\nhe\nAnn,Bo\nBo\n\nAnn ate it.\nit\nAnn, it\nno\n",
    )
    task = task_of("dpr_v001_simple", tmp_path)
    with pytest.raises(ValueError, match=r"train\.c\.txt:6: the right candidate 'no' is none of Ann, it"):
        list(task.read("train"))
    (row,) = task_of("dpr_v001_simple", tmp_path, on_bad_row="skip").read("train")
    assert (row.inputs, row.targets) == ("wsc: Ann met Bo, for *he* ran.", "Bo")


def test_every_benchmark_reads_what_hugging_face_and_plain_json_hold(tmp_path: Path) -> None:
    for benchmark in catalogue.benchmarks().values():
        dataset = benchmark.source.tfds.partition(":")[0]
        if not dataset.startswith(("glue/", "super_glue/", "definite")):
            continue
        rows = [dict(example.row) for example in benchmark.examples]
        split = benchmark.splits[0]
        folder = tmp_path / dataset
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{split}-00000-of-00001.parquet")
        task = task_of(benchmark.name, tmp_path)
        assert rows_of(task, split) == rows, benchmark.name
        formatted = [(each.inputs, each.targets) for each in task.read(split)]
        assert formatted == [
            (each["inputs"], each["targets"]) for ex in benchmark.examples for each in ex.formatted
        ]


def test_hugging_faces_test_rows_without_labels_are_unlabeled(tmp_path: Path) -> None:
    (tmp_path / "glue" / "cola").mkdir(parents=True)
    table = pa.Table.from_pylist([{"sentence": "A", "idx": 0}, {"sentence": "B", "idx": 1}])
    for split in ("test", "train"):
        pq.write_table(table, tmp_path / "glue" / "cola" / f"{split}.parquet")
    task = task_of("glue_cola_v002", tmp_path)
    assert [row["label"] for row in rows_of(task, "test")] == [-1, -1]
    with pytest.raises(ValueError, match=r"train\.parquet:row 1: no column 'label', only sentence, idx"):
        rows_of(task, "train")


def test_arrow_files_as_saved_to_disk_are_read(tmp_path: Path) -> None:
    rows = [{"sentence": "A", "label": 1, "idx": 0}, {"sentence": "B", "label": -1, "idx": 1}]
    folder = tmp_path / "glue" / "cola" / "train"
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    with (
        pa.OSFile(str(folder / "data-00000-of-00002.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as to,
    ):
        to.write_table(table.slice(0, 1))
    with (
        pa.OSFile(str(folder / "data-00001-of-00002.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as to,
    ):
        to.write_table(table.slice(1))
    assert rows_of(task_of("glue_cola_v002", tmp_path)) == rows


RTE = "index\tsentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize(
    ("name", "file", "content", "split", "message"),
    [
        ("glue_rte_v002", "glue/RTE/train.tsv", "index\tsentence1\tlabel\n0\tA\tentailment\n", "train",
         r"train\.tsv: no column 'sentence2'; the columns are index, sentence1, label"),
        ("glue_rte_v002", "glue/RTE/train.tsv", "index\tsentence1\tsentence2\n0\tA\tB\n", "train", "no column 'label'"),
        ("glue_rte_v002", "glue/RTE/train.tsv", RTE + "0\tA\tB\tmaybe\n", "train",
         r"train\.tsv:2: the label 'maybe' is outside the set: 0 or entailment, 1 or not_entailment"),
        ("glue_rte_v002", "glue/RTE/train.tsv", RTE + "0\tA\ttab\there\tentailment\n", "train",
         r"train\.tsv:2: 5 columns, where 4 are expected"),
        ("glue_rte_v002", "glue/RTE/test.tsv", "index\tsentence1\tsentence2\n0\tA\tB\n0\tC\tD\n", "test",
         r"test\.tsv:3: index '0' where 1 should come: rows are missing, twice there or out of order"),
        ("glue_rte_v002", "glue/RTE/train.tsv", "", "train", "the file is empty"),
        ("glue_stsb_v002", "glue/STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\tA\tB\tnan\n", "train",
         r"train\.tsv:2: score nan is outside 0 to 5"),
        ("glue_stsb_v002", "glue/STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\tA\tB\thigh\n", "train",
         "score 'high' is not a number"),
        ("super_glue_cb_v102", "super_glue/CB/train.jsonl", lines([{"premise": "A", "label": "neutral", "idx": 0}]),
         "train", r"train\.jsonl:1: no column 'hypothesis'; the columns are premise, label, idx"),
        ("super_glue_cb_v102", "super_glue/CB/train.jsonl", lines([{"premise": "A", "hypothesis": "B", "idx": 0}]),
         "train", "no 'label'; only rows of a test split may lack it"),
        ("super_glue_boolq_v102", "super_glue/BoolQ/val.jsonl",
         lines([{"question": "q", "passage": "p", "label": True, "idx": 7}] * 2), "validation",
         r"val\.jsonl:2: idx 7 comes twice, first in .*val\.jsonl:1"),
        ("super_glue_boolq_v102", "super_glue/BoolQ/val.jsonl",
         lines([{"question": "q", "passage": None, "label": True, "idx": 7}]), "validation",
         r"val\.jsonl:1: column 'passage' is empty \(null\)"),
        ("super_glue_boolq_v102", "super_glue/BoolQ/val.jsonl",
         lines([{"question": "q", "passage": 3, "label": "yes", "idx": 7}]), "validation",
         "the label 'yes' is outside the set: False, True"),
        ("super_glue_record_v102", "super_glue/ReCoRD/val.jsonl", lines([{"passage": {"text": "A"}, "qas": []}]),
         "validation", "no column 'entities'; the columns are passage, qas"),
        ("super_glue_wsc_v102_simple_eval", "super_glue/WSC/val.jsonl", lines([{"text": "A b c", "idx": 0,
          "label": True, "target": {"span1_index": 0, "span2_index": 0, "span1_text": "A", "span2_text": "b"}}]),
         "validation", r"val\.jsonl:1: span2_index must be > 0"),
        ("super_glue_boolq_v102", "super_glue/BoolQ/val.jsonl", "[1]\n", "validation", "an object {…} is expected"),
        ("super_glue_boolq_v102", "super_glue/BoolQ/val.jsonl", "{\n", "validation", r"val\.jsonl:1: invalid JSON"),
    ],
)  # fmt: skip
def test_bad_rows_are_named_by_file_and_line(
    tmp_path: Path, name: str, file: str, content: str, split: str, message: str
) -> None:
    write(tmp_path, file, content)
    with pytest.raises(ValueError, match=message):
        list(task_of(name, tmp_path).read(split))


def test_empty_texts_are_used_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(
        tmp_path, "glue/RTE/dev.tsv", RTE + "0\t\tB\tentailment\n1\tA\tB\tentailment\n2\tA\t \tentailment\n"
    )
    with caplog.at_level(logging.WARNING):
        assert len(list(task_of("glue_rte_v002", tmp_path).read("validation"))) == 3
    assert "2 rows have an empty text, and are used as they are" in caplog.text
    assert "dev.tsv:2: sentence1" in caplog.text


@pytest.mark.seqio
def test_what_tensorflow_datasets_prepared_is_read(tmp_path: Path) -> None:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    rows = [{"sentence": "Ä b", "label": 1, "idx": 0}, {"sentence": "", "label": -1, "idx": 1}]
    label = tfds.features.ClassLabel(names=["unacceptable", "acceptable"])
    features = tfds.features.FeaturesDict({"sentence": tfds.features.Text(), "label": label, "idx": np.int32})
    folder = tmp_path / "glue" / "cola" / "2.0.0"
    folder.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "glue-train.tfrecord-00000-of-00001")) as writer:
        for row in rows:
            writer.write(features.serialize_example(features.encode_example(row)))
    features.save_config(str(folder))
    task = task_of("glue_cola_v002", tmp_path)
    assert rows_of(task) == rows
    assert task.files["train"][0].endswith("glue/cola/2.0.0/glue-train.tfrecord-00000-of-00001")


def test_a_split_that_is_not_there_is_reported_with_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no files of the split 'train' below") as caught:
        list(task_of("glue_rte_v002", tmp_path).read("train"))
    assert "put glue/RTE/train.tsv into" in str(caught.value)
    assert "https://dl.fbaipublicfiles.com/glue/data/RTE.zip" in str(caught.value)
    assert "let TensorFlow Datasets prepare glue/rte:2.0.0" in str(caught.value)
    assert "DATA_DIR in a recipe, data_dir=DIR, or $T5X_LIKE_DATA" in str(caught.value)
    with pytest.raises(ValueError, match="has no split 'dev'; there are train, validation, test"):
        list(task_of("glue_rte_v002", tmp_path).read("dev"))
    with pytest.raises(ValueError, match="did you mean 'glue_rte_v002'"):
        task_of("glue_rte", tmp_path)


def test_a_task_goes_to_other_processes_by_its_name(tmp_path: Path) -> None:
    import pickle

    task = task_of("super_glue_record_v102", tmp_path)
    assert pickle.loads(pickle.dumps(task)) == task
    assert glue.COLA.source.splits == SPLITS


def test_a_users_line_is_worded_as_a_row_would_be(tmp_path: Path) -> None:
    assert task_of("glue_cola_v002", tmp_path).word_question("It rains.") == "cola sentence: It rains."
    line = json.dumps({"sentence1": "A", "sentence2": "B"})
    assert task_of("glue_rte_v002", tmp_path).word_question(line) == "rte sentence1: A sentence2: B"
    with pytest.raises(ValueError, match="has 2 columns in its input; give each line as"):
        task_of("glue_rte_v002", tmp_path).word_question("A B")
