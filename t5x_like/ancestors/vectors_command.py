"""Train vectors of words or of a graph's entities, score them, convert their files, and look for the nearest ones.

t5x-like vocabulary learn --kind words --lower_case --size 13000 --input data/king_james/train.txt --output words.json
t5x-like vectors train --vocabulary words.json --input data/king_james/train.txt --output vectors.txt
t5x-like vectors nearest vectors.txt king
t5x-like vectors evaluate vectors.txt --analogies questions-words.txt --similarity wordsim353.tsv --lower_case
t5x-like vectors convert vectors.txt vectors.bin
t5x-like vectors train --method transe --input triples.tsv --output entities.vec --relations relations.vec
t5x-like vectors evaluate entities.vec --relations relations.vec --links held_out.tsv --known triples.tsv
"""

import argparse
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from t5x_like.ancestors.word_vectors.link_prediction import graph_of, numbers_of, read_triples, score_links
from t5x_like.ancestors.word_vectors.vector_benchmarks import (
    read_analogies,
    read_similarities,
    score_analogies,
    score_similarities,
)
from t5x_like.ancestors.word_vectors.vector_files import VECTOR_FORMATS, read_vectors, write_vectors
from t5x_like.ancestors.word_vectors.word_text import read_word_text
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.cli.number_types import non_negative, non_negative_number, positive, positive_number
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import as_path, write_json
from t5x_like.text.vocabularies.opening import open_tokenizer

_DISTANCES = ("l1", "l2")
_MIN_COUNT = 5
_FORMAT_HELP = "of the file; word2vec_binary if it ends with .bin, else word2vec"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like vectors``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="train|evaluate|nearest|convert")
    _add_train(verbs.add_parser("train", help="train them on text and write their file", allow_abbrev=False))
    evaluate = verbs.add_parser("evaluate", help="score them on analogies and similarity", allow_abbrev=False)
    evaluate.add_argument("vectors", metavar="FILE", help="word vectors")
    evaluate.add_argument(
        "--analogies",
        action="append",
        default=[],
        metavar="FILE",
        help="like questions-words.txt; may repeat",
    )
    evaluate.add_argument(
        "--similarity", action="append", default=[], metavar="FILE", help="like WordSim-353; may repeat"
    )
    evaluate.add_argument(
        "--links", action="append", default=[], metavar="FILE", help="triples of entities; may repeat"
    )
    evaluate.add_argument(
        "--known", action="append", default=[], metavar="FILE", help="with --links: further right triples"
    )
    evaluate.add_argument("--relations", metavar="FILE", help="with --links: vectors of relations")
    evaluate.add_argument(
        "--distance", choices=_DISTANCES, default="l1", help="with --links: that of training"
    )
    evaluate.add_argument("--lower_case", action="store_true", help="convert the words of these files")
    evaluate.add_argument("--most_frequent", type=positive, metavar="N", help="use the first vectors only")
    evaluate.add_argument("--output", default="", metavar="FILE", help="write the scores as JSON")
    nearest = verbs.add_parser("nearest", help="words with the largest cosine", allow_abbrev=False)
    nearest.add_argument("vectors", metavar="FILE", help="word vectors")
    nearest.add_argument("words", nargs="+", metavar="WORD", help="words whose vectors are added")
    nearest.add_argument(
        "--minus", nargs="+", default=[], metavar="WORD", help="words whose vectors are subtracted"
    )
    nearest.add_argument("--number", type=positive, default=10, metavar="N", help="of words to show")
    convert = verbs.add_parser("convert", help="write them in another format", allow_abbrev=False)
    convert.add_argument("vectors", metavar="FILE", help="word vectors")
    convert.add_argument("output", metavar="OUTPUT", help="the file to write")
    convert.add_argument("--format", choices=VECTOR_FORMATS, help=_FORMAT_HELP)
    for each in (evaluate, nearest, convert):
        each.add_argument("--input_format", choices=VECTOR_FORMATS, help="of FILE; recognized if not given")


