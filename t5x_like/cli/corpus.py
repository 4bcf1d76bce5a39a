"""Make a training corpus from a web crawl or other documents; see what its rules do.

t5x-like corpus build --recipe gin/corpora/c4_en.gin --input 'crawl/*.wet.gz' --output corpus/c4_en

The same command again continues where it was stopped, or checks what is finished.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t5x_like.cli import corpus_thresholds
from t5x_like.cli.arguments import (
    CORPUS,
    add_gin_arguments,
    add_runner_arguments,
    engine_of,
    load_configuration,
)
from t5x_like.cli.named_tasks import register_tasks, tasks_of
from t5x_like.cli.number_types import positive
from t5x_like.corpora.building.build import REPORT, build_corpus
from t5x_like.corpora.building.input_files import describe_left_out
from t5x_like.corpora.rules.page_explanation import ExplainedPage, explain_page
from t5x_like.corpora.rules.pages_to_explain import (
    STANDARD_INPUT,
    PageToExplain,
    pages_to_explain,
    with_other_bad_words,
)
from t5x_like.corpora.rules.rule import PageRule
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import write_jsonl
from t5x_like.io.paths import find_files
from t5x_like.io.terminal import colored_output
from t5x_like.reports.corpus_report import write_corpus_report
from t5x_like.reports.page_explanation_text import PageExplanationText

_EXPLAIN_HELP = """Show the verdict of each of a recipe's rules on pages, and on their lines.

t5x-like corpus explain page.txt
t5x-like corpus explain --input pages.jsonl --json > verdicts.jsonl
t5x-like corpus explain --input 'crawl.wet.gz' --recipe gin/corpora/c4_en_fast.gin | less -R

Rules that look at more than one page (addresses and lines that come twice) are left out.
"""
_EVALUATION_TEXTS_HELP = """Write the inputs and targets of tasks as files that a corpus recipe keeps out of its pages.

t5x-like corpus evaluation_texts glue_rte_v002 super_glue_boolq_v102 --output evaluation
t5x-like corpus build --recipe gin/corpora/c4_en_every_rule.gin --set EVALUATION_TEXTS='evaluation/*.jsonl' …

Writes DIR/TASK-SPLIT.jsonl, an example a line.
"""
_EXPLAIN_RECIPE = "gin/corpora/c4_en.gin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like corpus``."""
    verbs = parser.add_subparsers(
        dest="what", required=True, metavar="build|explain|evaluation_texts|report|thresholds"
    )

    def add_verb(name: str, line: str, description: str | None = None) -> argparse.ArgumentParser:
        return verbs.add_parser(
            name,
            help=line,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    _add_build(add_verb("build", "build a corpus, or continue it"))
    _add_explain(add_verb("explain", "every rule's verdict on pages, line by line", _EXPLAIN_HELP))
    texts = add_verb(
        "evaluation_texts", "what tasks ask and answer, to keep it out of a corpus", _EVALUATION_TEXTS_HELP
    )
    _add_evaluation_texts(texts)
    report = add_verb("report", "one HTML page: what was kept and dropped, and why")
    report.add_argument("corpus", metavar="DIR", help="folder of a finished corpus")
    report.add_argument("--output", metavar="FILE", help="the page to write (DIR/report.html)")
    thresholds = add_verb("thresholds", "choose a threshold for a model's ratings", corpus_thresholds.HELP)
    corpus_thresholds.add_arguments(thresholds)


def _add_build(build: argparse.ArgumentParser) -> None:
    build.add_argument(
        "--input",
        action="append",
        required=True,
        metavar="GLOB",
        help="WET, WARC, JSONL, parquet, HTML, Markdown or text files, local or in buckets, or a folder of the last "
        "three; may be repeated",
    )
    build.add_argument("--output", required=True, metavar="DIR", help="folder for the corpus")
    build.add_argument(
        "--workers",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="work with so many processes (%(default)s); the outcome is the same",
    )
    add_runner_arguments(build)
    add_gin_arguments(build, file_flag="--recipe", required=True)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pages", nargs="*", metavar="FILE", help="plain text, a page a file; - is standard input"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="FILE",
        help="pages as JSONL (text; url, timestamp and language if there), WET, WARC or parquet; may be repeated",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="one object a page: url, cleaned_text (null where its lines are the reason), kept, reason, lines",
    )
    parser.add_argument(
        "--bad_words",
        metavar="FILE",
        help="other bad words: one term a line, or a folder or JSON object of such lists by language",
    )
    add_gin_arguments(parser, file_flag="--recipe")


