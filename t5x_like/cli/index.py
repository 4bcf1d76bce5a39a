"""Search your own texts by meaning: build an index of vectors, ask it questions, measure how well it answers.

t5x-like index build TEXTS --checkpoint path/to/e5-small --output INDEX      a folder, or tables such as corpus.jsonl
t5x-like index search INDEX "Who wrote Ulysses?"
t5x-like index evaluate SET --checkpoint path/to/e5-small                    BEIR's layout, or pairs with scores

The model is a run, or a directory of Hugging Face or sentence-transformers. The same build again continues where it was
stopped, and encodes only blocks of passages that have changed.
"""

import argparse
import sys

from t5x_like.cli.arguments import add_module_argument, import_users_modules
from t5x_like.cli.number_types import non_negative, positive
from t5x_like.gin_config.user_error import UserError

_SEARCH_HELP = """Print the passages that are most similar to each question, the best first.

t5x-like index search INDEX "Who wrote Ulysses?" --top_k 5
t5x-like index search INDEX --input_file questions.txt --json > results.jsonl
t5x-like index search INDEX "Who wrote Ulysses?" --reranker runs/reranker --rerank_depth 50
"""
_EVALUATE_HELP = """Score a model on a retrieval set, or on pairs of sentences with gold similarities.

t5x-like index evaluate path/to/scifact --checkpoint MODEL             nDCG@10, MRR@10, recall@10, recall@100, MAP
t5x-like index evaluate stsb.tsv --checkpoint MODEL                    Spearman and Pearson of cosines

A retrieval set is a folder in BEIR's layout: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv. Columns of a table of pairs
are sentence1, sentence2 and score, or those of --columns.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like index``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="build|search|evaluate")

    def add_verb(name: str, line: str, description: str | None = None) -> argparse.ArgumentParser:
        return verbs.add_parser(
            name,
            help=line,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    _add_build(add_verb("build", "write the vectors of texts"))
    _add_search(add_verb("search", "passages that are similar to questions", _SEARCH_HELP))
    _add_evaluate(add_verb("evaluate", "scores on a retrieval set or on pairs of sentences", _EVALUATE_HELP))


def _add_build(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "texts",
        nargs="+",
        metavar="TEXTS",
        help="folders of text, Markdown and HTML files; JSONL, CSV, TSV, parquet or Arrow files; or patterns",
    )
    add("--output", required=True, metavar="INDEX", help="folder of the index, new or one to continue")
    _add_model(parser, required=True)
    add("--text_column", default="", metavar="NAME", help="column of a table's texts (text, contents, …)")
    add("--id_column", default="", metavar="NAME", help="column of ids (_id, id, docid, url; else file:row)")
    add("--title_column", default="", metavar="NAME", help="column of a title before the text (title)")
    _add_passages(parser, length="256 tokens, or as many as the model reads")


def _add_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("index", metavar="INDEX", help="folder that index build has written")
    add("questions", nargs="*", metavar="QUESTION", help="questions, each in quotes")
    add("--input_file", metavar="FILE", help="a question on each line; - is standard input")
    add("--top_k", type=positive, metavar="K", help="passages for each question (10)")
    add("--checkpoint", default="", metavar="DIR", help="the model, where it has moved since the build")
    add("--query_prompt", metavar="TEXT", help="beginning of every question (that of the build)")
    add("--batch_size", type=positive, default=32, metavar="N", help="texts at once (%(default)s)")
    add(
        "--json",
        action="store_true",
        help="one object for each result: query, rank, score, id, file, index, text",
    )
    _add_reranker(parser)
    add_module_argument(parser)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", metavar="SET", help="a folder in BEIR's layout, or a table of pairs")
    _add_model(parser, required=True)
    add("--split", default="test", help="file of judgments in qrels (%(default)s)")
    add("--index", default="", metavar="DIR", help="keep the index of the corpus there, for the next time")
    add("--top_k", type=positive, default=100, metavar="K", help="documents of a ranking (%(default)s)")
    add(
        "--columns",
        nargs=3,
        default=(),
        metavar="NAME",
        help="columns of a table of pairs: first text, second text, score",
    )
    add("--output_dir", metavar="DIR", help="write retrieval.json there, and of rankings run.trec")
    _add_passages(parser, length="0: whole documents, cut to what the model reads")
    _add_reranker(parser)


def _add_model(parser: argparse.ArgumentParser, *, required: bool) -> None:
    add = parser.add_argument
    add("--checkpoint", required=required, metavar="DIR", help="the model: a run, or a directory of others")
    add(
        "--query_prompt",
        metavar="TEXT",
        help="beginning of every question, such as 'query: ' (as the model says)",
    )
    add(
        "--document_prompt",
        metavar="TEXT",
        help="beginning of every passage, such as 'passage: ' (as the model says)",
    )
    add(
        "--similarity",
        choices=["cosine", "dot"],
        default="cosine",
        help="cosine scales vectors to length 1 (%(default)s)",
    )
    poolings = ["mean", "first", "last", "max", "weighted_mean"]
    add("--pooling", choices=poolings, help="pooling (as the model says, else mean)")
    add("--max_length", type=positive, metavar="N", help="tokens that a text is cut to (as the model says)")
    add("--dtype", choices=["float32", "bfloat16"], default="float32", help="computation (%(default)s)")
    add("--batch_size", type=positive, default=32, metavar="N", help="texts at once (%(default)s)")
    add_module_argument(parser)


def _add_passages(parser: argparse.ArgumentParser, *, length: str) -> None:
    add = parser.add_argument
    add(
        "--passage_length",
        type=non_negative,
        metavar="N",
        help=f"tokens of a passage ({length}); 0 cuts nothing",
    )
    add(
        "--passage_overlap",
        type=non_negative,
        metavar="N",
        help="tokens that passages share (an eighth of a passage)",
    )
    add(
        "--vector_dtype",
        choices=["float16", "float32"],
        default="float16",
        help="type of stored vectors (%(default)s)",
    )
    add(
        "--block_size",
        type=positive,
        default=4096,
        metavar="N",
        help="passages in memory at once (%(default)s)",
    )


def _add_reranker(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--reranker",
        default="",
        metavar="DIR",
        help="a cross-encoder or a model of late interaction, which orders the results anew",
    )
    add("--rerank_depth", type=positive, metavar="N", help="results that the reranker reads (100)")


def run(arguments: argparse.Namespace) -> int:
    """Run the given sub-verb."""
    if arguments.module:
        import_users_modules(arguments)
    if arguments.what == "search":
        arguments.questions += _lines(arguments.input_file) if arguments.input_file else []
        if not arguments.questions:
            raise UserError("no question given", hint='t5x-like index search INDEX "Who wrote Ulysses?"')
        empty = [index for index, each in enumerate(arguments.questions, start=1) if not each.strip()]
        if empty:
            raise UserError(f"question {empty[0]} is empty", hint="give a text")
    if getattr(arguments, "rerank_depth", None) and not arguments.reranker:
        raise UserError("--rerank_depth is for a reranker", hint="give one by --reranker DIR")
    from t5x_like.cli import index_commands  # imports JAX

    commands = {
        "build": index_commands.build,
        "search": index_commands.search,
        "evaluate": index_commands.evaluate,
    }
    commands[arguments.what](arguments)
    return 0


def _lines(file: str) -> list[str]:
    if file == "-":
        return [line.rstrip("\n") for line in sys.stdin if line.strip()]
    with open(file, encoding="utf-8") as opened:
        return [line.rstrip("\n") for line in opened if line.strip()]
