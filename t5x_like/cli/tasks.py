"""List tasks and mixtures, or show a task's examples.

Benchmarks need no file. Other tasks come from a gin file or your own modules; the default is the shipped tasks.

t5x-like tasks list                          names, splits and metrics
t5x-like tasks show wordnet_definitions      a few examples: raw, formatted and tokenized
"""

import argparse
import json
from collections.abc import Sequence

from t5x_like.cli.arguments import (
    SHIPPED_TASKS,
    add_gin_arguments,
)
from t5x_like.cli.named_tasks import register_tasks, tasks_of
from t5x_like.cli.number_types import positive
from t5x_like.gin_config.user_error import UserError
from t5x_like.text.batches.first_examples import TaskExample
from t5x_like.text.batches.task_description import TaskDescription
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.seqio_bridge import task_examples
from t5x_like.text.templates import RowValues


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like tasks``."""
    verbs = parser.add_subparsers(dest="what", metavar="list|show")
    add_gin_arguments(parser)
    add_gin_arguments(verbs.add_parser("list", help="names, splits and metrics", allow_abbrev=False))
    show = verbs.add_parser("show", help="a task and a few of its examples", allow_abbrev=False)
    show.add_argument("name", help="a task or mixture")
    show.add_argument("--split", default="", help="the split to show (the first one)")
    show.add_argument("--num_examples", type=positive, default=3, metavar="N")
    show.add_argument(
        "--inputs_length", type=positive, default=512, metavar="N", help="cut inputs here, in tokens"
    )
    show.add_argument(
        "--targets_length", type=positive, default=512, metavar="N", help="cut targets here, in tokens"
    )
    add_gin_arguments(show)


def run(arguments: argparse.Namespace) -> int:
    """Print tasks or examples."""
    if not arguments.gin_file and not arguments.module:
        arguments.gin_file = [SHIPPED_TASKS]
    names = register_tasks(arguments)
    if arguments.what == "show" and arguments.name in catalogue.all_names() and arguments.name not in names:
        print(_card(arguments.name))
        print("\nIt needs no file: name it wherever a task is named. Its data: t5x-like data status")
        return 0
    if arguments.what == "show":
        for name in ("num_examples", "inputs_length", "targets_length"):
            if getattr(arguments, name) < 1:
                raise UserError(f"--{name} is {getattr(arguments, name)}", hint="give at least 1")
        (tasks,) = tasks_of([arguments.name])
        description = task_examples.describe(tasks)
        print(_describe(description))
        for shown in task_examples.show(
            tasks,
            arguments.num_examples,
            split=arguments.split or next(iter(description.splits)),
            inputs_length=arguments.inputs_length,
            targets_length=arguments.targets_length,
        ):
            print(f"\n{_example(shown)}")
        return 0
    cards = [_short_card(name) for name in catalogue.all_names() if name not in names]
    print("\n\n".join([*(_describe(task_examples.describe(each)) for each in tasks_of(names)), *cards]))
    return 0


def _describe(description: TaskDescription) -> str:
    splits = ", ".join(f"{name} {_count(number)}" for name, number in description.splits.items())
    lines = [
        f"{description.name} ({description.kind})",
        f"  splits      {splits}",
        f"  vocabulary  {description.vocabulary}, {description.vocab_size:,} ids",
    ]
    if description.metrics:
        lines.append(f"  metrics     {', '.join(description.metrics)}")
    if description.rates:
        total = sum(description.rates.values())
        shares = ", ".join(f"{name} {rate / total:.1%}" for name, rate in description.rates.items())
        lines.append(f"  mixed       {shares}")
    return "\n".join(lines)


def _count(number: int | None) -> str:
    return "of unknown size" if number is None else f"{number:,}"


def _example(shown: TaskExample) -> str:
    """Return an example's text and pieces; targets without loss are shown as dots."""
    weights = shown.extra_features.get("weights", [1.0] * len(shown.target_ids))
    learned = [
        f"{piece}:{token_id}" if weight else "·"
        for piece, token_id, weight in zip(shown.target_pieces, shown.target_ids, weights, strict=True)
    ]
    read = [
        f"{piece}:{token_id}" for piece, token_id in zip(shown.input_pieces, shown.input_ids, strict=True)
    ]
    lines = [f"raw      {shown.raw}"] if shown.raw is not None else []
    lines += [f"inputs   {shown.inputs}", f"targets  {shown.targets}"]
    lines += [f"         {' '.join(read)}", f"      -> {' '.join(learned)}"]
    for name, numbers in shown.extra_features.items():
        if name != "weights" or set(numbers) - {0.0, 1.0}:
            lines.append(f"{name}: {_runs(numbers)}")
    return "\n".join(lines)


def _runs(numbers: Sequence[float]) -> str:
    """Abbreviate runs of numbers: ``0 x3, 5..9, 1``."""
    runs: list[list[float]] = []
    for index in numbers:
        step = index - runs[-1][-1] if runs else None
        goes_on = step in (0.0, 1.0) and (len(runs[-1]) == 1 or step == runs[-1][1] - runs[-1][0])
        runs[-1].append(index) if goes_on else runs.append([index])
    return ", ".join(map(_run, runs))


def _run(run: Sequence[float]) -> str:
    if len(run) == 1:
        return f"{run[0]:g}"
    return f"{run[0]:g} x{len(run)}" if run[0] == run[1] else f"{run[0]:g}..{run[-1]:g}"


def _short_card(name: str) -> str:
    """Describe a benchmark or a mixture in a few lines."""
    if name in catalogue.mixtures():
        return _mixture_card(name)
    benchmark = catalogue.benchmark(name)
    rows = benchmark.source.rows
    splits = ", ".join(f"{split} {rows[split]:,}" if rows[split] else split for split in benchmark.splits)
    lines = [f"{name} (benchmark)", f"  what        {benchmark.title}", f"  splits      {splits}"]
    if benchmark.metrics:
        lines.append(f"  metrics     {', '.join(metric.__name__ for metric in benchmark.metrics)}")
    return "\n".join(lines)


def _card(name: str) -> str:
    """Describe a benchmark or a mixture in full, with source, head format and golden examples."""
    if name in catalogue.mixtures():
        return _mixture_card(name)
    benchmark = catalogue.benchmark(name)
    source = benchmark.source
    about = {
        "answers": ", ".join(benchmark.labels) or "open",
        "for a head": "" if benchmark.head is None else type(benchmark.head).__name__,
        "from": source.home,
        "cite": source.citation,
        "license": source.license,
    }
    lines = [_short_card(name), *(f"  {key:<11} {value}" for key, value in about.items() if value)]
    for example in benchmark.examples:
        lines += ["", f"raw      {_json(example.row)}"]
        if not example.formatted:
            lines.append("         left out")
        for row in example.formatted:
            lines += [f"inputs   {row['inputs']}", f"targets  {row['targets']}"]
    return "\n".join(lines)


def _mixture_card(name: str) -> str:
    rates = catalogue.mixtures()[name].fixed_rates or {}
    total = sum(rates.values())
    shares = [
        f"{task} {rate / total:.1%}" if rate else f"{task} (evaluated only)" for task, rate in rates.items()
    ]
    return f"{name} (mixture of benchmarks)\n  mixed       {', '.join(shares)}"


def _json(row: RowValues) -> str:
    return json.dumps(dict(row), ensure_ascii=False)