def _add_evaluation_texts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tasks", nargs="+", metavar="TASK", help="tasks, or mixtures for all of their tasks")
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder for the files")
    parser.add_argument(
        "--split", action="append", default=[], help="only this split; may be repeated (all but train)"
    )
    add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the given sub-verb."""
    verbs = {
        "build": _build,
        "explain": _explain,
        "evaluation_texts": _write_evaluation_texts,
        "report": _report,
        "thresholds": corpus_thresholds.run,
    }
    verbs[arguments.what](arguments)


def _build(arguments: argparse.Namespace) -> None:
    if arguments.workers < 1:
        raise UserError(f"--workers must be at least 1, not {arguments.workers}")
    recipe = load_configuration(arguments, CORPUS).value
    manifest, was_finished = build_corpus(
        recipe, arguments.input, arguments.output, workers=arguments.workers, engine=engine_of(arguments)
    )
    print(_table(manifest))
    print(_summary(arguments.output, manifest) + (" – finished before, and whole" if was_finished else ""))


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
        f"{name:<{widths[0]}}  {seen:>{widths[1]}}  {kept:>{widths[2]}}  {dropped:>{widths[3]}}  {reasons}".rstrip()
        for name, seen, kept, dropped, reasons in rows
    )


def _summary(output: str, manifest: dict[str, Any]) -> str:
    read, splits = manifest["input"], manifest["splits"]
    parts = [
        f"{split['pages']:,} for {name} ({split['bytes'] / 1e6:,.1f} MB in {_plural(split['shards'], 'shard')})"
        for name, split in splits.items()
    ]
    damaged = manifest["reading"]["damaged"]
    left_out = read.get("left out", {})
    return (
        f"{output}: of {_plural(read['pages'], 'page')} {' and '.join(parts)}"
        + (f"; damage was met {_plural(damaged, 'time')}, see manifest.json" if damaged else "")
        + (f"; files left out: {describe_left_out(left_out)}" if left_out else "")
    )


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _explain(arguments: argparse.Namespace) -> None:
    if not arguments.pages and not arguments.input:
        raise UserError("no page given", hint="give text files, --input pages.jsonl, or - for standard input")
    arguments.gin_file = arguments.gin_file or [_EXPLAIN_RECIPE]
    recipe = load_configuration(arguments, CORPUS).value
    left_out = ", ".join(step.NAME for step in recipe.steps if not hasattr(step, "apply"))
    with with_other_bad_words(recipe.steps, arguments.bad_words) as steps:
        rules = [step for step in steps if hasattr(step, "apply")]
        explained = ((page, _explained(page, rules)) for page in _pages(arguments, recipe.reading))
        if arguments.json:
            for page, explanation in explained:
                print(json.dumps(_in_json(page, explanation)))
        else:
            _print_explanations(explained)
    if left_out:
        note = f"Left out, since they look at all pages: {left_out}"
        print(note, file=sys.stderr if arguments.json else sys.stdout)


def _explained(page: PageToExplain, rules: Sequence[PageRule]) -> ExplainedPage:
    if page.fault is None:
        return explain_page(page.page, rules)
    print(f"t5x-like: {page.fault}", file=sys.stderr)
    return ExplainedPage(None, "unreadable", (), ())


def _pages(arguments: argparse.Namespace, reading: Any) -> Iterator[PageToExplain]:
    for file in arguments.pages:
        yield from pages_to_explain(file, reading, kind="text")
    for pattern in arguments.input:
        for file in [pattern] if pattern == STANDARD_INPUT else find_files(pattern):
            yield from pages_to_explain(file, reading, kind="jsonl")


def _in_json(page: PageToExplain, explanation: ExplainedPage) -> dict[str, object]:
    return {
        "url": page.url,
        "cleaned_text": explanation.cleaned_text,
        "kept": explanation.kept,
        "reason": explanation.reason,
        "lines": [{"line": line.line, "decision": line.decision} for line in explanation.lines],
    }


def _print_explanations(explained: Iterable[tuple[PageToExplain, ExplainedPage]]) -> None:
    text = PageExplanationText.for_stream(sys.stdout)
    for page, explanation in explained:
        print(text.page(page.name, explanation), file=colored_output())
    print(text.summary())


def _write_evaluation_texts(arguments: argparse.Namespace) -> None:
    register_tasks(arguments)
    tasks = {name: task for each in tasks_of(arguments.tasks) for name, task in each.tasks.items()}
    for name, task in tasks.items():
        splits = arguments.split or [split for split in task.splits if split != "train"]
        if not splits:
            raise UserError(
                f"task {name!r} has nothing but a split train", hint="give --split train if you mean it"
            )
        for split in splits:
            rows = [{"text": text} for text in task.texts(split)]
            file = f"{arguments.output}/{name}-{split}.jsonl"
            write_jsonl(file, rows)
            print(f"{file}: {len(rows):,} examples")


def _report(arguments: argparse.Namespace) -> None:
    output = arguments.output or os.path.join(arguments.corpus, REPORT)
    write_corpus_report(arguments.corpus, output)
    print(f"written to {output}")
