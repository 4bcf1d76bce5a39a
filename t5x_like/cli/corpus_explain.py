"""Show what a recipe's rules make of pages: every rule's verdict, and every line's.

t5x-like corpus explain page.txt
t5x-like corpus explain --input pages.jsonl --json > verdicts.jsonl
t5x-like corpus explain --input 'crawl.wet.gz' --recipe gin/corpora/c4_en_fast.gin | less -R

Rules that look at more than one page (addresses and lines that come twice) are left out.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from t5x_like.cli.arguments import CORPUS, add_gin_arguments, load_configuration
from t5x_like.gin_config.user_error import UserError

if TYPE_CHECKING:
    from t5x_like.cli.pages_to_explain import PageToExplain
    from t5x_like.corpora.rules.explaining import ExplainedPage
    from t5x_like.corpora.rules.rule import PageRule

RECIPE = "gin/corpora/c4_en.gin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``t5x-like corpus explain``."""
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
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


def run(arguments: argparse.Namespace) -> int:
    """Writes what becomes of each page; mistakes are raised."""
    if not arguments.pages and not arguments.input:
        raise UserError("no page given", hint="give text files, --input pages.jsonl, or - for standard input")
    arguments.gin_file = arguments.gin_file or [RECIPE]
    recipe: Any = load_configuration(arguments, CORPUS).value
    from t5x_like.cli.other_bad_words import with_bad_words

    left_out = ", ".join(step.NAME for step in recipe.steps if not hasattr(step, "apply"))
    with with_bad_words(recipe.steps, arguments.bad_words) as steps:
        rules = [step for step in steps if hasattr(step, "apply")]
        explained = ((page, _explain(page, rules)) for page in _pages(arguments, recipe.reading))
        if arguments.json:
            for page, explanation in explained:
                print(json.dumps(_in_json(page, explanation)))
        else:
            _write_for_people(explained)
    if left_out:
        note = f"Left out, since they look at all pages: {left_out}"
        print(note, file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _explain(page: "PageToExplain", rules: "Sequence[PageRule]") -> "ExplainedPage":
    from t5x_like.corpora.rules.explaining import ExplainedPage, explain_page

    if page.fault is None:
        return explain_page(page.page, rules)
    print(f"t5x-like: {page.fault}", file=sys.stderr)
    return ExplainedPage(None, "unreadable", (), ())


def _pages(arguments: argparse.Namespace, reading: Any) -> Iterator["PageToExplain"]:
    from t5x_like.cli.pages_to_explain import STANDARD_INPUT, pages_to_explain
    from t5x_like.io.paths import find_files

    for file in arguments.pages:
        yield from pages_to_explain(file, reading, kind="text")
    for pattern in arguments.input:
        for file in [pattern] if pattern == STANDARD_INPUT else find_files(pattern):
            yield from pages_to_explain(file, reading, kind="jsonl")


def _in_json(page: "PageToExplain", explanation: "ExplainedPage") -> dict[str, Any]:
    return {
        "url": page.url,
        "cleaned_text": explanation.cleaned_text,
        "kept": explanation.kept,
        "reason": explanation.reason,
        "lines": [{"line": line.line, "decision": line.decision} for line in explanation.lines],
    }


def _write_for_people(explained: Iterator[tuple["PageToExplain", "ExplainedPage"]]) -> None:
    from t5x_like.cli.explanation_text import ExplanationText

    text = ExplanationText.for_stream(sys.stdout)
    for page, explanation in explained:
        print(text.page(page.name, explanation))
    print(text.summary())
