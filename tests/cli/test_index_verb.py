"""``t5x-like index`` from a folder of texts to a ranked answer, and its messages."""

import json

import pytest

from t5x_like.cli.main import main
from tests.retrieval.tiny_embedder import write_model

TEXTS = {
    "whales.txt": "whales are mammals",
    "paris.txt": "paris is the capital of france",
    "below/rust.txt": "rust is a language",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    write_model(folder / "model")
    for name, text in TEXTS.items():
        path = folder / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["index", "build", "texts", "--checkpoint", "model", "--output", "index"]) == 0
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_a_question_is_answered_with_the_nearest_passage(capsys):
    assert main(["index", "search", "index", "the capital of france", "--top_k", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "the capital of france"
    assert lines[1].startswith("  1. 0.")
    assert "texts/paris.txt, passage 1" in lines[1]
    assert lines[2].strip() == TEXTS["paris.txt"]
    assert len(lines) == 5


def test_questions_of_a_file_become_json_from_any_folder(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "questions.txt").write_text("whales are mammals\n\nrust is a language\n")
    monkeypatch.chdir(tmp_path)
    search = [
        "index",
        "search",
        str(folder / "index"),
        "--input_file",
        "questions.txt",
        "--top_k",
        "1",
        "--json",
    ]
    assert main(search) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["query"], each["rank"], each["id"], each["index"]) for each in results] == [
        ("whales are mammals", 1, "texts/whales.txt", 0),
        ("rust is a language", 1, "texts/below/rust.txt", 0),
    ]


def test_the_same_build_again_says_what_was_there(capsys):
    assert main(["index", "build", "texts", "--checkpoint", "model", "--output", "index"]) == 0
    out = capsys.readouterr().out
    assert "index: 3 passages of 3 texts, vectors of width 32 in float16" in out
    assert "3 were there before" in out


def test_a_set_and_pairs_are_evaluated(tmp_path, capsys):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in TEXTS.items())
    )
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "rust is a language"}\n')
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tbelow/rust.txt\t1\n")
    evaluate = [
        "index",
        "evaluate",
        str(tmp_path),
        "--checkpoint",
        "model",
        "--output_dir",
        str(tmp_path / "out"),
    ]
    assert main(evaluate) == 0
    assert "ndcg@10     1.0000" in capsys.readouterr().out
    assert json.loads((tmp_path / "out/retrieval.json").read_text())["scores"]["mrr@10"] == 1.0
    assert (tmp_path / "out/run.trec").read_text().startswith("q Q0 below/rust.txt 1 ")
    (tmp_path / "sts.csv").write_text("a,b,c\nwhales,whales,5\nrust,paris,1\nparis,rust are,2\n")
    pairs = [
        "index",
        "evaluate",
        str(tmp_path / "sts.csv"),
        "--columns",
        "a",
        "b",
        "c",
        "--checkpoint",
        "model",
    ]
    assert main(pairs) == 0
    assert "spearman_corrcoef" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "index"], "no question given"),
        (["search", "index", " "], "question 1 is empty"),
        (["search", "index", "rust", "--top_k", "9"], "--top_k=9: index has 3 passages; give 1 to 3"),
        (["search", "texts", "rust"], "texts is no index, it has no index.json"),
        (["search", "index", "rust", "--rerank_depth", "5"], "--rerank_depth is for a reranker"),
        (
            ["search", "index", "rust", "--reranker", "model"],
            "model has a head for pretraining, and a reranker scores pairs",
        ),
        (["build", "nowhere", "--checkpoint", "model", "--output", "x"], "'nowhere' does not exist"),
        (
            ["build", "texts", "--checkpoint", "model", "--output", "x", "--passage_length", "99"],
            "--passage_length 99: the model reads 30 tokens of a passage",
        ),
        (
            ["build", "texts", "--checkpoint", "model", "--output", "index", "--vector_dtype", "float32"],
            "is an index with --vector_dtype=float16, and --vector_dtype=float32 is wanted",
        ),
        (["evaluate", "texts", "--checkpoint", "model"], "texts has no corpus.jsonl"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_mistake_ends_with_2_and_one_message(arguments, message, capsys):
    assert main(["index", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
