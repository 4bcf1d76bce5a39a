"""Tasks of perplexity, evaluated as others are."""

import math
from pathlib import Path

import numpy as np
import pytest

from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import read_jsonl
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained


@pytest.fixture
def wikitext(tmp_path: Path) -> str:
    """Two articles, the second much longer than a window."""
    folder = tmp_path / "data" / "wikitext-2"
    folder.mkdir(parents=True)
    (folder / "wiki.valid.tokens").write_text(
        "\n = Mill = \n\n A mill burned . \n\n = Goat = \n\n" + " The goat ate . \n" * 20
    )
    return str(tmp_path / "data")


def run_of(checkpoint: str, data: str, output: Path, **settings) -> SuiteEvaluation:
    settings = {"tasks": ("wikitext2",), "batch_size": 8, "inputs_length": 32, "resamples": 20} | settings
    return SuiteEvaluation(checkpoint=checkpoint, data_dir=data, output_dir=str(output), **settings)


def test_texts_are_measured_by_a_decoder(gpt2: str, wikitext: str, tmp_path: Path) -> None:
    entry = evaluate_suite(run_of(gpt2, wikitext, tmp_path / "out"), shown=False)["tasks"]["wikitext2"]
    assert (entry["method"], entry["examples"]) == ("measure", 2)
    rows = list(read_jsonl(tmp_path / "out" / "wikitext2" / "predictions.jsonl"))
    nats, words = (sum(row[name] for row in rows) for name in ("nats", "words"))
    assert entry["scores"]["word_perplexity"] == pytest.approx(math.exp(nats / words))
    assert set(entry["intervals"]) == set(entry["scores"])
    model = from_pretrained(gpt2)
    ids = model.vocabulary.encode(rows[0]["text"])
    begin = [] if rows[0]["tokens"] == len(ids) - 1 else [model.vocabulary.special.eos]
    loss = float(model(input_ids=np.array([[*begin, *ids]]), labels=np.array([[*begin, *ids]])).loss)
    assert rows[0]["nats"] == pytest.approx(loss * rows[0]["tokens"], rel=1e-4)


def test_what_cant_be_measured_is_said(t5: str, gpt2: str, wikitext: str, data: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'wikitext2' measures texts, which needs a decoder"):
        evaluate_suite(run_of(t5, wikitext, tmp_path / "a"), shown=False)
    with pytest.raises(ValueError, match="leave method and num_shots out"):
        evaluate_suite(run_of(gpt2, wikitext, tmp_path / "b", method="generate"), shown=False)
    run = run_of(gpt2, data, tmp_path / "c", method="measure", tasks=("glue_cola_v002",))
    with pytest.raises(ValueError, match="has questions to be answered, not texts to measure"):
        evaluate_suite(run, shown=False)
