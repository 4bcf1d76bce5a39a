"""Learn vocabularies from plain text, compare them, look into one.

t5x-like vocabulary learn --kind bpe --input data/king_james/train.txt --output spiece.model --size 4000
t5x-like vocabulary compare spiece.model bytes --input data/king_james/test.txt --output comparison
t5x-like vocabulary show spiece.model --text "In the beginning"
"""

import argparse

from t5x_like.cli.number_types import non_negative, positive, share
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import as_path, write_bytes, write_json
from t5x_like.reports.vocabulary_comparison import draw_comparison
from t5x_like.text.vocabularies.compare import Measures, measure
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer, pad_size
from t5x_like.text.vocabularies.vocabulary_ids import ids_of
from t5x_like.text.vocabularies.vocabulary_training import KINDS, VocabularyTraining


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like vocabulary``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="learn|compare|show")
    _add_learn(verbs.add_parser("learn", help="learn one and write its file", allow_abbrev=False))
    compare = verbs.add_parser("compare", help="what a text costs in each", allow_abbrev=False)
    compare.add_argument(
        "vocabularies", nargs="+", metavar="VOCABULARY", help="a file, a directory, bytes, or a tiktoken name"
    )
    compare.add_argument("--input", nargs="+", required=True, metavar="FILE", help="UTF-8 text, or patterns")
    compare.add_argument(
        "--output", default="", metavar="DIR", help="write comparison.json and comparison.png"
    )
    show = verbs.add_parser("show", help="its ids, and how it reads text", allow_abbrev=False)
    show.add_argument("vocabulary", help="a file, a directory, bytes, or a tiktoken name")
    show.add_argument(
        "--num_sentinels", type=non_negative, default=100, metavar="N", help="ids to add at its end"
    )
    show.add_argument("--text", action="append", default=[], help="text to encode; may be repeated")


def _add_learn(learn: argparse.ArgumentParser) -> None:
    learn.add_argument("--input", nargs="+", required=True, metavar="FILE", help="UTF-8 text, or patterns")
    learn.add_argument(
        "--output",
        required=True,
        metavar="PATH",
        help="unigram, bpe: a .model file; wordpiece: a .txt file or a directory; bytebpe: a .json file or a "
        "directory; words, characters: a .json file",
    )
    learn.add_argument("--size", type=positive, required=True, help="number of ids, without the sentinels")
    learn.add_argument("--kind", choices=KINDS, default="unigram")
    learn.add_argument(
        "--end_of_word", action="store_true", help="bpe: Sennrich's, which marks ends of words"
    )
    learn.add_argument(
        "--lower_case", action="store_true", help="wordpiece, words, bpe with --end_of_word: no capitals"
    )
    learn.add_argument("--min_count", type=positive, default=1, metavar="N", help="leave out what is rarer")
    learn.add_argument("--whitespace_only", action="store_true", help="words: keep punctuation on words")
    learn.add_argument(
        "--character_coverage", type=share, default=0.9995, help="unigram, bpe: share of characters kept"
    )
    learn.add_argument(
        "--byte_fallback", action="store_true", help="unigram, bpe: spell unknown characters as bytes"
    )
    learn.add_argument(
        "--piece",
        action="append",
        default=[],
        metavar="TEXT",
        help="unigram, bpe: make this one piece; may be repeated",
    )
    learn.add_argument(
        "--max_sentences", type=positive, default=5_000_000, help="draw this many lines at most"
    )
    learn.add_argument("--seed", type=non_negative, default=0)


def run(arguments: argparse.Namespace) -> int:
    """Learn, compares or shows vocabularies."""
    {"learn": _learn, "compare": _compare, "show": _show}[arguments.what](arguments)
    return 0


def _learn(arguments: argparse.Namespace) -> None:
    size = VocabularyTraining(
        kind=arguments.kind,
        inputs=arguments.input,
        output=arguments.output,
        size=arguments.size,
        end_of_word=arguments.end_of_word,
        lower_case=arguments.lower_case,
        min_count=arguments.min_count,
        whitespace_only=arguments.whitespace_only,
        character_coverage=arguments.character_coverage,
        byte_fallback=arguments.byte_fallback,
        pieces=tuple(arguments.piece),
        max_sentences=arguments.max_sentences,
        seed=arguments.seed,
    ).run(progress=True)
    fewer = f" ({arguments.size} were asked, the text has no more)" if size < arguments.size else ""
    print(f"{arguments.output}: {size} pieces{fewer}")


def _compare(arguments: argparse.Namespace) -> None:
    if len(arguments.vocabularies) < 2:
        raise UserError(
            "t5x-like vocabulary compare needs two vocabularies or more", hint="bytes is always there"
        )
    tokenizers = [open_tokenizer(name, 0) for name in arguments.vocabularies]
    measures = measure(tokenizers, arguments.input, progress=True)
    print(_table(measures))
    if arguments.output:
        folder = as_path(arguments.output)
        write_json(folder / "comparison.json", [each.as_row() for each in measures])
        write_bytes(folder / "comparison.png", draw_comparison(measures))
        print(f"\nwritten: {folder / 'comparison.json'}, {folder / 'comparison.png'}")


def _table(measures: list[Measures]) -> str:
    head = ("vocabulary", "kind", "ids", "tokens per word", "bytes per token", "unknown")
    rows = [
        (
            each.name,
            each.kind,
            f"{each.vocab_size:,}",
            f"{each.fertility:.3f}",
            f"{each.bytes_per_token:.3f}",
            f"{each.unknown_rate:.3%}",
        )
        for each in measures
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:<{width}}" if index < 2 else f"{cell:>{width}}"
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )


def _show(arguments: argparse.Namespace) -> None:
    tokenizer = open_tokenizer(arguments.vocabulary, arguments.num_sentinels)
    print(_describe(tokenizer))
    for text in arguments.text:
        ids = tokenizer.encode(text)
        print(f"\n{text}\n  " + " ".join(f"{tokenizer.piece(token_id)}:{token_id}" for token_id in ids))
        if (again := tokenizer.decode(ids)) != text:
            print(f"  reads back as: {again}")


def _describe(tokenizer: Tokenizer) -> str:
    ids, own = ids_of(tokenizer), tokenizer.special.by_role
    lent = [
        name for name in ("mask", "cls", "sep", "bos") if own[name] is None and getattr(ids, name) is not None
    ]
    special = ", ".join(f"{name} {token_id}" for name, token_id in own.items() if token_id is not None)
    lines = [
        f"{tokenizer.name} ({tokenizer.kind})",
        f"  ids          {tokenizer.vocab_size:,}; tables of models have {pad_size(tokenizer.vocab_size):,} rows",
        f"  special      {special or 'none'}",
        f"  sentinels    {tokenizer.num_sentinels}, from {tokenizer.vocab_size - 1} down"
        if tokenizer.num_sentinels
        else "  sentinels    none",
        f"  fingerprint  {tokenizer.fingerprint}",
    ]
    if lent:
        names = ", ".join(f"{name} {getattr(ids, name)}" for name in lent)
        lines.insert(4, f"  lent         {names}: the last sentinels, for objectives that need them")
    return "\n".join(lines)
