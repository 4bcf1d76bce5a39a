"""Pages that a fine-tuned encoder rates: in a build, in batches, and page by page."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import jax
import pytest

from t5x_like.cli.main import main
from t5x_like.corpora.building.tally import apply_rules
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import BatchRule, Dropped
from t5x_like.evaluation.encoder_quality import EncoderQuality
from t5x_like.io.files import read_json, read_jsonl, write_json, write_jsonl
from t5x_like.model import parameters
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from tests.corpora.building.tiny import MinChars, build, page, rows, write_files
from tests.integration.test_fine_tuning_heads import BERT, PIECES
from tests.references import FIXTURES

TEXTS = ["a b", "c d e", "f", "g h a b", "b b b", "h g f e d c b a", "a", "c c"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that predicts a number, one that predicts three classes, and a run of the first with a scale."""
    folder = tmp_path_factory.mktemp("raters")
    for name, num_labels in (("number", 1), ("classes", 3)):
        config = replace(BERT, task="sequence_classification", num_labels=num_labels)
        params = parameters.split(config.build(jax.random.key(3)))[1]
        # Larger weights than fresh ones, so that scores differ.
        write_hugging_face(config, jax.tree.map(lambda weight: 6 * weight, params), folder / name)
        (folder / name / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    assert main(["convert", "--from", str(folder / "number"), "--to", str(folder / "run")]) == 0
    (folder / "run/vocab.txt").write_bytes((folder / "number/vocab.txt").read_bytes())
    write_json(
        folder / "run/config.json",
        {"tasks.0.name": "rated", "tasks.0.head.mean": 2.0, "tasks.0.head.deviation": 10.0},
    )
    return folder


def rule(checkpoints: Path, name: str = "number", **fields) -> EncoderQuality:
    settings = {"threshold": 0.0, "batch_size": 8, "inputs_length": 8, **fields}
    return EncoderQuality(checkpoint=str(checkpoints / name), **settings)


def test_scores_are_those_of_predict(checkpoints, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [{"text": text} for text in TEXTS])
    flags = ["--input", str(tmp_path / "rows.jsonl"), "--output", str(tmp_path / "predicted.jsonl")]
    assert main(["predict", str(checkpoints / "number"), *flags, "--inputs_length", "8"]) == 0
    predicted = [float(row["prediction"]) for row in read_jsonl(tmp_path / "predicted.jsonl")]
    scores = rule(checkpoints).scores(TEXTS)
    assert scores == pytest.approx(predicted, abs=1e-4)
    assert len({*scores}) == len(TEXTS)


def test_a_run_predicts_in_the_scale_of_its_labels(checkpoints):
    plain, scaled = (rule(checkpoints, name).scores(TEXTS) for name in ("number", "run"))
    assert scaled == pytest.approx([2 + 10 * score for score in plain], abs=2e-3)


def test_a_class_may_be_the_score(checkpoints):
    labels = [f"LABEL_{index}" for index in range(3)]
    shares = [rule(checkpoints, "classes", label=label, threshold=0.5).scores(TEXTS) for label in labels]
    assert [sum(each) for each in zip(*shares, strict=True)] == pytest.approx([1] * len(TEXTS), abs=1e-3)


def test_a_build_keeps_the_pages_from_the_threshold_on_for_any_number_of_tasks(checkpoints, tmp_path):
    scores = rule(checkpoints).scores(TEXTS)
    threshold = sorted(scores)[len(scores) // 2]
    rating = rule(checkpoints, threshold=threshold)
    pages = [page(f"http://example.org/{index}", text) for index, text in enumerate(TEXTS)]
    expected = {text for text, score in zip(TEXTS, scores, strict=True) if score >= threshold}
    made = []
    for name, files in (("one", [pages]), ("several", [pages[:3], pages[3:]])):
        build(
            write_files(tmp_path / f"in_{name}", files),
            tmp_path / name,
            MinChars(chars=1),
            rating,
            num_shards=2,
        )
        made.append(sorted(row["text"] for row in rows(tmp_path / name)))
        steps = read_json(tmp_path / name / "manifest.json")["steps"]
        assert steps[-1]["dropped"] == {"filtered:low_quality": len(TEXTS) - len(expected)}
    assert made == [sorted(expected)] * 2


def test_the_model_sees_only_pages_that_earlier_rules_keep(checkpoints):
    rules = [(0, MinChars(chars=3)), (1, rule(checkpoints, threshold=-100))]
    outcomes = apply_rules(rules, [Page("", text) for text in TEXTS])
    for text, outcome in zip(TEXTS, outcomes, strict=True):
        assert outcome.dropped == ((0, "filtered:short") if len(text) < 3 else None)
        scored = [name for step, name, _ in outcome.seen if step == 1]
        assert len(scored) == (len(text) >= 3)


def test_a_page_alone_has_the_score_that_it_has_in_a_batch(checkpoints):
    rating = rule(checkpoints)
    assert isinstance(rating, BatchRule)
    together = rating.scores(TEXTS)
    for text, score in zip(TEXTS, together, strict=True):
        assert rating.scores([text]) == pytest.approx([score], abs=2e-4)
        result = rating.apply(Page("", text), Counter())
        assert isinstance(result, Dropped) == (score < 0)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("classes", {}, r"label is None, and .*classes' predicts classes: name one of 'LABEL_0'"),
        (
            "number",
            {"label": "good", "threshold": 0.5},
            r"label is 'good', and .*number' predicts no classes",
        ),
        (
            "classes",
            {"label": "good", "threshold": 0.5},
            r"label is 'good'; the classes are 'LABEL_0', 'LABEL_1'",
        ),
    ],
)
def test_heads_that_do_not_fit_are_refused(checkpoints, name, fields, message):
    with pytest.raises(ValueError, match=message):
        rule(checkpoints, name, **fields).scores(TEXTS)


def test_a_model_that_writes_is_refused():
    writer = EncoderQuality(checkpoint=str(FIXTURES / "releases/1.0.0/export"), threshold=1)
    with pytest.raises(ValueError, match=r"export' writes texts; give an encoder"):
        writer.scores(["one"])


def test_pages_without_words_and_half_surrogates_are_rated(checkpoints):
    empty, blank, surrogate = rule(checkpoints).scores(["", " \n", "\ud800"])
    assert empty == pytest.approx(blank, abs=2e-4)
    assert surrogate == surrogate


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch_size": 0}, r"batch_size is 0; give 1 or more"),
        ({"label": "good", "threshold": 3}, r"threshold is 3; the score is the probability of 'good'"),
    ],
)
def test_fields_out_of_range_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        EncoderQuality(**{"checkpoint": "x", "threshold": 1, **fields})


def test_other_weights_are_another_corpus(checkpoints):
    assert rule(checkpoints).fingerprint() != rule(checkpoints, "classes").fingerprint()
    assert json.dumps(rule(checkpoints).fingerprint()).startswith('"weights ')
