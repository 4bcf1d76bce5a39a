"""Retrieval sets and pairs of sentences are scored as their libraries score them."""

import json

import numpy as np
import pytest
import scipy.stats

from t5x_like.retrieval.retrieval_sets import (
    RetrievalSet,
    evaluate_retrieval,
    evaluate_similarity,
    trec_run,
)
from t5x_like.retrieval.vector_index import RankedPassage, VectorIndex, build_index
from tests.retrieval.tiny_embedder import open_embedder

DOCUMENTS = {
    "d1": "whales are mammals",
    "d2": "paris is the capital of france",
    "d3": "rust is a language",
    "q4": "cats sleep all day long",
}


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return open_embedder(tmp_path_factory.mktemp("models") / "bert")


def write_set(directory, grades, queries):
    (directory / "qrels").mkdir(parents=True)
    corpus = [{"_id": name, "title": "", "text": text} for name, text in DOCUMENTS.items()]
    rows = [{"_id": name, "text": text} for name, text in queries.items()]
    for name, lines in (("corpus", corpus), ("queries", rows)):
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(grade) for grade in grades)]
    (directory / "qrels/test.tsv").write_text("\n".join(lines) + "\n")
    return RetrievalSet.read(directory)


@pytest.fixture
def retrieval_set(tmp_path):
    queries = {
        "q1": "whales are mammals",
        "q2": "a language is rust",
        "q4": "cats sleep all day",
        "q9": "unjudged",
    }
    grades = [("q1", "d1", "1"), ("q2", "d2", "1"), ("q2", "d1", "0"), ("q4", "d3", "2")]
    return write_set(tmp_path / "set", grades, queries)


def test_the_judged_queries_are_searched_and_a_document_is_not_its_own_answer(
    retrieval_set, embedder, tmp_path
):
    build_index(retrieval_set.documents(), embedder, str(tmp_path / "index"))
    evaluation = evaluate_retrieval(retrieval_set, VectorIndex(tmp_path / "index"), embedder)
    rankings = {query: [name for name, _ in ranking] for query, ranking in evaluation.rankings.items()}
    assert list(rankings) == ["q1", "q2", "q4"]
    assert rankings["q1"][0] == "d1"
    assert rankings["q2"][0] == "d3"
    assert sorted(rankings["q4"]) == ["d1", "d2", "d3"]
    ranks = [rankings["q1"].index("d1"), rankings["q2"].index("d2"), rankings["q4"].index("d3")]
    assert evaluation.scores["mrr@10"] == pytest.approx(np.mean([1 / (rank + 1) for rank in ranks]))
    assert evaluation.scores["recall@10"] == 1.0


def test_a_reranker_orders_the_first_results_and_the_others_stay_below(retrieval_set, embedder, tmp_path):
    class Backwards:
        def rerank(self, queries, results):
            return [
                [RankedPassage(float(-rank), result.passage) for rank, result in enumerate(reversed(each))]
                for each in results
            ]

    build_index(retrieval_set.documents(), embedder, str(tmp_path / "index"))
    index = VectorIndex(tmp_path / "index")
    plain = evaluate_retrieval(retrieval_set, index, embedder).rankings["q1"]
    options = {"reranker": Backwards(), "rerank_depth": 2}
    reranked = evaluate_retrieval(retrieval_set, index, embedder, **options).rankings["q1"]
    assert [name for name, _ in reranked] == [plain[place][0] for place in (1, 0, 2, 3)]
    assert [score for _, score in reranked] == [0, -1, -2, -3]


def test_a_run_has_the_lines_of_trec():
    assert trec_run({"q": [("d2", 0.5), ("d1", 0.25)]}, "mine") == (
        "q Q0 d2 1 0.500000 mine\nq Q0 d1 2 0.250000 mine\n"
    )


def test_correlations_are_those_of_the_cosines(embedder, tmp_path):
    pairs = [
        ("whales are mammals", "whales are mammals"),
        ("rust is a language", "cats sleep"),
        ("paris", "france"),
    ]
    gold = [5.0, 1.0, 2.0]
    lines = ["sentence1\tsentence2\tscore"]
    lines += [f"{first}\t{second}\t{score}" for (first, second), score in zip(pairs, gold, strict=True)]
    (tmp_path / "sts.tsv").write_text("\n".join(lines) + "\n")
    scores = evaluate_similarity(str(tmp_path / "sts.tsv"), embedder)
    cosines = [float(np.prod(embedder.embed(list(pair), "query"), axis=0).sum()) for pair in pairs]
    assert scores["spearman_corrcoef"] == pytest.approx(100 * scipy.stats.spearmanr(gold, cosines).statistic)
    assert scores["pearson_corrcoef"] == pytest.approx(100 * scipy.stats.pearsonr(gold, cosines).statistic)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tsentence2\tscore\nx\ty\t1\n", "no column has a usual name of first texts"),
        ("sentence1\tsentence2\tscore\nx\ty\tlow\n", r"sts\.tsv:2: score is 'low', which is no number"),
        ("sentence1\tsentence2\tscore\nx\ty\n", "2 columns, where 3 are expected"),
    ],
)
def test_a_table_that_has_no_pairs_is_refused(embedder, tmp_path, content, message):
    (tmp_path / "sts.tsv").write_text(content)
    with pytest.raises(ValueError, match=message):
        evaluate_similarity(str(tmp_path / "sts.tsv"), embedder)


def test_a_file_of_another_kind_is_refused(embedder, tmp_path):
    with pytest.raises(ValueError, match=r"neither a table .* nor a folder in BEIR's layout"):
        evaluate_similarity(str(tmp_path / "sts.xml"), embedder)


def test_missing_parts_of_a_set_are_named(retrieval_set, tmp_path):
    home = tmp_path / "set"
    with pytest.raises(ValueError, match=r"has no dev\.tsv; the splits are test"):
        RetrievalSet.read(home, "dev")
    (home / "corpus.jsonl").unlink()
    with pytest.raises(ValueError, match=r"has no corpus\.jsonl; a set in BEIR's layout has"):
        RetrievalSet.read(home)


def test_a_judged_query_without_text_is_named(tmp_path):
    with pytest.raises(ValueError, match="query 'q7', which is judged, has no text"):
        write_set(tmp_path / "set", [("q7", "d1", "1")], {"q1": "whales"})
