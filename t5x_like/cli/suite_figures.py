"""``t5x-like evaluate --text`` and ``--mean_of``: perplexities of texts, and what several evaluations say together."""

import argparse
from pathlib import Path

from t5x_like.cli.mistakes import Mistake
from t5x_like.cli.suite_tables import over_runs_table, perplexities_table


def measure(arguments: argparse.Namespace) -> int:
    """Prints the perplexities of texts, one after the other and together."""
    from t5x_like.evaluation.suite.loaded_model import load_model
    from t5x_like.evaluation.suite.text_perplexity import measure_texts
    from t5x_like.files import write_json
    from t5x_like.partitioning.mesh import MeshConfig
    from t5x_like.text.metrics.perplexity import perplexities

    if not arguments.checkpoint:
        raise Mistake("say which weights: --checkpoint RUN_DIR, or a directory in Hugging Face's layout")
    texts = [Path(file).read_text(encoding="utf-8") for file in arguments.text]
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
    """Prints mean and deviation of every score that finished evaluations have in common."""
    from t5x_like.evaluation.suite.run import read_suite_scores
    from t5x_like.files import write_json
    from t5x_like.text.metrics.averages import over_runs

    runs = []
    for directory in arguments.mean_of:
        found = read_suite_scores(directory)
        scores = {
            f"{task}/{name}": value
            for task, entry in found["tasks"].items()
            for name, value in entry["scores"].items()
        }
        runs.append(scores | {f"average/{name}": each["score"] for name, each in found["averages"].items()})
    means = over_runs(runs)
    if not means:
        raise Mistake("--mean_of: these evaluations have no score in common")
    print(over_runs_table(means))
    if arguments.output_dir:
        write_json(
            f"{arguments.output_dir}/over_runs.json",
            {"runs": arguments.mean_of, "scores": {name: each._asdict() for name, each in means.items()}},
        )
        print(f"written to {arguments.output_dir}/over_runs.json")
    return 0
