"""The commands of ``t5x-like index``. Imports JAX."""

import argparse
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack

import jax
from jax.sharding import Mesh

from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import as_path, write_json, write_text
from t5x_like.io.progress import Progress
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.retrieval.passages import PassageLength
from t5x_like.retrieval.retrieval_sets import (
    ResultOrder,
    RetrievalSet,
    evaluate_retrieval,
    evaluate_similarity,
    trec_run,
)
from t5x_like.retrieval.source_texts import SourceText, TextColumns, read_source_texts
from t5x_like.retrieval.text_embedder import EmbeddingSettings, TextEmbedder
from t5x_like.retrieval.token_reranker import open_reranker
from t5x_like.retrieval.vector_index import (
    BuildCounts,
    IndexSettings,
    RankedPassage,
    VectorIndex,
    build_index,
)

_PASSAGE_LENGTH, _RERANK_DEPTH, _SHOWN = 256, 100, 300  # tokens, results, characters


def build(arguments: argparse.Namespace) -> None:
    """Write an index."""
    columns = TextColumns(text=arguments.text_column, id=arguments.id_column, title=arguments.title_column)
    texts = read_source_texts(arguments.texts, columns)
    embedder = _embedder(arguments)
    settings = _settings(arguments, embedder, default=_PASSAGE_LENGTH)
    counts = _build(texts, embedder, arguments.output, settings)
    size = sum(path.stat().length for path in as_path(arguments.output).iterdir())
    kept = counts.num_passages - counts.num_encoded
    print(
        f"{arguments.output}: {counts.num_passages:,} passages of {counts.num_texts:,} texts, vectors of width "
        f"{counts.width} in {settings.vector_dtype}, {size / 1e6:,.1f} MB"
        + (f"; {kept:,} were there before" if kept else "")
    )


def _build(
    texts: Iterable[SourceText], embedder: TextEmbedder, directory: str, settings: IndexSettings
) -> BuildCounts:
    with Progress("encoding", None, "passages") as progress:
        return build_index(texts, embedder, directory, settings, on_passages=progress.add)


def search(arguments: argparse.Namespace) -> None:
    """Print the passages that are most similar to questions."""
    index = VectorIndex(arguments.index)
    top_k = min(10, len(index)) if arguments.top_k is None else arguments.top_k
    reranker = _reranker(arguments)
    depth = top_k
    if reranker is not None:
        depth = max(min(arguments.rerank_depth or _RERANK_DEPTH, len(index)), top_k)
    embedder = index.open_embedder(
        arguments.checkpoint, query_prompt=arguments.query_prompt, batch_size=arguments.batch_size
    )
    results = index.search(embedder, arguments.questions, depth, mesh=_mesh())
    if reranker is not None:
        results = [of_query[:top_k] for of_query in reranker.rerank(arguments.questions, results)]
    for query, of_query in zip(arguments.questions, results, strict=True):
        if not arguments.json:
            print(query if len(results) == 1 else f"\n{query}")
        for rank, result in enumerate(of_query, start=1):
            print(_in_json(query, rank, result) if arguments.json else _in_words(rank, result))


def _in_json(query: str, rank: int, result: RankedPassage) -> str:
    fields = {"query": query, "rank": rank, "score": result.score, **result.passage._asdict()}
    return json.dumps(fields, ensure_ascii=False)


def _in_words(rank: int, result: RankedPassage) -> str:
    passage = result.passage
    text = " ".join(passage.text.split())
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{rank:>3}. {result.score:.4f}  {passage.id}, passage {passage.index + 1}\n     {text}"


def evaluate(arguments: argparse.Namespace) -> None:
    """Score a model on a retrieval set, or on pairs of sentences."""
    if os.path.isdir(arguments.data):
        _evaluate_retrieval(arguments)
        return
    if arguments.reranker or arguments.index:
        raise UserError("--reranker and --index are for retrieval sets, and a table of pairs is given")
    scores = evaluate_similarity(arguments.data, _embedder(arguments), tuple(arguments.columns))
    _report(arguments, scores)


def _evaluate_retrieval(arguments: argparse.Namespace) -> None:
    retrieval_set = RetrievalSet.read(arguments.data, arguments.split)
    reranker = _reranker(arguments)
    embedder = _embedder(arguments)
    settings = _settings(arguments, embedder, default=0)
    with ExitStack() as opened:
        directory = arguments.index or opened.enter_context(tempfile.TemporaryDirectory())
        _build(retrieval_set.documents(), embedder, directory, settings)
        evaluation = evaluate_retrieval(
            retrieval_set,
            VectorIndex(directory),
            embedder,
            depth=arguments.top_k,
            reranker=reranker,
            rerank_depth=arguments.rerank_depth or _RERANK_DEPTH,
            mesh=_mesh(),
        )
    _report(arguments, evaluation.scores, num_queries=len(retrieval_set.queries))
    if arguments.output_dir:
        write_text(f"{arguments.output_dir}/run.trec", trec_run(evaluation.rankings, "t5x_like"))


def _report(arguments: argparse.Namespace, scores: Mapping[str, float], **further: int) -> None:
    width = max(map(len, scores))
    for name, score in scores.items():
        print(f"{name:<{width}}  {score:.4f}")
    if arguments.output_dir:
        record = {"data": arguments.data, "checkpoint": arguments.checkpoint, "reranker": arguments.reranker}
        write_json(f"{arguments.output_dir}/retrieval.json", {**record, **further, "scores": dict(scores)})
        print(f"written to {arguments.output_dir}/retrieval.json")


def _embedder(arguments: argparse.Namespace) -> TextEmbedder:
    settings = EmbeddingSettings(
        query_prompt=arguments.query_prompt,
        document_prompt=arguments.document_prompt,
        similarity=arguments.similarity,
        pooling=arguments.pooling,
        max_length=arguments.max_length,
        dtype=arguments.dtype,
    )
    return TextEmbedder.open(arguments.checkpoint, settings, batch_size=arguments.batch_size)


def _settings(arguments: argparse.Namespace, embedder: TextEmbedder, *, default: int) -> IndexSettings:
    room = embedder.num_text_tokens()
    length = arguments.passage_length
    if length is None:
        length = min(default, room or default)
    elif room is not None and length > room:
        raise UserError(
            f"--passage_length {length}: the model reads {room} tokens of a passage",
            hint=f"give at most {room}",
        )
    overlap = length // 8 if arguments.passage_overlap is None else arguments.passage_overlap
    return IndexSettings(
        passages=PassageLength(length=length, overlap=overlap),
        vector_dtype=arguments.vector_dtype,
        block_size=arguments.block_size,
    )


def _reranker(arguments: argparse.Namespace) -> ResultOrder | None:
    return open_reranker(arguments.reranker, batch_size=arguments.batch_size) if arguments.reranker else None


def _mesh() -> Mesh | None:
    return MeshConfig().build() if jax.device_count() > 1 else None
