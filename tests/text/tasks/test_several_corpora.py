"""Tasks of several corpora and their mixture, as recipes of papers that mix corpora have them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.tasks.mixtures import Mixture, Proportional
from t5x_like.text.tasks.pretraining import PretrainingTask, corpus_tasks

FILES = {"train_files": "{corpus}/train.txt", "validation_files": "{corpus}/validation.txt"}


def made(**changes: Any) -> Any:
    settings: dict[str, Any] = {"mixture": "both", "corpora": {"web": 3, "books": 1}, "vocabulary": "bytes"}
    settings |= FILES | {"objective": CausalLM()}
    return corpus_tasks(**settings | changes)


def test_each_corpus_has_its_files_and_the_mixture_their_rates() -> None:
    web, books, mixture = made()
    assert (web.name, web.files) == ("web", {"train": "web/train.txt", "validation": "web/validation.txt"})
    assert (books.files["train"], books.objective) == ("books/train.txt", CausalLM())
    assert mixture == Mixture(name="both", tasks=("web", "books"), rates={"web": 3, "books": 1})


def test_corpora_without_rates_are_mixed_by_their_sizes() -> None:
    *_, mixture = made(corpora=("web", "books"), temperature=2.0)
    assert mixture.rates == Proportional(maximum=None, temperature=2.0)
    assert mixture.rates.rate(10**8) == 10**4, "no limit"


def test_all_corpora_have_the_sentinels_of_the_vocabulary() -> None:
    web, books, _ = made(num_sentinels=300)
    assert (web.num_sentinels, books.num_sentinels) == (300, 300)
    assert made()[0].num_sentinels == 100


def test_files_without_a_place_for_the_name_are_one_corpus(caplog: pytest.LogCaptureFixture) -> None:
    one = {"train_files": "train.txt", "validation_files": "validation.txt"}
    (task,) = made(**one)
    assert "no effect: the files are one corpus, without the 2 of web, books; to mix several" in caplog.text
    caplog.clear()
    assert made(**one, corpora=("web",)) == (task,)
    assert not caplog.text
    assert (task.name, task.files["train"]) == ("both", "train.txt")
    with pytest.raises(ValueError, match=r"\{corpus\} is in the files of train only .* write it into both"):
        made(validation_files="validation.txt")


def test_rows_are_drawn_by_the_rates(tmp_path: Path) -> None:
    for name, letter in (("web", "w"), ("books", "b")):
        (tmp_path / name).mkdir()
        for split in ("train", "validation"):
            (tmp_path / name / f"{split}.txt").write_text(f"{letter * 40}\n" * 50)
    registry.register(made(**{key: f"{tmp_path}/{pattern}" for key, pattern in FILES.items()}))
    loader = build_loader(LoaderConfig(mixture="both", batch_size=200, inputs_length=8, targets_length=8))
    batch = next(loader)
    counts = Counter(chr(token - 3) for token in batch.target_tokens.flat if token > 2)
    assert counts["w"] / counts.total() == pytest.approx(3 / 4, abs=0.05)


def test_a_mixture_has_the_tasks_that_its_rates_name() -> None:
    assert Mixture(name="m", rates={"a": 2.0, "b": 1.0}).tasks == ("a", "b")
    with pytest.raises(ValueError, match="mixture 'm' has no tasks"):
        Mixture(name="m")


def test_benchmarks_come_with_a_corpus_and_a_mixture_of_all() -> None:
    corpus = PretrainingTask(name="corpus", vocabulary="bytes", files={"train": "train.txt"})
    both = Mixture(name="all", rates={"corpus": 1.0, "glue_rte_v002": 1.0})
    benchmark_tasks = catalogue.benchmark_tasks("glue_rte_v002", vocabulary="bytes", others=(corpus, both))
    assert [each.name for each in benchmark_tasks] == ["glue_rte_v002", "corpus", "all"]


def test_tasks_of_a_mixture_can_be_left_out() -> None:
    rates = {"corpus": 3.0, "rte": 1.0, "cola": 2.0}
    without = Mixture(name="all", rates={"corpus": 3.0, "cola": 2.0})
    assert Mixture(name="all", rates=rates, left_out=("rte",)) == without
    assert Mixture(name="all", tasks=("a", "b"), left_out=("b",)).tasks == ("a",)
    with pytest.raises(
        ValueError, match=r"left_out has \['rt'\], and its tasks are \['cola', 'corpus', 'rte'\]"
    ):
        Mixture(name="all", rates=rates, left_out=("rt",))
