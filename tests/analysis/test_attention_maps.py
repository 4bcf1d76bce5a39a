"""Measures of attention heads against loops, and pictures that any token can be drawn in."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import t5x_like
from t5x_like.analysis.analysis import rows_of
from t5x_like.analysis.attention_maps import AttentionMaps, head_sums, notable_heads, token_label
from t5x_like.analysis.text_activations import map_texts
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import WORDS, write

TEXTS = ["in the beginning", "the beginning in the beginning"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write(TINY["bert"], tmp_path_factory.mktemp("bert"))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return t5x_like.from_pretrained(folder)


def test_sums_are_those_of_loops_over_tokens():
    weights = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 3, 5))
    is_separator = np.array([False, False, True, False, True])
    sums, counts = head_sums(weights, is_separator)
    row = weights[1, 2]
    loops = {
        "entropy": sum(-row[i, j] * np.log(row[i, j]) for i in range(5) for j in range(5)),
        "previous": 100 * sum(row[i, i - 1] for i in range(1, 5)),
        "next": 100 * sum(row[i, i + 1] for i in range(4)),
        "same": 100 * sum(row[i, i] for i in range(5)),
        "first": 100 * sum(row[i, 0] for i in range(5)),
        "separator": 100 * sum(row[i, 2] + row[i, 4] for i in range(5)),
        "distance": sum(row[i, j] * abs(i - j) for i in range(5) for j in range(5)),
    }
    assert {name: values[1, 2] for name, values in sums.items()} == pytest.approx(loops)
    assert counts == {**dict.fromkeys(loops, 5), "previous": 4, "next": 4}


def test_a_head_that_looks_back_by_one_has_no_entropy():
    back = np.eye(6, k=-1)
    back[0, 0] = 1
    sums, counts = head_sums(back[None, None], np.zeros(6, bool))
    assert sums["entropy"] == pytest.approx(0)
    assert sums["previous"] / counts["previous"] == pytest.approx(100)
    assert sums["distance"] / counts["distance"] == pytest.approx(5 / 6)


def test_measures_are_averaged_over_the_tokens_of_all_texts(model):
    name = "encoder/self_attention/probabilities"
    weights = map_texts(model, TEXTS, name, lambda text: text.activations[name])
    values = AttentionMaps(pictures=0).run(model, rows_of(TEXTS)).values
    ends = sum(each[..., -1].sum(-1) for each in weights)  # [SEP]
    np.testing.assert_allclose(values["heads"]["separator"], 100 * ends / values["tokens"], rtol=1e-5)
    assert values["separators"] == ["[SEP]"]
    assert values["tokens"] == sum(each.shape[-1] for each in weights)


def test_each_drawn_head_is_the_most_extreme_by_a_measure():
    generator = np.random.default_rng(0)
    names = ("entropy", "previous", "next", "same", "first", "separator")
    heads = {name: generator.random((2, 4)) for name in names}
    heads["previous"][1, 3] = 99
    chosen = notable_heads(heads, 6)
    assert chosen[0] == (1, 3, "on the previous token: 99 %")
    assert len({(layer, head) for layer, head, _ in chosen}) == 6
    assert len(notable_heads(heads, 100)) == 8


def test_a_token_of_any_characters_can_be_drawn(model, monkeypatch):
    piece = "\x07$<&\n\u202e中 a_very_long_piece"
    assert token_label(piece) == "\ufffd$<&␣\ufffd中␣a_ver…"
    monkeypatch.setattr(type(model.checkpoint.tokenizer), "piece", lambda *_: piece)
    result = AttentionMaps(pictures=1, picture_length=3, drawn_heads=2).run(model, rows_of(TEXTS))
    assert [figure.title for figure in result.figures] == [
        "Heads",
        "Text 1: all heads",
        "Text 1: heads with tokens",
    ]
    for figure in result.figures:
        ElementTree.fromstring(figure.svg)
        assert not {"\x07", "\u202e"} & set(figure.svg + figure.caption)
    texts = [
        each.text
        for each in ElementTree.fromstring(result.figures[-1].svg).iter()
        if each.tag.endswith("text")
    ]
    assert texts.count(token_label(piece)) == 2 * 2 * 3  # rows and columns of two heads


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pictures": -1}, "pictures is -1"),
        ({"picture_length": 500}, "picture_length is 500; give 2 to 40"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AttentionMaps(**options)


def test_attention_needs_texts(model):
    with pytest.raises(ValueError, match="no texts"):
        AttentionMaps().run(model, [])
