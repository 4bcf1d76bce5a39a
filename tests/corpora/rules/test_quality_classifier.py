"""GPT-3's classifier of quality rates held-out text above noise, and the draw keeps the share that it should."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.pages.page_reader import PageReaderConfig
from t5x_like.corpora.rules.quality_classifier import QualityClassifier
from t5x_like.corpora.rules.rule import Dropped
from tests.corpora.building import tiny
from tests.references import ROOT

LINES = PageReaderConfig(kind="lines")
KING_JAMES = ROOT / "data" / "king_james"


def noise(seed: int, num_pages: int) -> list[str]:
    """Pages of rows of the pronouncing dictionary, such as a crawl has many of."""
    rows = (ROOT / "data/cmudict/train.tsv").read_text().replace("\t", " ").splitlines()[1:]
    chosen = random.Random(seed)
    return [" ".join(chosen.sample(rows, 30)) for _ in range(num_pages)]


MIXED = f"{noise(2, 1)[0][:60]} and the and the"


@pytest.fixture(scope="module")
def rule(tmp_path_factory: pytest.TempPathFactory) -> QualityClassifier:
    raw = tmp_path_factory.mktemp("crawl") / "raw.txt"
    raw.write_text("\n".join(noise(0, 200)))
    return QualityClassifier(
        curated=str(KING_JAMES / "train.txt"), raw=str(raw), reading=LINES, max_documents=200
    )


def kept(rule: QualityClassifier, text: str, num_pages: int = 2000) -> list[bool]:
    """Return which of pages at different addresses stay."""
    pages = [Page(f"example.org/{index}", text) for index in range(num_pages)]
    return [not isinstance(rule.apply(page, Counter()), Dropped) for page in pages]


def test_text_that_was_held_out_scores_above_noise(rule):
    curated = (KING_JAMES / "validation.txt").read_text().splitlines()[:40]
    scores = [rule.score(text) for text in curated]
    assert min(scores) > max(map(rule.score, noise(1, 40)))
    assert all(0 <= score <= 1 for score in scores)
    assert kept(rule, curated[0], 200).count(True) > 190


def test_the_share_that_stays_is_that_of_the_pareto_distribution(rule):
    """np.random.pareto(9) > 1 - score has the probability (2 - score)^-9."""
    score = rule.score(MIXED)
    assert 0.1 < score < 0.9
    probability = rule.keep_probability(score)
    assert probability == pytest.approx((2 - score) ** -9)
    share = sum(kept(rule, MIXED)) / 2000
    assert share == pytest.approx(probability, abs=4 * (probability * (1 - probability) / 2000) ** 0.5)
    assert sum(kept(replace(rule, alpha=1.0), MIXED)) > sum(kept(rule, MIXED)), "a heavier tail keeps more"


def test_draws_repeat_with_the_seed_and_differ_with_another(rule):
    assert kept(rule, MIXED) == kept(rule, MIXED)
    assert kept(rule, MIXED) != kept(replace(rule, seed=1), MIXED)


def test_pages_are_counted_by_tenths_of_the_score(rule):
    counts: Counter[str] = Counter()
    rule.apply(Page("a", (KING_JAMES / "validation.txt").read_text()), counts)
    assert counts == {"score:0.9": 1}


@pytest.mark.slow
def test_the_fingerprint_is_that_of_the_documents(rule, tmp_path):
    copy = tmp_path / "copy.txt"
    copy.write_bytes(Path(rule.raw[0]).read_bytes())
    assert replace(rule, raw=str(copy)).fingerprint() == rule.fingerprint()
    copy.write_text("\n".join(noise(5, 200)))
    assert replace(rule, raw=(str(copy),)).fingerprint() == replace(rule, raw=[str(copy)]).fingerprint()
    other = tmp_path / "other.txt"
    other.write_text("\n".join(noise(6, 200)))
    assert replace(rule, raw=str(other)).fingerprint() != rule.fingerprint()


def test_documents_come_in_equal_shares_from_the_files(rule, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("\n".join(f"{name} {index}" for index in range(50)))
    of_both = replace(rule, raw=str(tmp_path / "*.txt"), max_documents=20)
    first_tens = tmp_path / "tens"
    first_tens.write_text("\n".join(f"{name} {index}" for name in "ab" for index in range(10)))
    assert of_both.fingerprint() == replace(of_both, raw=str(first_tens)).fingerprint()


def test_wrong_settings_and_empty_files_are_refused(rule, tmp_path):
    with pytest.raises(ValueError, match=r"QualityClassifier.alpha is 0; it must be positive"):
        replace(rule, alpha=0)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"empty.txt: no documents in there"):
        replace(rule, raw=str(tmp_path / "empty.txt")).score("text")


def mixed_pages(folder: Path) -> tuple[str, set[str]]:
    """Write pages of noise and of the Bible; return their files and the good texts."""
    texts = [*noise(4, 30), *(KING_JAMES / "validation.txt").read_text().splitlines()[:30]]
    pages = [tiny.page(f"example.org/{index}", text) for index, text in enumerate(texts)]
    return tiny.write_files(folder, [pages[0::2], pages[1::2]]), set(texts[30:])


@pytest.mark.slow
def test_two_workers_draw_alike(rule, tmp_path):
    inputs, _ = mixed_pages(tmp_path / "in")
    for workers in (1, 2):
        tiny.build(inputs, tmp_path / f"{workers}", rule, workers=workers)
    assert tiny.contents(tmp_path / "1") == tiny.contents(tmp_path / "2")


def test_a_build_drops_noise(rule, tmp_path):
    inputs, good = mixed_pages(tmp_path / "in")
    manifest = tiny.build(inputs, tmp_path / "out", rule)
    assert {row["text"] for row in tiny.rows(tmp_path / "out")} >= good
    assert tiny.step(manifest, "quality-classifier")["dropped"]["filtered:low_quality"] >= 25