def _add_train(train: argparse.ArgumentParser) -> None:
    train.add_argument("--method", choices=("word2vec", "glove", "transe"), default="word2vec")
    train.add_argument(
        "--vocabulary", metavar="PATH", help="a vocabulary of whole words, for vectors of words"
    )
    train.add_argument(
        "--input", nargs="+", required=True, metavar="FILE", help="UTF-8 text, or patterns; transe: triples"
    )
    train.add_argument("--relations", metavar="PATH", help="transe: the file of relations' vectors to write")
    train.add_argument("--distance", choices=_DISTANCES, help="transe: l1, or Euclidean")
    train.add_argument("--output", required=True, metavar="PATH", help="the file to write")
    train.add_argument("--format", choices=VECTOR_FORMATS, help=_FORMAT_HELP)
    train.add_argument("--min_count", type=positive, metavar="N", help="leave out rarer words; by default 5")
    for flag, number_type, words in (
        ("--dim", positive, "dimensions of vectors"),
        ("--window", positive, "largest distance of neighbors"),
        ("--epochs", positive, "times to read the text"),
        ("--learning_rate", positive_number, "the first one"),
        ("--batch_size", positive, "of pairs of words"),
        ("--num_negatives", positive, "word2vec: noise words of a pair"),
        ("--subsample", non_negative_number, "word2vec: threshold of frequent words; 0 keeps all"),
        ("--count_limit", positive_number, "glove: counts of at least this weigh 1"),
        ("--power", non_negative_number, "glove: of the weight of smaller counts"),
        ("--margin", positive_number, "transe: by which wrong triples are farther"),
        ("--seed", non_negative, "of everything that is drawn"),
    ):
        train.add_argument(flag, type=number_type, metavar="N", help=words)


def run(arguments: argparse.Namespace) -> int:
    """Train, score, convert or search word vectors."""
    {"train": _train, "evaluate": _evaluate, "nearest": _nearest, "convert": _convert}[arguments.what](
        arguments
    )
    return 0


def _train(arguments: argparse.Namespace) -> None:
    from t5x_like.ancestors.word_vectors import glove, skip_gram, trans_e  # import JAX

    classes: dict[str, Any] = {"word2vec": skip_gram.SkipGram, "glove": glove.Glove, "transe": trans_e.TransE}
    method = classes[arguments.method]
    names = {field.name for field in fields(method)}
    settings = {field.name for each in classes.values() for field in fields(each)}
    chosen = {name: value for name in settings if (value := getattr(arguments, name)) is not None}
    if wrong := sorted(chosen.keys() - names):
        raise UserError(f"--{wrong[0]} is not for --method {arguments.method}", hint="leave it out")
    training = method(**chosen)
    if as_path(arguments.output).is_dir():
        raise UserError(f"--output {arguments.output} is a directory", hint="give a file in it")
    if arguments.method == "transe":
        _train_entities(training, arguments)
        return
    if arguments.relations is not None:
        raise UserError(f"--relations is not for --method {arguments.method}", hint="leave it out")
    if arguments.vocabulary is None:
        raise UserError("vectors of words need --vocabulary, a vocabulary of whole words")
    text = read_word_text(
        arguments.input,
        open_tokenizer(arguments.vocabulary, 0),
        min_count=arguments.min_count or _MIN_COUNT,
        progress=True,
    )
    vectors, losses = training.train(text, progress=True)
    write_vectors(arguments.output, vectors, arguments.format)
    print(
        f"{arguments.output}: {len(vectors.words):,} words of {vectors.dim} dimensions, trained on "
        f"{len(text.rows):,} words of text; loss {losses[0]:.4f} in the first epoch, {losses[-1]:.4f} in the last"
    )


