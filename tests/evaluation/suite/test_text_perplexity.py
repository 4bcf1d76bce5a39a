import functools
import math

import numpy as np
import pytest

from t5x_like.evaluation import perplexity
from t5x_like.evaluation.perplexity import PerplexityEvaluator, measure_texts
from t5x_like.evaluation.questions import Question, Questions
from t5x_like.io.progress import Progress
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained
from t5x_like.text.metrics.perplexity import perplexities

TEXT = "The quick brown fox jumps over the lazy dog, and then it sleeps for an hour. " * 6


@pytest.fixture(scope="module")
def model(gpt2):
    return open_checkpoint(gpt2, mesh=MeshConfig().build())


def by_hand(gpt2, model, ids, start, scored_from):
    """Nats of ``ids[scored_from:]`` where the model sees no more than from ``start`` on."""
    logits = np.asarray(from_pretrained(gpt2)(input_ids=[ids[start:-1]]).logits[0], np.float64)
    costs = np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(logits)), ids[start + 1 :]]
    return costs[scored_from - start - 1 :].sum()


def test_a_short_text_costs_what_the_model_says(gpt2, model):
    ids = [*model.end_ids, *model.tokenizer.encode("The quick brown fox.")]
    (cost,) = measure_texts(model, ["The quick brown fox."])
    assert cost.nats == pytest.approx(by_hand(gpt2, model, ids, 0, 1), rel=1e-5)
    assert (cost.tokens, cost.words, cost.bytes) == (len(ids) - 1, 4, 20)


def test_a_long_text_is_scored_once_with_any_stride(gpt2, model):
    number = len(model.tokenizer.encode(TEXT))
    assert number > 64
    costs = {stride: measure_texts(model, [TEXT], length=32, stride=stride)[0] for stride in (8, 32)}
    assert {cost.tokens for cost in costs.values()} == {number}
    ids = [*model.end_ids, *model.tokenizer.encode(TEXT)][:41]
    first = by_hand(gpt2, model, ids[:33], 0, 1)
    cut = model.tokenizer.decode(ids[1:])
    assert model.tokenizer.encode(cut) == ids[1:]
    assert len(ids) == 41
    (cost,) = measure_texts(model, [cut], length=32, stride=8)
    assert cost.nats == pytest.approx(first + by_hand(gpt2, model, ids, 8, 33), rel=1e-5)


def test_texts_are_measured_apart_and_add_up(model):
    apart = [measure_texts(model, [text])[0] for text in ("One text.", TEXT)]
    together = measure_texts(model, ["One text.", TEXT])
    assert [cost.nats for cost in together] == pytest.approx([cost.nats for cost in apart])
    result = perplexities(together[0] + together[1])
    assert result["token_perplexity"] == pytest.approx(
        math.exp(sum(cost.nats for cost in apart) / sum(cost.tokens for cost in apart))
    )


def test_what_cannot_be_measured_is_reported(t5, model):
    with pytest.raises(ValueError, match="windows of 500 tokens are longer than the 128 positions"):
        measure_texts(model, [TEXT], length=500)
    with pytest.raises(ValueError, match="perplexity is a decoder's: this is an encoder-decoder"):
        measure_texts(open_checkpoint(t5, mesh=MeshConfig().build()), [TEXT])


def test_rows_are_given_as_soon_as_their_texts_are_measured(model, monkeypatch, capsys):
    texts = ["One text.", "Another.", TEXT, TEXT + "The end.", "A last one."]
    rows = tuple(Question(index, "", text, {}) for index, text in enumerate(texts))
    plan = PerplexityEvaluator(
        model=model, questions=Questions(task="texts", split="test", rows=rows), length=32, batch_size=8
    )
    parts = [part for part in plan.answer(model.params) if part]
    assert len(parts) > 1
    results = [row for part in parts for row in part]
    assert [row["text"] for row in results] == texts
    monkeypatch.setattr(perplexity, "Progress", functools.partial(Progress, seconds_between_lines=0.0))
    expected = measure_texts(model, texts, length=32, shown=True)
    assert "measuring: 0.0 MB of 0.0 MB (100%)" in capsys.readouterr().err.splitlines()[-1]
    assert [(row["nats"], row["tokens"]) for row in results] == [
        (cost.nats, cost.tokens) for cost in expected
    ]
    assert not list(plan.answer(model.params, range(len(texts))))
