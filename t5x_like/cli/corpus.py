"""Make a training corpus from a web crawl or other documents; see what its rules do.

t5x-like corpus build --recipe gin/corpora/c4_en.gin --input 'crawl/*.wet.gz' --output corpus/c4_en

The same command again goes on where it was stopped, or checks what is finished.
"""

import argparse
import importlib
import os
from typing import Any

from t5x_like.cli.arguments import CORPUS, add_gin_arguments, add_runner_arguments, load_configuration
from t5x_like.gin_config.user_error import UserError

# Verb: the module that has add_arguments(parser) and run(arguments), and its line in --help. ``build`` is here.
_OTHERS = {
    "explain": ("corpus_explain", "every rule's verdict on pages, line by line"),
    "evaluation_texts": ("corpus_evaluation_texts", "what tasks ask and answer, to keep it out of a corpus"),
    "report": ("corpus_report", "one HTML page: what was kept and dropped, and why"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``t5x-like corpus``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="|".join(["build", *_OTHERS]))
    _add_build(verbs.add_parser("build", help="build a corpus, or go on with it", allow_abbrev=False))
    for verb, (module, line) in _OTHERS.items():
        inner = verbs.add_parser(verb, help=line, allow_abbrev=False)
        importlib.import_module(f"t5x_like.cli.{module}").add_arguments(inner)


def _add_build(build: argparse.ArgumentParser) -> None:
    build.add_argument(
        "--input",
        action="append",
        required=True,
        metavar="GLOB",
        help="WET, WARC, JSONL, parquet or text files, local or in buckets; may be repeated",
    )
    build.add_argument("--output", required=True, metavar="DIR", help="folder for the corpus")
    build.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="work with so many processes (%(default)s); the outcome is the same",
    )
    add_runner_arguments(build)
    add_gin_arguments(build, file_flag="--recipe", required=True)


def run(arguments: argparse.Namespace) -> int:
    """Runs one of the verbs; mistakes are raised."""
    if arguments.what != "build":
        return importlib.import_module(f"t5x_like.cli.{_OTHERS[arguments.what][0]}").run(arguments) or 0
    return _build(arguments)


def _build(arguments: argparse.Namespace) -> int:
    if arguments.workers < 1:
        raise UserError(f"--workers must be at least 1, not {arguments.workers}")
    recipe: Any = load_configuration(arguments, CORPUS).value
    from t5x_like.corpora.building.build import build_corpus

    run_all = None
    if arguments.runner:
        from t5x_like.io.beam_runner import on_runner

        run_all = on_runner(arguments.runner, arguments.beam_option)
    manifest, was_finished = build_corpus(
        recipe, arguments.input, arguments.output, workers=arguments.workers, run_all=run_all
    )
    print(_table(manifest))
    print(_summary(arguments.output, manifest) + (" – finished before, and whole" if was_finished else ""))
    return 0


def _table(manifest: dict[str, Any]) -> str:
    rows = [("step", "in", "kept", "dropped", "")]
    for step in manifest["steps"]:
        dropped = sum(step["dropped"].values())
        reasons = ", ".join(
            f"{name.removeprefix('filtered:')} {count:,}" for name, count in step["dropped"].items()
        )
        rows.append((step["name"], f"{step['in']:,}", f"{step['kept']:,}", f"{dropped:,}", reasons))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{name:<{widths[0]}}  {given:>{widths[1]}}  {kept:>{widths[2]}}  {dropped:>{widths[3]}}  {reasons}".rstrip()
        for name, given, kept, dropped, reasons in rows
    )


def _summary(output: str, manifest: dict[str, Any]) -> str:
    read, splits = manifest["input"], manifest["splits"]
    parts = [
        f"{split['pages']:,} for {name} ({split['bytes'] / 1e6:,.1f} MB in {_plural(split['shards'], 'shard')})"
        for name, split in splits.items()
    ]
    damaged = manifest["reading"]["damaged"]
    return f"{output}: of {_plural(read['pages'], 'page')} {' and '.join(parts)}" + (
        f"; damage was met {_plural(damaged, 'time')}, see manifest.json" if damaged else ""
    )


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