def _train_entities(training: Any, arguments: argparse.Namespace) -> None:
    for name in ("vocabulary", "min_count"):
        if getattr(arguments, name) is not None:
            raise UserError(f"--{name} is for words, and --method transe reads triples", hint="leave it out")
    if arguments.relations is None:
        raise UserError("--method transe also needs --relations, the file of relations' vectors to write")
    graph = graph_of(read_triples(arguments.input))
    vectors, losses = training.train(graph, progress=True)
    write_vectors(arguments.output, vectors.entities, arguments.format)
    write_vectors(arguments.relations, vectors.relations, arguments.format)
    print(
        f"{arguments.output}: {len(graph.entities):,} entities of {training.dim} dimensions, trained on "
        f"{len(graph.triples):,} triples of {len(graph.relations):,} relations ({arguments.relations}); loss "
        f"{losses[0]:.4f} in the first epoch, {losses[-1]:.4f} in the last"
    )


def _evaluate(arguments: argparse.Namespace) -> None:
    if not arguments.analogies and not arguments.similarity and not arguments.links:
        raise UserError(
            "say what to score the vectors on: --analogies FILE, --similarity FILE, or of entities --links FILE"
        )
    if bool(arguments.links) != (arguments.relations is not None):
        raise UserError("--links needs --relations, the vectors of relations, and these need --links")
    lower_case, most = arguments.lower_case, arguments.most_frequent
    analogies = {file: read_analogies(file, lower_case=lower_case) for file in arguments.analogies}
    pairs = {file: read_similarities(file, lower_case=lower_case) for file in arguments.similarity}
    vectors = read_vectors(arguments.vectors, arguments.input_format)
    vectors = WordVectors(vectors.words[:most], vectors.table[:most])
    scores: dict[str, Any] = {"vectors": arguments.vectors, "words": len(vectors.words), "dim": vectors.dim}
    scores |= {"analogies": {}, "similarity": {}}
    if arguments.links:
        scores["links"] = _score_links(vectors, arguments)
    for file, questions in analogies.items():
        result = score_analogies(vectors, questions)
        scores["analogies"][file] = asdict(result)
        for section, each in result.sections.items():
            print(f"  {section or 'no section'}: {each['accuracy']:.1f} % of {each['num_answered']:,}")
        print(
            f"{file}: accuracy {result.accuracy:.2f} % of {result.num_answered:,} questions whose words have vectors, "
            f"of {result.num_questions:,}"
        )
    for file, rows in pairs.items():
        similar = score_similarities(vectors, rows)
        scores["similarity"][file] = asdict(similar)
        print(
            f"{file}: Spearman correlation {similar.spearman_corrcoef:.2f} over {similar.num_scored:,} pairs whose "
            f"words have vectors, of {similar.num_pairs:,}"
        )
    if arguments.output:
        write_json(arguments.output, scores)


def _score_links(entities: WordVectors, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    relations = read_vectors(arguments.relations, arguments.input_format)
    names = entities.words, relations.words
    known = read_triples(arguments.known) if arguments.known else []
    scores = {}
    for file in arguments.links:
        triples = numbers_of(read_triples([file]), *names)
        right = np.concatenate([triples, *([numbers_of(known, *names)] if known else [])])
        result = score_links(entities, relations, triples, right, distance=arguments.distance)
        scores[file] = result._asdict()
        print(
            f"{file}: {len(triples):,} triples, of {len(entities.words):,} entities; filtered mean rank "
            f"{result.filtered_mean_rank:.1f}, hits@10 {result.filtered_hits_at_10:.1f} %; raw mean rank "
            f"{result.mean_rank:.1f}, hits@10 {result.hits_at_10:.1f} %"
        )
    return scores


def _nearest(arguments: argparse.Namespace) -> None:
    vectors = read_vectors(arguments.vectors, arguments.input_format)
    for word, cosine in vectors.nearest(arguments.words, minus=arguments.minus, number=arguments.number):
        print(f"{cosine:.4f}  {word}")


def _convert(arguments: argparse.Namespace) -> None:
    vectors = read_vectors(arguments.vectors, arguments.input_format)
    write_vectors(arguments.output, vectors, arguments.format)
    print(f"{arguments.output}: {len(vectors.words):,} words of {vectors.dim} dimensions")
