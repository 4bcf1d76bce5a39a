"""Look inside a model: what its vectors, neurons and attention do with your texts.

t5x-like analyze path/to/bert texts.txt --what anisotropy --output_dir looked        a page, and its numbers as JSON
t5x-like analyze runs/pretrain pairs.tsv --what anisotropy --option second_text=b --option score=score
t5x-like analyze path/to/bert tagged.tsv --what probes --option words=words          columns words and tags
t5x-like analyze path/to/bert bank.conllu --what structural_probe                    trees in the states
t5x-like analyze path/to/bert texts.txt --what attention_maps --output_dir looked    each head, drawn
t5x-like analyze path/to/bert facts.jsonl --what knowledge_neurons                   prompts with their answers
t5x-like analyze path/to/gpt2 texts.txt --what feed_forward_memories                 texts and words of neurons
t5x-like analyze path/to/bert texts.txt --what moefication                           loss with some neurons alone
t5x-like analyze path/to/bert texts.txt --module mine --what mine.inside.MyAnalysis  a class of yours

A table (.csv, .tsv, .jsonl, .parquet) has the texts in its column "text", or in that of --option text=COLUMN. A .conllu
file has sentences with the columns words, tags and heads. Any other file has a text on each line. The options of an
analysis are the fields of its class: --what NAME --options lists them.
"""

import argparse
import ast
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import t5x_like
from t5x_like.analysis.treebank import conllu_rows
from t5x_like.cli.arguments import add_module_argument, import_users_modules
from t5x_like.cli.number_types import non_negative
from t5x_like.gin_config.user_error import UserError, nearest
from t5x_like.io.text_encoding import text_of
from t5x_like.reports.score_tables import aligned
from t5x_like.text.tasks.row_files import FORMATS, ending_of, good_rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like analyze``."""
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="a run, or any other checkpoint with its tokenizer")
    add("texts", nargs="*", metavar="FILE", help="tables, or files with a text on each line")
    add(
        "--what",
        required=True,
        metavar="ANALYSIS",
        help="anisotropy, attention_maps, feed_forward_memories, knowledge_neurons, moefication, probes, "
        "structural_probe, or package.module.Class of yours",
    )
    add(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="give an option of the analysis another value; may be repeated",
    )
    add("--options", action="store_true", help="list the options of the analysis and their values, and stop")
    add("--step", type=non_negative, metavar="N", help="a run's checkpoint of this step, not its newest")
    add("--output_dir", metavar="DIR", help="write analysis.html and analysis.json there")
    add_module_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the results of an analysis, and write them."""
    if arguments.module:
        import_users_modules(arguments)
    kind = t5x_like.analysis_class(arguments.what)
    options = dict(_option(kind, text) for text in arguments.option)
    analysis = kind(**options)
    if arguments.options:
        print(aligned([(each.name, repr(getattr(analysis, each.name))) for each in fields(analysis)], left=2))
        return 0
    if not arguments.texts:
        raise UserError("say which texts: a table, or a file with a text on each line, after the checkpoint")
    rows = [row for file in arguments.texts for row in _rows(file)]
    result = t5x_like.analyze(
        t5x_like.from_pretrained(arguments.checkpoint, step=arguments.step),
        rows,
        arguments.what,
        output_dir=arguments.output_dir,
        source=", ".join(arguments.texts),
        **options,
    )
    for name, value in result.headlines.items():
        print(f"{name}: {value:.4g}")
    for table in result.tables:
        header = [each.lstrip(">") for each in table.header]
        cells = [[str(cell) for cell in row] for row in table.rows]
        print(f"\n{table.title}\n{aligned([header, *cells], left=_num_texts(table.header))}")
    if arguments.output_dir:
        print(f"\nwritten to {arguments.output_dir}/analysis.html and analysis.json")
    return 0


def _num_texts(header: Iterable[str]) -> int:
    """Return the number of the first columns that are text."""
    return next((index for index, name in enumerate(header) if name.startswith(">")), 0)


def _option(kind: "type[t5x_like.Analysis]", text: str) -> tuple[str, Any]:
    """Return the name and the value of ``--option``, which the class checks.

    Raises:
      UserError: It is no ``NAME=VALUE``, or the analysis has no such option.
    """
    name, equals, value = text.partition("=")
    types = {each.name: each.type for each in fields(kind)}
    if not equals:
        raise UserError(f"--option {text}: give a name and a value", hint="write --option NAME=VALUE")
    if name not in types:
        hint = nearest(name, types) or f"there are {', '.join(types)}"
        raise UserError(f"--option {text}: {kind.__name__} has no option {name!r}", hint=hint)
    if types[name] is str:
        return name, value
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _rows(file: str) -> Iterable[dict[str, Any]]:
    """Yield the rows of a table, or the lines of another file.

    Raises:
      ValueError: There is no such file, or a row can't be read.
    """
    if not Path(file).is_file():
        raise UserError(f"{file}: there is no such file")
    if ending_of(file) == "conllu":
        yield from conllu_rows(file)
        return
    if ending_of(file) not in FORMATS:
        yield from ({"text": line} for line in text_of(file).splitlines() if line.strip())
        return
    yield from (row.cells for row in good_rows(file))
