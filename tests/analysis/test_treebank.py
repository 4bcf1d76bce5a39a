"""CoNLL-U files, and distances, depths and spanning trees of sentences."""

import numpy as np
import pytest
import scipy.sparse.csgraph

from t5x_like.analysis.treebank import conllu_rows, shortest_tree, tree_depths, tree_distances, tree_edges

CONLLU = """# text = They vámonos home.
1\tThey\tthey\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
2\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
3\tnos\tnosotros\tPRON\t_\t_\t2\tobj\t_\t_
3.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

1\tYes\tyes\tINTJ\t_\t_\t0\troot\t_\t_
"""


def random_heads(generator, count):
    """Returns a tree whose words are in a random order."""
    order = generator.permutation(count)
    heads = [0] * count
    for place in range(1, count):
        heads[order[place]] = int(order[generator.integers(place)]) + 1
    return heads


def test_sentences_of_a_file_have_words_tags_and_heads(tmp_path):
    (tmp_path / "a.conllu").write_text(CONLLU, encoding="utf-8")
    first, second = conllu_rows(tmp_path / "a.conllu")
    assert first["words"] == ["They", "vamos", "nos", "."]
    assert first["heads"] == [2, 0, 2, 2]
    assert first["tags"] == ["PRON", "VERB", "PRON", "PUNCT"]
    assert second["text"] == "Yes"


@pytest.mark.parametrize(
    ("line", "message"),
    [("1\tYes\t0", r"line 1: 3 columns; CoNLL-U has 10"), ("1\tYes" + "\t_" * 8, r"line 1: the head is '_'")],
)
def test_lines_that_are_no_word_are_refused(tmp_path, line, message):
    (tmp_path / "a.conllu").write_text(line + "\n")
    with pytest.raises(ValueError, match=message):
        list(conllu_rows(tmp_path / "a.conllu"))


def test_distances_and_depths_are_the_shortest_paths():
    generator = np.random.default_rng(0)
    for count in (1, 2, 5, 12):
        heads = random_heads(generator, count)
        graph = np.zeros((count, count))
        for first, second in tree_edges(heads):
            graph[first, second] = 1
        expected = scipy.sparse.csgraph.shortest_path(graph, directed=False)
        np.testing.assert_array_equal(tree_distances(heads), expected)
        np.testing.assert_array_equal(tree_depths(heads), expected[heads.index(0)])


def test_the_spanning_tree_has_the_smallest_sum():
    generator = np.random.default_rng(1)
    for count in (2, 3, 9):
        distances = generator.random((count, count))
        distances += distances.T
        edges = shortest_tree(distances)
        expected = scipy.sparse.csgraph.minimum_spanning_tree(distances).tocoo()
        assert edges == {
            tuple(sorted(pair)) for pair in zip(expected.row.tolist(), expected.col.tolist(), strict=True)
        }


def test_the_spanning_tree_of_a_tree_is_the_tree():
    heads = random_heads(np.random.default_rng(2), 9)
    assert shortest_tree(tree_distances(heads)) == tree_edges(heads)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([0, 0], "2 words have the head 0; a tree has one root"),
        ([2, 1], "0 words have the head 0"),
        ([0, 5], "a head is 5, and there are 2 words"),
        ([0, 3, 2], "the heads of word 2 lead in a circle"),
    ],
)
def test_heads_that_are_no_tree_are_refused(heads, message):
    with pytest.raises(ValueError, match=message):
        tree_depths(heads)
