"""Sets of queries, documents and judgments in BEIR's layout, and pairs of sentences with gold similarities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple, Protocol

import numpy as np
from etils import epath
from jax.sharding import Mesh

from t5x_like.evaluation.similarity import cosine_similarities
from t5x_like.io.files import PathLike, as_path
from t5x_like.retrieval.source_texts import SourceText, cell_text, column_of, read_source_texts
from t5x_like.retrieval.text_embedder import TextEmbedder
from t5x_like.retrieval.vector_index import RankedPassage, VectorIndex
from t5x_like.text.metrics.correlation import pearson_corrcoef, spearman_corrcoef
from t5x_like.text.metrics.retrieval_metrics import retrieval_scores
from t5x_like.text.tasks.row_files import FORMATS, ending_of, good_rows
from t5x_like.text.tasks.rows import Row

_CORPUS, _QUERIES, _QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
_FIRST_TEXTS, _SECOND_TEXTS = ("sentence1", "text1", "sentence_a"), ("sentence2", "text2", "sentence_b")
_SCORES = ("score", "label", "similarity", "similarity_score")
_QUERY_IDS, _DOCUMENT_IDS = ("query-id", "query_id", "qid"), ("corpus-id", "corpus_id", "docid", "doc_id")


@dataclass(frozen=True, kw_only=True)
class RetrievalSet:
    """Queries with judged documents of a corpus (Thakur et al. 2021, BEIR, https://arxiv.org/abs/2104.08663).

    Attributes:
      directory: Folder with ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``.
      queries: Text of each judged query, by its id.
      judgments: Grades of documents by query.
    """

    directory: str
    queries: dict[str, str]
    judgments: dict[str, dict[str, int]]

    @classmethod
    def read(cls, directory: PathLike, split: str = "test") -> "RetrievalSet":
        """Read the queries and judgments of a set.

        Args:
          directory: Folder in BEIR's layout.
          split: Name of the file of judgments in ``qrels``.

        Raises:
          ValueError: A file is missing, a row can't be read, or a judged query has no text.
        """
        home = as_path(directory)
        for name in (_CORPUS, _QUERIES, _QRELS):
            if not (home / name).exists():
                raise ValueError(
                    f"{home} has no {name}; a set in BEIR's layout has {_CORPUS}, {_QUERIES} and {_QRELS}/{split}.tsv"
                )
        judgments: dict[str, dict[str, int]] = {}
        for row in good_rows(_qrels_file(home, split)):
            query, document, grade = _judgment(row)
            judgments.setdefault(query, {})[document] = grade
        texts = {source.id: source.text for source in read_source_texts([str(home / _QUERIES)])}
        absent = [query for query in judgments if query not in texts]
        if absent or not judgments:
            what = f"query {absent[0]!r}, which is judged, has no text" if absent else "nothing is judged"
            raise ValueError(f"{home / _QUERIES}: {what} ({_QRELS}/{split}.tsv)")
        return cls(
            directory=str(directory),
            queries={query: texts[query] for query in judgments},
            judgments=judgments,
        )

    def documents(self) -> Iterator[SourceText]:
        """Yield the documents of the corpus, each after its title."""
        return read_source_texts([str(as_path(self.directory) / _CORPUS)])


class ResultOrder(Protocol):
    """Protocol of rerankers."""

    def rerank(
        self, queries: Sequence[str], results: Sequence[Sequence[RankedPassage]]
    ) -> list[list[RankedPassage]]:
        """Return the results of each query with other scores, the best first.

        Args:
          queries: Queries without a prompt.
          results: Results of each query.
        """
        ...


class RetrievalEvaluation(NamedTuple):
    """Scores of a retrieval set, and the ranking that they are of.

    Attributes:
      scores: Metrics by name, between 0 and 1.
      rankings: Documents with their scores by query, the best first.
    """

    scores: dict[str, float]
    rankings: dict[str, list[tuple[str, float]]]


def evaluate_retrieval(
    retrieval_set: RetrievalSet,
    index: VectorIndex,
    embedder: TextEmbedder,
    *,
    depth: int = 100,
    reranker: ResultOrder | None = None,
    rerank_depth: int = 100,
    mesh: Mesh | None = None,
) -> RetrievalEvaluation:
    """Search a set's queries in an index of its corpus, and score the rankings.

    A document's score is that of its best passage. A document with the id of the query is left out, as BEIR does.

    Args:
      retrieval_set: Queries and judgments.
      index: Index of the corpus.
      embedder: Model of the index.
      depth: Documents of each ranking.
      reranker: Model that orders the first passages anew; those after them keep their order.
      rerank_depth: Number of passages that it reads for each query.
      mesh: Devices over which vectors are split.

    Raises:
      ValueError: No judged document is in the index.
    """
    queries = retrieval_set.queries
    # One more than the depth, because the query itself may be a document.
    k = min((depth + 1) * max(1, -(-len(index) // index.num_texts)), len(index))
    results = index.search(embedder, list(queries.values()), k, mesh=mesh)
    if reranker is not None:
        first = reranker.rerank(list(queries.values()), [each[:rerank_depth] for each in results])
        results = [
            [*head, *_below(head, each[rerank_depth:])] for head, each in zip(first, results, strict=True)
        ]
    rankings = {
        query: _documents_of(query, of_query, depth) for query, of_query in zip(queries, results, strict=True)
    }
    ids = {query: [document for document, _ in ranking] for query, ranking in rankings.items()}
    return RetrievalEvaluation(retrieval_scores(retrieval_set.judgments, ids, depth=depth), rankings)


def _below(head: Sequence[RankedPassage], tail: Sequence[RankedPassage]) -> list[RankedPassage]:
    """Return results with scores below those of other results, in their order."""
    lowest = head[-1].score if head else 0.0
    return [result._replace(score=lowest - rank) for rank, result in enumerate(tail, start=1)]


def _documents_of(query: str, results: Sequence[RankedPassage], depth: int) -> list[tuple[str, float]]:
    best: dict[str, float] = {}
    for result in results:
        if result.passage.id != query:
            best.setdefault(result.passage.id, result.score)
    return list(best.items())[:depth]


def trec_run(rankings: dict[str, list[tuple[str, float]]], name: str) -> str:
    """Return rankings as lines of a TREC run: query, Q0, document, rank, score, name.

    Args:
      rankings: Documents with their scores by query.
      name: Name of the run.
    """
    return "".join(
        f"{query} Q0 {document} {rank} {score:.6f} {name}\n"
        for query, ranking in rankings.items()
        for rank, (document, score) in enumerate(ranking, start=1)
    )


def evaluate_similarity(file: str, embedder: TextEmbedder, columns: Sequence[str] = ()) -> dict[str, float]:
    """Return Spearman's and Pearson's correlation, times 100, of cosines with the gold scores of a table.

    Args:
      file: Table with two texts and a score in each row.
      embedder: Model of the vectors; both texts have the prompt of a query.
      columns: Columns of the first text, the second and the score; by their usual names if not given.

    Raises:
      ValueError: A column is missing, or a score is no number.
    """
    if ending_of(file) not in FORMATS:
        raise ValueError(
            f"{file} is neither a table ({', '.join(FORMATS)}) nor a folder in BEIR's layout; give one of them"
        )
    first, second, gold = (*columns, "", "", "")[:3]
    texts: tuple[list[str], list[str]] = ([], [])
    scores: list[float] = []
    for row in good_rows(file):
        names = (
            column_of(row, first, _FIRST_TEXTS, "first texts"),
            column_of(row, second, _SECOND_TEXTS, "second texts"),
        )
        for side, name in zip(texts, names, strict=True):
            side.append(cell_text(row, name))
        scores.append(_number(row, column_of(row, gold, _SCORES, "scores")))
    vectors = [embedder.embed(side, "query") for side in texts]
    cosines = cosine_similarities(*vectors).tolist()
    return {**spearman_corrcoef(scores, cosines), **pearson_corrcoef(scores, cosines)}


def _qrels_file(home: epath.Path, split: str) -> str:
    file = home / _QRELS / f"{split}.tsv"
    if not file.exists():
        splits = ", ".join(sorted(PurePath(path).stem for path in (home / _QRELS).glob("*.tsv"))) or "none"
        raise ValueError(f"{home / _QRELS} has no {split}.tsv; the splits are {splits}")
    return str(file)


def _judgment(row: Row) -> tuple[str, str, int]:
    query = cell_text(row, column_of(row, "", _QUERY_IDS, "query ids"))
    document = cell_text(row, column_of(row, "", _DOCUMENT_IDS, "document ids"))
    return query, document, round(_number(row, column_of(row, "", _SCORES, "grades")))


def _number(row: Row, column: str) -> float:
    text = cell_text(row, column)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise ValueError(f"{row.location}: {column} is {text!r}, which is no number")
    return value
