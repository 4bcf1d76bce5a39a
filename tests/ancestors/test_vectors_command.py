"""``t5x-like vectors``: trained, scored, converted and searched as a user would, and mistakes."""

import pytest

from t5x_like.ancestors.word_vectors.vector_files import read_vectors
from t5x_like.cli.main import main
from t5x_like.io.files import read_json

LINES = (
    "the king spoke to his people\n" * 30,
    "the queen spoke to her people\n" * 30,
    "a cat ran home .\n" * 30,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    (folder / "text.txt").write_text("".join(LINES))
    (folder / "questions.txt").write_text(": royal\nKing Queen his her\nking queen his him\n")
    (folder / "pairs.tsv").write_text(
        "Word 1\tWord 2\tHuman (mean)\nking\tqueen\t9\nking\tcat\t1\nher\tcat\t2\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        learn = "vocabulary learn --kind words --size 40 --input text.txt --output words.json"
        assert main(learn.split()) == 0
        train = "vectors train --vocabulary words.json --input text.txt --output v.txt --dim 8"
        assert main(train.split()) == 0
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def run(command: str) -> int:
    return main(["vectors", *command.split()])


def test_vectors_are_trained_scored_converted_and_searched(capsys):
    assert read_vectors("v.txt").table.shape == (13, 8)
    assert run("convert v.txt v.bin") == 0
    assert run("convert v.bin g.txt --format glove") == 0
    assert capsys.readouterr().out == "v.bin: 13 words of 8 dimensions\ng.txt: 13 words of 8 dimensions\n"
    assert (read_vectors("g.txt").table == read_vectors("v.txt").table).all()

    assert run("nearest g.txt king --minus cat --number 2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert float(lines[0].split()[0]) >= float(lines[1].split()[0])

    score = (
        "evaluate v.bin --analogies questions.txt --similarity pairs.tsv --lower_case --output scores.json"
    )
    assert run(score) == 0
    out = capsys.readouterr().out
    assert "of 1 questions whose words have vectors, of 2" in out
    assert "over 3 pairs whose words have vectors, of 3" in out
    scores = read_json("scores.json")
    assert scores["words"] == 13
    assert scores["analogies"]["questions.txt"]["sections"].keys() == {"royal"}
    assert -100 <= scores["similarity"]["pairs.tsv"]["spearman_corrcoef"] <= 100


def test_glove_is_trained_with_its_own_settings(capsys):
    command = (
        "train --method glove --vocabulary words.json --input text.txt --output glove.txt --dim 4 --epochs 2"
    )
    assert run(f"{command} --count_limit 10 --seed 3 --format glove") == 0
    assert (
        "glove.txt: 13 words of 4 dimensions, trained on 510 words of text; loss" in capsys.readouterr().out
    )
    assert read_vectors("glove.txt", "glove").dim == 4


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate v.txt", "say what to score the vectors on: --analogies FILE"),
        (
            "evaluate v.txt --analogies questions.txt --most_frequent 0",
            "argument --most_frequent: 0 is too small",
        ),
        ("evaluate v.txt --analogies text.txt", "text.txt:1: 'the king spoke to his people' has 6 words"),
        ("evaluate v.txt --similarity text.txt", "text.txt:2: 'the king spoke to his people' is no pair"),
        (
            "evaluate v.txt --analogies questions.txt --most_frequent 1",
            "none of 2 questions, such as 'King Queen his",
        ),
        ("nearest v.txt kin", "there is no vector of 'kin' among 13 words; did you mean 'king'?"),
        ("nearest v.txt king --number 0", "argument --number: 0 is too small"),
        ("nearest text.txt king", "text.txt:1: 'king' in the vector of 'the' is no number"),
        ("convert nowhere.txt v.bin", "'nowhere.txt' does not exist"),
        ("convert v.txt w.bin --input_format word2vec_binary", "v.txt: no word begins at byte"),
        (
            "train --vocabulary words.json --input text.txt --output .",
            "--output . is a directory\n  give a file in it",
        ),
        ("train --vocabulary bytes --input text.txt --output w.txt", "'bytes' is of the kind bytes"),
        (
            "train --vocabulary words.json --input text.txt --output w.txt --dim 0",
            "argument --dim: 0 is too small",
        ),
        (
            "train --method glove --vocabulary words.json --input text.txt --output w.txt --num_negatives 3",
            "--num_negatives is not for --method glove",
        ),
        (
            "train --vocabulary words.json --input text.txt --output w.txt --min_count 99",
            "has 0 words of the vocab",
        ),
    ],
)
def test_mistakes_end_with_2(folder, command, message, capsys):
    assert run(command) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
    assert not (folder / "w.txt").exists()
