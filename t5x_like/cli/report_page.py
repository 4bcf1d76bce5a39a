"""A report as one frozen value, and the unigram entropy of a run's own targets beside its losses."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from t5x_like.cli.configuration import load
from t5x_like.reports.machine import describe_machine
from t5x_like.reports.report import ReportedRun, write_report

if TYPE_CHECKING:
    from t5x_like.text.batches.loader import LoaderConfig
    from t5x_like.training.experiment import Experiment

# So many batches are enough to count words by: 200 of 32 rows are some 200,000 tokens.
COUNTED_BATCHES = 200


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """What the page shows; see ``t5x_like.reports.report.write_report``."""

    output: str
    runs: tuple[ReportedRun, ...]
    evaluation: str
    title: str = "t5x_like: a report"
    introduction: str = ""
    references: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    next_steps: tuple[tuple[str, str], ...] = ()

    def write(self) -> None:
        """Writes the page.

        Raises:
          ValueError: a run or the evaluation is missing.
        """
        for directory, name in [
            *((run.directory, "metrics.jsonl") for run in self.runs),
            (self.evaluation, "scores.json"),
        ]:
            if not (Path(directory) / name).is_file():
                raise ValueError(f"{directory} has no {name}: nothing to report on; did it run?")
        write_report(
            self.output,
            title=self.title,
            introduction=self.introduction,
            runs=[with_entropy(run) for run in self.runs],
            evaluation=self.evaluation,
            references=self.references,
            machine=describe_machine(),
            next_steps=self.next_steps,
        )


def with_entropy(run: ReportedRun) -> ReportedRun:
    """The run, with what a model would lose on its validation targets that only knows how frequent each token is.

    Only for runs that began with fresh weights: a fine-tuned run is judged by its scores.
    """
    from t5x_like.training.experiment import Experiment

    config = Path(run.directory) / "config.gin"
    if run.unigram_entropy is not None or not config.is_file():
        return run
    experiment = load([str(config)], roots=[Experiment]).value
    if experiment.start_from or not experiment.validations:
        return run
    return dataclasses.replace(run, unigram_entropy=entropy_of(experiment))


def entropy_of(experiment: "Experiment") -> float:
    """Nats a target token."""
    from t5x_like.text.batches.loader import build_loader
    from t5x_like.text.metrics.baselines import unigram_entropy
    from t5x_like.text.tasks import registry

    def targets(config: "LoaderConfig") -> np.ndarray:
        batches = islice(build_loader(config), COUNTED_BATCHES)
        return np.concatenate(
            [np.asarray(batch.target_tokens)[np.asarray(batch.loss_weights) > 0] for batch in batches]
        )

    registry.register(experiment.tasks)  # pyright: ignore[reportArgumentType]
    train, held_out = targets(experiment.train), targets(experiment.validations[0])
    return unigram_entropy(train, held_out, vocab_size=experiment.model.vocab_size)
