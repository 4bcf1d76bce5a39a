"""fastText models of one's own: a classifier of pages and sentences, and another identifier of languages."""

import json
import re
from collections import Counter

import pytest

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.fasttext_classifier import FastTextClassifier
from t5x_like.corpora.rules.language_fasttext import FastText
from t5x_like.corpora.rules.languages import Languages
from t5x_like.corpora.rules.rule import Dropped
from tests.references import FIXTURES

MODEL = str(FIXTURES / "fasttext/toy.bin")
BOATS, BREAD = "The crew set sail near the harbour.", "Knead the dough with salt and yeast."


def rule(**fields) -> FastTextClassifier:
    return FastTextClassifier(**{"model": MODEL, "label": "boats", "threshold": 0.5, **fields})


def test_probabilities_are_those_of_fasttext():
    for text, probability in json.loads((FIXTURES / "fasttext/probabilities.json").read_text()).items():
        assert rule().probability(text) == pytest.approx(probability, abs=1e-5)
        assert rule(label="__label__boats").probability(text.replace(" ", "\n")) == rule().probability(text)


@pytest.mark.parametrize(
    ("action", "boats", "bread"),
    [("keep", "passed", "filtered:low_quality"), ("drop", "filtered:unwanted", "passed")],
)
def test_pages_with_the_label_are_kept_or_dropped(action, boats, bread):
    for text, expected in ((BOATS, boats), (BREAD, bread)):
        counts: Counter[str] = Counter()
        result = rule(action=action).apply(Page("", text.lower()), counts)
        assert (result.reason if isinstance(result, Dropped) else "passed") == expected
        assert [name.partition(":")[0] for name in counts] == ["score"]


def test_sentences_with_the_label_are_cut():
    cutting = rule(action="cut", label="bread")
    page, counts = Page("", f"{BOATS} {BREAD}\n{BOATS}".lower().replace(". k", ". K")), Counter()
    result = cutting.apply(page, counts)
    assert isinstance(result, Page)
    assert re.sub(r"\s+", " ", result.text) == f"{BOATS} {BOATS}".lower()
    assert counts == {"sentence-filtered:labeled": 1}
    assert cutting.apply(Page("", BREAD.lower()), counts) == Dropped("filtered:empty")


def test_unusable_models_and_settings_are_refused(tmp_path):
    (tmp_path / "no.bin").write_text("no model")
    for fields, message in (
        ({"threshold": 0}, r"threshold is 0; give more than 0"),
        ({"action": "mask"}, r"action is 'mask'; choose from keep, drop, cut"),
    ):
        with pytest.raises(ValueError, match=message):
            rule(**fields)
    with pytest.raises(ValueError, match=r"has no label 'ships'; it has boats, bread"):
        rule(label="ships").probability("sail")
    with pytest.raises(ValueError, match=r"no.bin' can't be read as a fastText model"):
        rule(model=str(tmp_path / "no.bin")).probability("sail")
    with pytest.raises(ValueError, match=r"nothing.bin' does not exist"):
        rule(model="nothing.bin").probability("sail")


def test_the_models_content_is_part_of_the_corpus_but_not_its_path(tmp_path):
    copy = tmp_path / "copy.bin"
    copy.write_bytes((FIXTURES / "fasttext/toy.bin").read_bytes())
    assert rule(model=str(copy)).fingerprint() == rule().fingerprint()


def test_languages_may_be_the_labels_of_another_model():
    languages = Languages(keep=("boats",), min_probability=0.5, identifier=FastText(model=MODEL))
    kept = languages.apply(Page("", BOATS.lower()), Counter())
    assert isinstance(kept, Page)
    assert kept.language == "boats"
    assert languages.apply(Page("", BREAD.lower()), Counter()) == Dropped("filtered:ignored_language")
    assert languages.fingerprint() == rule().fingerprint()
    assert Languages(identifier=FastText()).fingerprint() == ""
