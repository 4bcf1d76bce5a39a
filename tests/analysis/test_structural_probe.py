"""Structural probes find trees that states encode linearly, and none in random states."""

import json

import numpy as np
import pytest

import t5x_like
from t5x_like.analysis.structural_probe import StructuralProbe, Tree
from t5x_like.analysis.treebank import tree_depths, tree_distances
from t5x_like.cli.main import main
from tests.analysis.test_treebank import CONLLU, random_heads
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import WORDS, write

WIDTH = 12
PROBE = StructuralProbe(rank=8, steps=400, learning_rate=0.02, sentences_per_step=10)


def trees(count):
    generator = np.random.default_rng(0)
    for _ in range(count):
        heads = tuple(random_heads(generator, int(generator.integers(5, 9))))
        yield Tree(("word",) * len(heads), heads, tree_distances(heads), tree_depths(heads))


def encoded(tree, rotation):
    """Returns states whose first 8 dimensions, before a rotation, are the words on the path to the root."""
    states = np.zeros((len(tree.heads), WIDTH))
    for word in range(len(tree.heads)):
        each = word
        while tree.heads[each]:
            states[word, each] = 1
            each = tree.heads[each] - 1
    states[:, 8:] = np.random.default_rng(len(tree.heads)).normal(size=(len(states), WIDTH - 8))
    return (states @ rotation).astype(np.float32)


@pytest.fixture(scope="module")
def sides():
    drawn = list(trees(80))
    return drawn[:60], drawn[60:]


def test_trees_that_states_encode_are_read_from_them(sides):
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(WIDTH, WIDTH)))[0]
    states = [[encoded(tree, rotation) for tree in side] for side in sides]
    measures = PROBE.measure(states[0], states[1], *sides)
    assert measures["uuas"] > 95
    assert measures["root_accuracy"] > 95
    assert measures["distance_spearman"] > 95
    assert measures["depth_spearman"] > 90


def test_no_tree_is_read_from_random_states(sides):
    generator = np.random.default_rng(2)
    states = [
        [generator.normal(size=(len(tree.heads), WIDTH)).astype(np.float32) for tree in side]
        for side in sides
    ]
    measures = PROBE.measure(states[0], states[1], *sides)
    assert measures["uuas"] < 50  # a random spanning tree has 2 / W of the edges
    assert measures["root_accuracy"] < 60
    assert measures["distance_spearman"] < 60  # each word is the nearest to itself


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = write(TINY["bert"], tmp_path_factory.mktemp("bert"))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def test_the_verb_reads_a_treebank(bert, tmp_path, capsys):
    treebank = tmp_path / "bank.conllu"
    treebank.write_text(CONLLU.replace("They", "the") + "\n" + CONLLU.replace("They", "in"), encoding="utf-8")
    arguments = ["--what", "structural_probe", "--option", "steps=2", "--option", "layers=(1,)"]
    assert main(["analyze", str(bert), str(treebank), *arguments, "--output_dir", str(tmp_path / "out")]) == 0
    written = json.loads((tmp_path / "out/analysis.json").read_text())
    assert written["sentences"] == {"train": 1, "test": 1, "left_out": 2}  # "Yes" alone has no edges
    assert written["uuas_of_words_in_a_row"] == 100  # the, vamos, nos; the full stop is not counted
    assert written["layers"][0]["depth_spearman"] is None  # no sentence has 5 words
    assert set(written["layers"][0]["random_model"]) == {
        "uuas",
        "distance_spearman",
        "root_accuracy",
        "depth_spearman",
    }
    assert "UUAS of words in a row: 100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"words": "in the", "heads": "2"}, "row 1 has 2 words and 1 values in the column 'heads'"),
        ({"words": "in the", "heads": "2 x"}, "row 1 has the heads .*; give whole numbers"),
        ({"words": "in the", "heads": "2 1"}, "row 1: 0 words have the head 0"),
        ({"words": "in the"}, "row 1: no column 'heads'"),
    ],
)
def test_rows_without_a_tree_are_refused(bert, row, message):
    with pytest.raises(ValueError, match=message):
        StructuralProbe().run(t5x_like.from_pretrained(bert), [row])


def test_a_rank_of_nothing_is_refused():
    with pytest.raises(ValueError, match="rank is 0; give at least 1"):
        StructuralProbe(rank=0)
