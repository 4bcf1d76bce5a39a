"""Benchmarks by seqio's own functions: raw rows in, what T5's tasks give out."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import seqio
import tensorflow as tf

from t5x_like.text import metrics, postprocessing, registry
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.task import T5_VOCABULARY
from t5x_like.text.benchmarks.tfds_files import python_value
from t5x_like.text.seqio_bridge import seqio_tasks
from t5x_like.text.seqio_bridge.data_sources import signature_of
from tests.slow_cases import slow_except
from tests.text.benchmarks.test_golden_templates import FILES, GOLDEN, golden_rows, name_of

pytestmark = pytest.mark.usefixtures("registered")


def dataset_of(name: str, rows: list[dict[str, Any]]) -> tf.data.Dataset:
    signature = signature_of(catalogue.benchmark(name).source.columns)

    def generate() -> Iterator[Any]:
        yield from ({column: row[column] for column in signature} for row in rows)

    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def precached(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    examples = seqio.TaskRegistry.get(name).preprocess_precache(dataset_of(name, rows))
    return [python_value(dict(example)) for example in examples.as_numpy_iterator()]


@pytest.mark.parametrize("stem", [stem for stem in FILES if name_of(stem) in catalogue.benchmarks()])
def test_seqio_tasks_give_what_t5s_give(stem: str) -> None:
    good = [row for row in golden_rows(stem) if "error" not in row]
    expected = [formatted for row in good for formatted in row["out"]]
    result = precached(name_of(stem), [row["raw"] for row in good])
    assert len(result) == len(expected)
    for example, formatted in zip(result, expected, strict=True):
        texts = {"inputs": example["inputs_pretokenized"], "targets": example["targets_pretokenized"]}
        extras = {key: value for key, value in example.items() if not key.startswith(("inputs", "targets"))}
        assert texts | extras == formatted


@pytest.mark.parametrize(
    "stem", ["glue_cola", "glue_mrpc", "super_glue_record", "squad_allanswers", "cnn_dailymail", "wmt_ende"]
)
def test_seqio_tasks_give_t5s_ids(stem: str) -> None:
    rows = golden_rows(stem)
    task = seqio.TaskRegistry.get(name_of(stem))
    lengths = {"inputs": 48, "targets": 8}
    dataset = task.preprocess_precache(dataset_of(task.name, [row["raw"] for row in rows]))
    dataset = task.preprocess_postcache(dataset, sequence_length=lengths)
    results = [
        {key: example[key][:length].tolist() for key, length in lengths.items()}
        for example in dataset.as_numpy_iterator()
    ]
    assert results == [ids for row in rows for ids in row["tokenized"]]


@pytest.mark.parametrize("stem", ["super_glue_wsc_simple_train", "super_glue_wsc_simple_eval"])
def test_a_row_that_t5_refuses_is_refused_with_what_is_wrong(stem: str) -> None:
    for row in golden_rows(stem):
        if "error" in row:
            with pytest.raises(tf.errors.InvalidArgumentError, match="span2_index"):
                precached(name_of(stem), [row["raw"]])


def test_mixtures_have_t5s_rates() -> None:
    for name, expected in json.loads(
        (GOLDEN / "packing" / "t5_registered_mixtures.json").read_text()
    ).items():
        mixture = seqio.MixtureRegistry.get(name)
        assert {task.name: mixture.get_rate(task) for task in mixture.tasks} == expected["rates"]
        tasks = registry.resolve(name)
        assert dict(zip(tasks.names, tasks.rates(), strict=True)) == expected["rates"]


def test_t5s_large_tasks_are_mixed_evenly_or_by_their_rows() -> None:
    large = {
        "wmt_t2t_ende_v003": 4_592_289.0,
        "wmt15_enfr_v003": 40_853_137.0,
        "cnn_dailymail_v002": 287_113.0,
    }
    expected = {
        "large_translation_equal": dict.fromkeys(list(large)[:2], 1.0),
        "large_supervised_equal": dict.fromkeys(large, 1.0),
        "large_supervised_proportional": large,
    }
    for name, rates in expected.items():
        mixture = seqio.MixtureRegistry.get(name)
        assert {task.name: mixture.get_rate(task) for task in mixture.tasks} == rates


# Slow are those that other files or wordings of the same benchmark give.
EACH_BENCHMARK = {
    name
    for name in catalogue.benchmarks()
    if not name.startswith(("decanlp_", "flan_", "mrqa_", "super_glue_wsc_", "xnli_"))
    and not name.startswith(("mlqa_", "panx_", "pawsx_", "tydiqa_", "udpos_", "xquad_"))
} | {
    *("decanlp_woz", "flan_anli_r1", "mrqa_squad", "super_glue_wsc_v102_simple_train", "xnli_en", "mlqa_de"),
    *("panx_en", "pawsx_en", "tydiqa_goldp_en", "udpos_en", "xquad_en"),
}


@pytest.mark.parametrize("name", slow_except(sorted(catalogue.benchmarks()), EACH_BENCHMARK))
def test_seqio_takes_the_metrics_of_every_benchmark(name: str) -> None:
    result = seqio.TaskRegistry.get(name).metric_fns  # refused where seqio doesn't know its arguments
    assert list(result) == list(catalogue.benchmark(name).metrics)


def test_answers_are_read_and_scored_as_t5_does() -> None:
    expected = {
        "glue_cola_v002": ["matthews_corrcoef"],
        "glue_mrpc_v002": ["f1_score_with_invalid", "accuracy"],
        "glue_stsb_v002": ["pearson_corrcoef", "spearman_corrcoef"],
        "glue_ax_v002": [],
        "dpr_v001_simple": ["accuracy"],
        "super_glue_wsc_v102_simple_train": [],
        "super_glue_wsc_v102_simple_eval": ["accuracy"],
    }
    for name, names in expected.items():
        assert [metric.__name__ for metric in seqio.TaskRegistry.get(name).metric_fns] == names
    cola = seqio.TaskRegistry.get("glue_cola_v002")
    assert [cola.postprocess_fn(text) for text in ("acceptable", "unacceptable", "Acceptable", "")] == [
        1,
        0,
        -1,
        -1,
    ]
    assert cola.metric_fns[0]([1, 0, 1], [1, 0, 0]) == metrics.matthews_corrcoef([1, 0, 1], [1, 0, 0])
    assert seqio.TaskRegistry.get("glue_stsb_v002").postprocess_fn("2.6") == 2.6
    wsc = seqio.TaskRegistry.get("super_glue_wsc_v102_simple_eval")
    example = {"label": 1, "targets_pretokenized": b"the dog"}
    assert wsc.postprocess_fn("a dog", example=example, is_target=False) == 1
    record = seqio.TaskRegistry.get("super_glue_record_v102")
    target = record.postprocess_fn(
        "Ann",
        example={"answers": [b"Ann"], "idx/passage": np.int64(1), "idx/query": np.int64(2)},
        is_target=True,
    )
    assert target == {"value": ["Ann"], "group": (1, 2)}
    assert postprocessing.multirc("True") == seqio.TaskRegistry.get("super_glue_multirc_v102").postprocess_fn(
        "True"
    )


def test_mnlis_splits_are_named_as_tensorflow_datasets_names_them() -> None:
    assert set(seqio.TaskRegistry.get("glue_mnli_v002").splits) == {
        "train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched",
    }  # fmt: skip
    assert set(seqio.TaskRegistry.get("super_glue_axb_v102").splits) == {"test"}


@pytest.mark.parametrize(
    "name",
    ["squad_v2_allanswers", "iwslt15_envi_v003", "hellaswag", "cbt_ne", "snli", "conll2003_ner", "wikitext2"],
)
def test_other_benchmarks_examples_are_worded_by_seqio_too(name: str) -> None:
    examples = catalogue.benchmark(name).examples
    result = precached(name, [dict(example.row) for example in examples])
    for example, formatted in zip(
        result, [formatted for each in examples for formatted in each.formatted], strict=True
    ):
        texts = {"inputs": example["inputs_pretokenized"], "targets": example["targets_pretokenized"]}
        extras = {key: value for key, value in example.items() if not key.startswith(("inputs", "targets"))}
        assert texts | extras == formatted


def test_missing_files_are_reported_before_tensorflow_wraps_the_message(tmp_path, monkeypatch):
    monkeypatch.setenv("T5X_LIKE_DATA", str(tmp_path))
    task = seqio.TaskRegistry.get("glue_mrpc_v002")
    assert task.num_input_examples("train") == 3_668  # as published
    with pytest.raises(ValueError, match=r"^no files of the split 'train' below .*put glue/MRPC/train.tsv"):
        task.get_dataset({"inputs": 64, "targets": 8}, split="train")


def test_all_tasks_share_t5s_vocabulary_so_that_they_mix_when_it_is_out_of_reach():
    vocabularies = [
        seqio_tasks._features(catalogue.benchmark_task(name=name, vocabulary=T5_VOCABULARY))[
            "inputs"
        ].vocabulary
        for name in ("glue_cola_v002", "super_glue_cb_v102")
    ]
    assert vocabularies[0] is vocabularies[1]
