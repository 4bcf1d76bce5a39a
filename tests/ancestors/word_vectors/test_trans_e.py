import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.word_vectors.link_prediction import (
    KnowledgeGraph,
    graph_of,
    numbers_of,
    read_triples,
    score_links,
)
from t5x_like.ancestors.word_vectors.trans_e import TransE, corrupt, margin_losses
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.cli.main import main
from t5x_like.io.files import read_json

# Places of a grid; two steps in a row lead to the same place in either order.
GRID = [
    (f"p{row}_{column}", name, f"p{row + down}_{column + right}")
    for row in range(6)
    for column in range(6)
    for name, down, right in (("down", 1, 0), ("right", 0, 1), ("both", 1, 1))
    if row + down < 6 and column + right < 6
]
HELD_OUT = GRID[10::9]
KNOWN = [triple for triple in GRID if triple not in HELD_OUT]


def written(file, triples):
    file.write_text("".join("\t".join(triple) + "\n" for triple in triples))
    return str(file)


@pytest.mark.parametrize("distance", ["l1", "l2"])
def test_the_loss_is_that_of_the_margin(distance):
    rng = np.random.default_rng(0)
    right, wrong = ([rng.normal(size=(6, 4)) for _ in range(3)] for _ in range(2))
    order = 1 if distance == "l1" else 2
    far, near = (np.linalg.norm(h + r - t, ord=order, axis=-1) for h, r, t in (right, wrong))
    expected = np.maximum(0, 0.5 + far - near)
    assert 0 < (expected > 0).sum() < 6
    vectors = (tuple(map(jnp.asarray, each)) for each in (right, wrong))
    np.testing.assert_allclose(margin_losses(*vectors, 0.5, distance), expected, rtol=1e-5, atol=1e-5)


def test_a_wrong_triple_has_another_head_or_another_tail():
    heads, tails = jnp.arange(1000) % 7, jnp.arange(1000) % 5
    new_heads, new_tails = corrupt(heads, tails, 7, jax.random.key(0))
    is_head, is_tail = np.asarray(new_heads != heads), np.asarray(new_tails != tails)
    np.testing.assert_array_equal(is_head ^ is_tail, True)
    assert 420 < is_head.sum() < 580
    assert set(np.asarray(new_heads).tolist()) == set(range(7))


def test_entities_have_length_1_and_held_out_links_are_found(tmp_path):
    graph = graph_of(read_triples([written(tmp_path / "known.tsv", KNOWN)]))
    vectors, losses = TransE(
        dim=16, epochs=150, batch_size=8, margin=0.5, learning_rate=0.03, distance="l2"
    ).train(graph)
    np.testing.assert_allclose(np.linalg.norm(vectors.entities.table, axis=1), 1, rtol=1e-5, atol=1e-5)
    assert losses[-1] < losses[0] / 4
    held_out = read_triples([written(tmp_path / "held_out.tsv", HELD_OUT)])
    numbers = numbers_of(held_out, graph.entities, graph.relations)
    scores = score_links(*vectors, numbers, graph.triples, distance="l2")
    assert scores.filtered_mean_rank < 9  # 18 by chance
    assert scores.filtered_mean_rank <= scores.mean_rank


def test_ranks_leave_out_other_right_entities_and_share_ties():
    entities = WordVectors(tuple("abcd"), np.array([[0.0], [1.0], [1.2], [3.0]]))
    relations = WordVectors(("next",), np.array([[1.0]]))
    # Tails of a: b, c, d by distance. Heads of c: a, b (both at 0.2 and 0.8), c, d.
    triples, known = np.array([[0, 0, 2]]), np.array([[0, 0, 1]])
    scores = score_links(entities, relations, triples, known, distance="l1")
    assert scores.mean_rank == (2 + 1) / 2
    assert scores.filtered_mean_rank == 1
    same = WordVectors(tuple("abcd"), np.zeros((4, 1)))
    assert score_links(same, relations, triples, triples, distance="l2").filtered_mean_rank == 2.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tlikes\n", "graph.tsv:1: 'a.tlikes' is no triple"),
        ("a\tb\tc\nnew york\tin\tusa\n", "graph.tsv:2: the name 'new york' has a space"),
        ("", "no triple; a graph needs at least one"),
    ],
)
def test_files_that_hold_no_triples_are_refused(tmp_path, text, message):
    file = tmp_path / "graph.tsv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_triples([str(file)])


def test_triples_of_unknown_names_are_refused_with_their_line(tmp_path):
    triples = read_triples([written(tmp_path / "other.tsv", [("a", "in", "b"), ("a", "in", "z")])])
    with pytest.raises(ValueError, match=r"other.tsv:2: there is no vector of the entity 'z' among 2"):
        numbers_of(triples, ("a", "b"), ("in",))


@pytest.mark.parametrize(
    ("settings", "message"), [({"margin": 0}, "margin is 0"), ({"distance": "cosine"}, "choose l1 or l2")]
)
def test_settings_that_cant_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TransE(**settings)


def test_a_seed_repeats_the_vectors():
    graph = KnowledgeGraph(tuple("abc"), ("in",), np.array([[0, 0, 1], [1, 0, 2]]))
    first, again = (TransE(dim=4, epochs=2).train(graph)[0].entities.table for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_the_command_trains_and_scores_a_graph(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "known.tsv", KNOWN)
    written(tmp_path / "held_out.tsv", HELD_OUT)
    train = "vectors train --method transe --input known.tsv --output e.vec --dim 8 --epochs 3 --distance l2"
    assert main(train.split()) == 2
    assert "also needs --relations" in capsys.readouterr().err
    assert main(f"{train} --relations r.vec --window 3".split()) == 2
    assert "--window is not for --method transe" in capsys.readouterr().err
    assert main(f"{train} --relations r.vec".split()) == 0
    score = "vectors evaluate e.vec --links held_out.tsv --known known.tsv --distance l2 --output scores.json"
    assert main(score.split()) == 2
    assert "--links needs --relations" in capsys.readouterr().err
    assert main(f"{score} --relations r.vec".split()) == 0
    scores = read_json(tmp_path / "scores.json", dict)["links"]["held_out.tsv"]
    assert 1 <= scores["filtered_mean_rank"] <= scores["mean_rank"] <= 36


def test_words_still_need_a_vocabulary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("a b\n")
    assert main(["vectors", "train", "--input", "text.txt", "--output", "v.txt"]) == 2
    assert "vectors of words need --vocabulary" in capsys.readouterr().err
