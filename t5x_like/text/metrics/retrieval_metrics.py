"""Metrics of ranked documents, as trec_eval defines them, between 0 and 1."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from t5x_like.text.metrics.classification import Scores

Judgments = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]

NDCG_CUTS = (10,)
RECALL_CUTS = (10, 100)
_MRR_CUT = 10


def retrieval_scores(judgments: Judgments, rankings: Rankings, *, depth: int = 100) -> Scores:
    """Return the means over all judged queries of nDCG@10, MRR@10, recall@10, recall@100 and MAP.

    Grades above 0 are relevant. Gains are the grades themselves, discounted by ``log2(rank + 1)`` (Järvelin and
    Kekäläinen 2002). A query without ranking or without a relevant document scores 0, as in trec_eval.

    Args:
      judgments: Grades of documents by query; documents without a grade are not relevant.
      rankings: Documents of each query, the best first.
      depth: Number of documents of a ranking that count for MAP. Recall over a larger cut is left out.

    Raises:
      ValueError: There are no judgments, or a ranking has a document twice.
    """
    if not judgments:
        raise ValueError("there are no judgments to score with")
    rows = [_scores_of(grades, list(rankings.get(query, ())), depth) for query, grades in judgments.items()]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _scores_of(grades: Mapping[str, int], ranking: Sequence[str], depth: int) -> Scores:
    if len(set(ranking)) < len(ranking):
        raise ValueError("a ranking has a document twice; keep its best place")
    relevant = {document for document, grade in grades.items() if grade > 0}
    hits = [document in relevant for document in ranking]
    scores: Scores = {f"ndcg@{cut}": ndcg(grades, ranking, cut) for cut in NDCG_CUTS if cut <= depth}
    first = next((rank for rank, hit in enumerate(hits[:_MRR_CUT], start=1) if hit), None)
    scores[f"mrr@{_MRR_CUT}"] = 1 / first if first else 0.0
    for cut in RECALL_CUTS:
        if cut <= depth:
            scores[f"recall@{cut}"] = sum(hits[:cut]) / len(relevant) if relevant else 0.0
    scores[f"map@{depth}"] = _average_precision(hits[:depth], len(relevant))
    return scores


def _average_precision(hits: Sequence[bool], num_relevant: int) -> float:
    precisions = [sum(hits[:rank]) / rank for rank, hit in enumerate(hits, start=1) if hit]
    return sum(precisions) / num_relevant if num_relevant else 0.0


def ndcg(grades: Mapping[str, int], ranking: Sequence[str], cut: int) -> float:
    """Return the discounted gain of a ranking's first documents, divided by that of the best ranking.

    Args:
      grades: Grades of documents.
      ranking: Documents, the best first.
      cut: Number of documents that count.
    """
    best = _discounted(sorted((max(grade, 0) for grade in grades.values()), reverse=True)[:cut])
    return (
        _discounted([max(grades.get(document, 0), 0) for document in ranking[:cut]]) / best if best else 0.0
    )


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
