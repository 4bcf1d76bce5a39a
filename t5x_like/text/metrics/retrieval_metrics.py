"""Metrics of ranked documents, between 0 and 1, by trec_eval."""

from collections.abc import Mapping, Sequence

import numpy as np

from t5x_like.text.metrics.classification import Scores

Judgments = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]

_NDCG_CUT = _MRR_CUT = 10
_RECALL_CUTS = (10, 100)


def retrieval_scores(judgments: Judgments, rankings: Rankings, *, depth: int = 100) -> Scores:
    """Return the means over all judged queries of nDCG@10, MRR@10, recall@10, recall@100 and MAP.

    Grades above 0 are relevant. Gains are the grades themselves, discounted by ``log2(rank + 1)`` (Järvelin and
    Kekäläinen 2002). A query without ranking or without a relevant document scores 0.

    Args:
      judgments: Grades of documents by query; documents without a grade are not relevant.
      rankings: Documents of each query, the best first.
      depth: Number of documents of a ranking that count for MAP. Metrics with a larger cut are left out.

    Raises:
      ValueError: There are no judgments, a ranking has a document twice, or pytrec_eval isn't installed.
    """
    if not judgments:
        raise ValueError("there are no judgments to score with")
    if any(len({*ranking}) < len(ranking) for ranking in rankings.values()):
        raise ValueError("a ranking has a document twice; keep its best place")
    cuts = [("ndcg", "ndcg_cut", _NDCG_CUT), *(("recall", "recall", cut) for cut in _RECALL_CUTS)]
    measures = {f"{name}@{cut}": f"{measure}.{cut}" for name, measure, cut in cuts if cut <= depth}
    measures |= {f"map@{depth}": f"map_cut.{depth}"}
    scores = _means(judgments, rankings, measures)
    shortened = {query: ranking[:_MRR_CUT] for query, ranking in rankings.items()}  # recip_rank knows no cut
    return scores | _means(judgments, shortened, {f"mrr@{_MRR_CUT}": "recip_rank"})


def _means(judgments: Judgments, rankings: Rankings, measures: Mapping[str, str]) -> Scores:
    """Return means over judged queries by our name of each measure; trec_eval leaves out queries without ranking."""
    try:
        import pytrec_eval
    except ImportError as error:
        raise ValueError(
            f"scores of rankings need pytrec_eval, but {error}; pip install 't5x-like[retrieval]'"
        ) from error
    evaluator = pytrec_eval.RelevanceEvaluator(
        {query: dict(grades) for query, grades in judgments.items()}, {*measures.values()}
    )
    scores = evaluator.evaluate(
        {query: {text: -rank for rank, text in enumerate(ranking)} for query, ranking in rankings.items()}
    )
    return {
        name: float(
            np.mean([scores.get(query, {}).get(measure.replace(".", "_"), 0.0) for query in judgments])
        )
        for name, measure in measures.items()
    }
