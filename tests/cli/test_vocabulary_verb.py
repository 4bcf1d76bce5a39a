import json
from pathlib import Path

import pytest

from t5x_like.cli.main import main

LINES = ("the king spoke to his people\n" * 40, "they went up into the land, and she said: come!\n" * 40)


@pytest.fixture
def text(tmp_path) -> str:
    (tmp_path / "text.txt").write_text("".join(LINES))
    return str(tmp_path / "text.txt")


def run(*arguments) -> int:
    return main(["vocabulary", *map(str, arguments)])


def test_learning_comparing_and_showing_follow_each_other(text, tmp_path, capsys):
    words, pairs = tmp_path / "words.json", tmp_path / "pairs.json"
    assert run("learn", "--kind", "words", "--size", 12, "--input", text, "--output", words) == 0
    assert run("learn", "--kind", "bytebpe", "--size", 280, "--input", text, "--output", pairs) == 0
    assert capsys.readouterr().out == f"{words}: 12 pieces\n{pairs}: 280 pieces\n"

    assert run("compare", words, pairs, "bytes", "--input", text, "--output", tmp_path / "out") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == [
        "vocabulary",
        "kind",
        "ids",
        *("tokens", "per", "word", "bytes", "per", "token", "unknown"),
    ]
    assert table[3].split() == ["bytes", "bytes", "259", "4.688", "1.000", "0.000%"]
    rows = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [row["kind"] for row in rows] == ["words", "tokenizer.json", "bytes"]
    assert rows[0]["unknown_rate"] > 0
    assert rows[2]["fertility"] == (28 + 47) / (6 + 10)
    assert (tmp_path / "out" / "comparison.png").read_bytes().startswith(b"\x89PNG")

    assert run("show", words, "--num_sentinels", 10, "--text", "the zebra") == 0
    shown = capsys.readouterr().out
    assert "ids          22; tables of models have 128 rows" in shown
    assert "special      pad 0, eos 1, unk 2" in shown
    assert "lent         mask 12, cls 13, sep 14, bos 15" in shown
    assert "<unk>:2" in shown
    assert "reads back as: the <unk>" in shown


def test_fewer_words_than_asked_are_reported(text, tmp_path, capsys):
    assert (
        run("learn", "--kind", "characters", "--size", 500, "--input", text, "--output", tmp_path / "c.json")
        == 0
    )
    out = capsys.readouterr().out
    assert "pieces (500 were asked, the text has no more)" in out


def test_mistakes_end_in_one_clear_line(text, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("hello")
    mistakes = {
        ("compare", "bytes", "--input", text): "needs two vocabularies or more",
        (
            "compare",
            "bytes",
            str(tmp_path / "notes.txt"),
            "--input",
            text,
        ): "is no vocabulary; what can be opened is",
        ("compare", "bytes", "bytes", "--input", "absent.txt"): "'absent.txt' does not exist",
        (
            "show",
            "gpt2",
            "--num_sentinels",
            "-1",
        ): "argument --num_sentinels: -1 is too small; give a whole number of at least 0",
        (
            "learn",
            "--kind",
            "words",
            "--lower-case",
            "--size",
            "9",
            "--input",
            text,
            "--output",
            "v.json",
        ): "lower",
        (
            "learn",
            "--size",
            "90",
            "--min_count",
            "2",
            "--input",
            text,
            "--output",
            "v.model",
        ): "min_count is not for",
    }
    for arguments, message in mistakes.items():
        assert run(*arguments) == 2
        printed = capsys.readouterr().err
        assert message in printed
        assert "Traceback" not in printed


def test_the_plot_is_drawn_for_long_names_and_for_one_vocabulary(tmp_path):
    from t5x_like.reports.vocabulary_comparison import draw_comparison
    from t5x_like.text.vocabularies.compare import Measures

    measures = Measures(
        name=str(Path("/a/very/long/folder") / ("x" * 60)), kind="words", vocab_size=1_000_000, num_words=10,
        num_bytes=50, num_tokens=12, num_unknown=0,
    )  # fmt: skip
    assert draw_comparison([measures]).startswith(b"\x89PNG")
