"""Models next to each other, such as students and their teacher: size, speed and scores."""

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from t5x_like.batch import Batch
from t5x_like.evaluation.scores_file import flat_scores, read_scores
from t5x_like.io.files import PathLike, as_path
from t5x_like.model.families.family import predict
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.layer_selection import num_layers_of
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.reports.score_tables import aligned


class ComparedModel(NamedTuple):
    """Size, speed and scores of a model.

    Attributes:
      title: Name in the table.
      num_parameters: Number of parameters.
      num_layers: Number of layers of each stack.
      rows_per_second: Rows of a forward pass without dropout, on this machine.
      scores: Newest scores of the run by "task/metric"; empty if it was not evaluated.
    """

    title: str
    num_parameters: int
    num_layers: tuple[int, ...]
    rows_per_second: float
    scores: Mapping[str, float | None]


def compare_models(
    models: Mapping[str, PathLike], *, num_rows: int = 8, length: int = 128, repeats: int = 7
) -> list[ComparedModel]:
    """Open and measure models one after the other.

    Args:
      models: Directories by title, of any checkpoints.
      num_rows: Rows of a batch, full of random tokens.
      length: Tokens of a row; fewer for a model with fewer positions.
      repeats: Forward passes, of which the median counts.
    """
    return [
        _measured(title, directory, open_checkpoint(directory), num_rows, length, repeats)
        for title, directory in models.items()
    ]


def models_table(models: Sequence[ComparedModel]) -> str:
    """Return a line for each model; shares and speeds are relative to the first."""
    header, *lines = table_rows(models)
    return aligned([header, *lines], left=1)


def table_rows(models: Sequence[ComparedModel]) -> list[tuple[str, ...]]:
    """Return the cells of ``models_table``, the header first."""
    names = list(dict.fromkeys(name for model in models for name in model.scores))
    first = models[0]
    rows = [("model", "layers", "parameters", "of the first", "rows/s", "speed", *names)]
    for model in models:
        scores = (model.scores.get(name) for name in names)
        rows.append(
            (
                model.title,
                " + ".join(map(str, model.num_layers)) or "-",
                f"{model.num_parameters:,}",
                f"{model.num_parameters / first.num_parameters:.0%}",
                f"{model.rows_per_second:,.1f}",
                f"{model.rows_per_second / first.rows_per_second:.2f} x",
                *("-" if score is None else f"{score:.2f}" for score in scores),
            )
        )
    return rows


def _measured(
    title: str, directory: PathLike, opened: Checkpoint, num_rows: int, length: int, repeats: int
) -> ComparedModel:
    batch = _random_batch(opened, num_rows, min(length, opened.max_positions or length))
    forward = jax.jit(lambda model, batch: predict(model, batch)._replace(extra_losses=None))
    model = opened.model
    jax.block_until_ready(forward(model, batch))
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(forward(model, batch))
        seconds.append(time.perf_counter() - begun)
    return ComparedModel(
        title=title,
        num_parameters=opened.num_parameters,
        num_layers=tuple(num_layers_of(opened.config).values()),
        rows_per_second=num_rows / statistics.median(seconds),
        scores=_newest_scores(directory, opened.step),
    )


def _random_batch(opened: Checkpoint, num_rows: int, length: int) -> Batch:
    ids = np.random.default_rng(0).integers(0, opened.config.vocab_size, (num_rows, length), dtype=np.int32)
    streams: dict[str, Any] = {}
    if opened.family in ("encoder", "encoder_decoder", "two_stream"):
        streams["encoder_input_tokens"] = ids
    if opened.family in ("decoder", "encoder_decoder", "recurrent"):
        streams["decoder_input_tokens"] = ids
    return Batch(**streams)


def _newest_scores(directory: PathLike, step: int | None) -> dict[str, float | None]:
    """Return the scores of ``t5x-like evaluate`` in the run's directory, else those of its training at this step."""
    for folder in ("evaluation", f"evaluations/step_{step}"):
        if (as_path(directory) / folder / "scores.json").exists():
            return flat_scores(read_scores(f"{directory}/{folder}"))
    return {}
