"""A benchmark named in a run: batches, caches, evaluation and mixtures of it, without being registered first."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from t5x_like.evaluation.questions import load_questions
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.seqio_bridge import registration
from tests.text.benchmarks.conftest import forget_benchmarks

RTE, COLA = "glue_rte_v002", "glue_cola_v002"


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    forget_benchmarks()
    for task in ("RTE", "CoLA"):
        (tmp_path / "glue" / task).mkdir(parents=True)
    rows = "".join(
        f"{i}\tIt is {i}.\tIt is not {i}.\t{('entailment', 'not_entailment')[i % 2]}\n" for i in range(9)
    )
    for split in ("train", "dev"):
        (tmp_path / "glue" / "RTE" / f"{split}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + rows)
        (tmp_path / "glue" / "CoLA" / f"{split}.tsv").write_text(
            "gj\t1\t\tIt rains.\ngj\t0\t*\tRains it.\n" * 3
        )
    (tmp_path / "glue" / "RTE" / "test.tsv").write_text("index\tsentence1\tsentence2\n0\tA\tB\n")
    monkeypatch.setenv("T5X_LIKE_DATA", str(tmp_path))
    monkeypatch.setenv("T5X_LIKE_VOCABULARY", "bytes")
    yield
    forget_benchmarks()


def config(name: str, **changes: object) -> LoaderConfig:
    settings = {"mixture": name, "batch_size": 4, "inputs_length": 64, "targets_length": 32, "seed": 5}
    return LoaderConfig(**(settings | changes))  # pyright: ignore[reportArgumentType]


def test_a_run_names_it_and_a_cache_gives_the_same_batches(tmp_path: Path) -> None:
    from_memory = [next(build_loader(config(RTE))) for _ in range(3)]
    task = registry.definition(RTE)
    assert isinstance(task, BenchmarkTask)
    cache_split(task, "train", str(tmp_path / "cache"), num_shards=2)
    from_cache = [next(build_loader(config(RTE, cache=str(tmp_path / "cache")))) for _ in range(3)]
    for one, other in zip(from_memory, from_cache, strict=True):
        np.testing.assert_array_equal(one.encoder_input_tokens, other.encoder_input_tokens)
        np.testing.assert_array_equal(one.target_tokens, other.target_tokens)


def test_its_answers_are_scored_as_the_benchmark_says() -> None:
    questions = load_questions(registry.definition(COLA), "validation")
    assert questions.labels == ("unacceptable", "acceptable")
    answers = [questions.postprocess_answer(row, row.targets) for row in questions.rows]
    assert questions.metrics[0](questions.targets, answers) == {"matthews_corrcoef": 100.0}
    assert questions.rows[0].inputs == "cola sentence: It rains."
    assert questions.baseline["matthews_corrcoef"] == 0.0


def test_a_split_without_labels_is_read_to_be_predicted() -> None:
    (row,) = load_questions(registry.definition(RTE), "test").rows
    assert row.targets == "<unk>"
    assert int(row.example["idx"]) == 0


def test_a_mixture_of_benchmarks_is_known_with_its_tasks() -> None:
    glue = registry.resolve("glue_v002_proportional")
    assert glue.names[:2] == [COLA, "glue_sst2_v002"]
    assert glue.rates()[0] == 8_551.0
    assert "validation_matched" in glue.tasks["glue_mnli_v002"].splits


@pytest.mark.seqio
def test_vocabulary_and_folder_can_be_given(tmp_path: Path) -> None:
    registration.register_benchmarks(RTE, vocabulary="bytes", data_dir=str(tmp_path), on_bad_row="skip")
    task = registry.definition(RTE)
    assert isinstance(task, BenchmarkTask)
    assert (task.on_bad_row, task.data_dir) == ("skip", str(tmp_path))
    with pytest.raises(ValueError, match="already another task or mixture"):
        registration.register_benchmarks(RTE, vocabulary="bytes")
    with pytest.raises(ValueError, match="no benchmark 'glue_rte'; did you mean 'glue_rte_v002'"):
        registration.register_benchmarks("glue_rte")
    with pytest.raises(ValueError, match=r"no task or mixture 'glue_rt_v002'; did you mean 'glue_rte_v002'"):
        registration.get("glue_rt_v002")


@pytest.mark.seqio
def test_registering_all_registers_every_benchmark_with_seqio() -> None:
    import seqio

    from t5x_like.text.benchmarks import catalogue

    registration.register_benchmarks()
    known = {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
    assert set(catalogue.all_names()) <= known
    dataset = seqio.get_mixture_or_task(RTE).get_dataset(
        {"inputs": 64, "targets": 32}, "train", shuffle=False
    )
    first = next(iter(dataset.as_numpy_iterator()))
    assert first["inputs_pretokenized"] == b"rte sentence1: It is 0. sentence2: It is not 0."
    assert seqio.TaskRegistry.get("glue_sst2_v002").num_input_examples("train") == 67_349  # published
