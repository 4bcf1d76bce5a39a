"""Rules of RefinedWeb, Dolma and FineWeb2: URLs, lines of menus, masks, and stop words of other languages."""

from collections import Counter

import pytest

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.blocked_urls import BlockedUrls
from t5x_like.corpora.rules.personal_data import MaskPersonalData
from t5x_like.corpora.rules.quality import FineWebQuality, GopherQuality, GopherRepetition
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.web_lines import WebLines
from t5x_like.corpora.rules.word_tokens import split_tokens


def outcome(rule, text: str, url: str = "https://example.org/") -> str:
    result = rule.apply(Page(url, text), Counter())
    return result.reason if isinstance(result, Dropped) else result.text


def test_a_folder_without_lists_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"which has none of domains, urls, banned_words.txt.*give a folder"):
        outcome(BlockedUrls(lists=str(tmp_path)), "text")
    with pytest.raises(ValueError, match=r"min_soft_words is 0; give 1 or more"):
        BlockedUrls(lists=str(tmp_path), min_soft_words=0)


def test_the_content_of_url_lists_is_part_of_the_corpus_but_not_their_folder(tmp_path):
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, content in zip(
        folders, ("# sites\nbad.example\n", "bad.example\n", "good.example\n"), strict=True
    ):
        folder.mkdir()
        (folder / "domains").write_text(content)
    first, second, third = (BlockedUrls(lists=str(folder)).fingerprint() for folder in folders)
    assert first == second != third


PROSE = "The harbour was built by fishermen, and many boats still land there every morning."


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("SUBSCRIBE TO OUR NEWS today", None),
        ("The BBC and NATO met", "The BBC and NATO met"),
        ("12 / 34", None),
        ("1,204 Likes", None),
        ("3.5k followers", None),
        ("3 boats", "3 boats"),
        ("Home", None),
        ("Sign in to read this", "to read this"),
        ("Signing in takes long", "Signing in takes long"),
        ("A short teaser Read more...", "A short teaser"),
        ("You have 0 items in cart now", "You have 0 now"),
        ("We want to spread more", "We want to spread more"),
        ("Visit the add to cartography", "Visit the add to cartography"),
        ("İzmir: Add to Cart now", "İzmir: now"),
        ("* * *", "* * *"),
        (
            "Sign in is the first of these many words in a line",
            "Sign in is the first of these many words in a line",
        ),
        ("", ""),
    ],
)
def test_lines_of_menus_go_or_lose_a_phrase(line, kept):
    expected = [PROSE, PROSE] if kept is None else [PROSE, kept, PROSE]
    assert outcome(WebLines(max_flagged_words=1), "\n".join([PROSE, line, PROSE])) == "\n".join(expected)


def test_a_page_of_which_nothing_remains_is_dropped():
    assert outcome(WebLines(max_flagged_words=1), "Home\n3 likes") == "filtered:empty"


def test_listed_urls_need_no_protocol(tmp_path):
    (tmp_path / "urls").write_text("bad.example/page\nhttps://worse.example/\n")
    rule = BlockedUrls(lists=str(tmp_path))
    for url in ("http://bad.example/page", "https://www.bad.example/page/", "http://worse.example"):
        assert outcome(rule, "text", url) == "filtered:blocked_url"
    assert outcome(rule, "text", "https://bad.example/page2") == "text"


def test_pages_with_many_words_in_such_lines_are_dropped():
    page = "\n".join([PROSE] * 3)  # 42 words
    assert outcome(WebLines(), f"{page}\n3 likes") == page
    assert outcome(WebLines(), f"{page}\n3 likes\nHome") == "filtered:flagged_lines"


def test_a_page_with_more_masks_than_allowed_is_dropped():
    address = "Write to jane@mail.example.net. "
    rule, counts = MaskPersonalData(max_masks=2), Counter()
    assert outcome(rule, address * 2) == "Write to |||EMAIL_ADDRESS|||. " * 2
    assert isinstance(rule.apply(Page("", address * 3), counts), Dropped)
    assert counts == {"masked:email": 3}
    with pytest.raises(ValueError, match=r"max_masks is -1; give 0 or more"):
        MaskPersonalData(max_masks=-1)


def test_stop_words_may_be_those_of_another_language():
    text = "Le port est à côté de la ville, où les bateaux restent. " * 6
    assert outcome(GopherQuality(), text) == "filtered:stop_words"
    for counting in ("paper", "datatrove"):
        assert outcome(GopherQuality(stop_words=("est", "la"), counting=counting), text) == text
    assert (
        outcome(GopherQuality(stop_words=("le", "la"), counting="datatrove"), text) == "filtered:stop_words"
    )


def test_line_breaks_for_each_word_are_limited_if_asked_for():
    text = "\n".join(f"A boat {index:05} with a name that is long." for index in range(20))
    rule = FineWebQuality(max_duplicate_line_characters=1)
    assert outcome(rule, text) == text
    assert outcome(FineWebQuality(max_newlines_per_word=0.05), text) == "filtered:newlines"


@pytest.mark.parametrize("rule", [GopherQuality, GopherRepetition, FineWebQuality])
def test_an_unknown_way_of_counting_is_refused(rule):
    with pytest.raises(ValueError, match=r"counting is 'spacy'; choose from paper, datatrove"):
        rule(counting="spacy")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It's a well-known (old) rule...", ["It", "'s", "a", "well", "-", "known", "(", "old", ")", "rule", "..."]),
        ("Can't go, e.g. in the U.S.", ["Ca", "n't", "go", ",", "e.g.", "in", "the", "U.S."]),
        ("https://example.org/a-b?c=d, #1", ["https://example.org/a-b?c=d", ",", "#", "1"]),
        ("L'ami d’un autre, aujourd'hui qu'il", ["L'", "ami", "d’", "un", "autre", ",", "aujourd'hui", "qu'", "il"]),
        ("3.5% of $20", ["3.5", "%", "of", "$", "20"]),
    ],
)  # fmt: skip
def test_tokens_are_words_and_marks(text, tokens):
    assert split_tokens(text) == tokens
