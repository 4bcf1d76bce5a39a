"""Learn a SentencePiece vocabulary from plain text files, with T5's normalisation and special ids.

t5x-like vocabulary learn --input data/king_james/train.txt --output spiece.model --size 4000
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``t5x-like vocabulary``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="learn")
    learn = verbs.add_parser("learn", help="learn pieces and write a .model file", allow_abbrev=False)
    learn.add_argument("--input", nargs="+", required=True, metavar="FILE", help="UTF-8 text, or patterns")
    learn.add_argument("--output", required=True, metavar="FILE", help="the .model file to write")
    learn.add_argument("--size", type=int, required=True, help="number of pieces, without the sentinels")
    learn.add_argument("--kind", choices=["unigram", "bpe"], default="unigram")
    learn.add_argument("--character_coverage", type=float, default=0.9995, help="share of characters kept")
    learn.add_argument("--byte_fallback", action="store_true", help="spell unknown characters as bytes")
    learn.add_argument(
        "--piece", action="append", default=[], metavar="TEXT", help="make this one piece; may be repeated"
    )
    learn.add_argument("--max_sentences", type=int, default=5_000_000, help="sample this many lines at most")
    learn.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace) -> int:
    """Writes the model."""
    from t5x_like.text.vocabularies.learn import learn_sentencepiece

    learn_sentencepiece(
        arguments.input,
        arguments.output,
        size=arguments.size,
        kind=arguments.kind,
        character_coverage=arguments.character_coverage,
        byte_fallback=arguments.byte_fallback,
        pieces=arguments.piece,
        max_sentences=arguments.max_sentences,
        seed=arguments.seed,
    )
    print(f"{arguments.output}: {arguments.size} pieces")
    return 0
