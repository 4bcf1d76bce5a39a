"""``t5x-like evaluate --text`` and ``--mean_of``: perplexities of texts, and what several evaluations say together."""

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

from t5x_like.cli.suite_tables import over_runs_table, perplexities_table
from t5x_like.gin_config.user_error import UserError


def measure(arguments: argparse.Namespace) -> int:
    """Prints the perplexities of texts, one after the other and together."""
    from t5x_like.evaluation.loaded_model import load_model
    from t5x_like.evaluation.text_perplexity import measure_texts
    from t5x_like.io.files import write_json
    from t5x_like.io.text_encoding import text_of
    from t5x_like.partitioning.mesh import MeshConfig
    from t5x_like.text.metrics.perplexity import perplexities

    if not arguments.checkpoint:
        raise UserError("say which weights: --checkpoint RUN_DIR, or a directory in Hugging Face's layout")
    texts = [text_of(file).replace("\r\n", "\n") for file in arguments.text]
    empty = [file for file, text in zip(arguments.text, texts, strict=True) if not text.strip()]
    if empty:
        raise UserError(f"--text {empty[0]}: nothing is in it to be measured")
    mesh = MeshConfig().build()
    model = load_model(
        arguments.checkpoint,
        mesh=mesh,
        step=arguments.step,
        vocabulary=arguments.vocabulary or "",
        num_sentinels=arguments.num_sentinels,
    )
    costs = measure_texts(
        model,
        texts,
        length=arguments.inputs_length,
        stride=arguments.stride,
        batch_size=arguments.batch_size or 8 * mesh.size,
    )
    total = costs[0]
    for cost in costs[1:]:
        total += cost
    named = dict(zip(arguments.text, costs, strict=True)) | ({"together": total} if len(costs) > 1 else {})
    print(perplexities_table({name: (cost, perplexities(cost)) for name, cost in named.items()}))
    if arguments.output_dir:
        found = {name: cost._asdict() | perplexities(cost) for name, cost in named.items()}
        write_json(f"{arguments.output_dir}/perplexities.json", found)
        print(f"written to {arguments.output_dir}/perplexities.json")
    return 0


def mean_of(arguments: argparse.Namespace) -> int:
    """Prints mean and deviation of every score that finished evaluations have in common.

    Raises:
      UserError: they have none, or one evaluation is named twice.
    """
    from t5x_like.evaluation.suite_run import read_suite_scores
    from t5x_like.io.files import write_json
    from t5x_like.text.metrics.averages import over_runs

    paths = [os.path.realpath(directory) for directory in arguments.mean_of]
    twice = [name for name, path in zip(arguments.mean_of, paths, strict=True) if paths.count(path) > 1]
    if twice:
        raise UserError(f"--mean_of: {twice[0]} is named more than once, and would count as several runs")
    runs, evaluations = [], [read_suite_scores(directory) for directory in arguments.mean_of]
    for found in evaluations:
        scores = {
            f"{task}/{name}": value
            for task, entry in found["tasks"].items()
            for name, value in entry["scores"].items()
        }
        runs.append(scores | {f"average/{name}": each["score"] for name, each in found["averages"].items()})
    means = over_runs(runs)
    if not means:
        raise UserError("--mean_of: these evaluations have no score in common")
    print(over_runs_table(means))
    for name in _differing(evaluations):
        values = dict.fromkeys(str(found.get(name)) for found in evaluations)
        print(f"these were not evaluated alike: {name} is {' and '.join(values)}")
    if arguments.output_dir:
        write_json(
            f"{arguments.output_dir}/over_runs.json",
            {"runs": arguments.mean_of, "scores": {name: each._asdict() for name, each in means.items()}},
        )
        print(f"written to {arguments.output_dir}/over_runs.json")
    return 0


_DECIDING = ("split", "method", "num_shots", "limit", "num_beams", "normalisation")


def _differing(evaluations: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings, other than the weights, in which evaluations differ."""
    return [name for name in _DECIDING if len({str(found.get(name)) for found in evaluations}) > 1]
