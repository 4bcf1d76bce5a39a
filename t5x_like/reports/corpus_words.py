"""Phrases for the short names of reasons, decisions and counts in a corpus' manifest."""

_REASONS = {
    "filtered:bad_domain": "an address on the list of domains to leave out",
    "filtered:badwords": "a word of the list of bad words",
    "filtered:banned_subword": "an address with a banned part of a word",
    "filtered:banned_word": "an address with a banned word",
    "filtered:blocked_domain": "an address of a blocked site",
    "filtered:blocked_url": "a blocked address",
    "filtered:duplicate_url": "an older version of a kept page",
    "filtered:empty": "nothing left",
    "filtered:flagged_lines": "too many words in lines of menus",
    "filtered:ignored_language": "in another language",
    "filtered:langdetect_exception": "no letters to detect a language",
    "filtered:loremipsum": "has “lorem ipsum”",
    "filtered:low_confidence": "its language was not detected with confidence",
    "filtered:low_quality": "rated too low by a model",
    "filtered:mostly_not_prose": "little of it is prose",
    "filtered:near_duplicate": "nearly the same as another page",
    "filtered:no_predictions": "its language was not detected",
    "filtered:not_listed": "an address not on the list of those to keep",
    "filtered:personal_data": "too much personal data",
    "filtered:soft_banned_words": "an address with several dubious words",
    "filtered:squigglybracket": "has a curly bracket",
    "filtered:too_few_paragraphs": "too few long paragraphs",
    "filtered:too_few_sentences": "too few sentences",
    "filtered:too_few_words": "too few words",
    "filtered:too_long": "too long",
}
_DECISIONS = {
    "line-passed": "lines that stay",
    "line-filtered:no_endmark": "don't end in . ? ! or a quotation mark",
    "line-filtered:too_short": "too few words",
    "line-filtered:too_long_word": "a word too long",
    "line-filtered:javascript": "mention JavaScript",
    "line-filtered:policy": "mention policies or cookies",
    "line-filtered:not_prose": "are no prose",
    "line-filtered:fragment": "belong to no sentence",
    "line-filtered:global_duplicate": "are on another page",
    "line-filtered:local_duplicate": "repeated on the same page",
    "sentence-passed": "sentences that stay",
    "line-filtered:uppercase": "mainly capital letters",
    "line-filtered:numbers": "digits only",
    "line-filtered:counter": "a counter, such as “3 likes”",
    "line-filtered:one_word": "one word",
    "sentence-filtered:labeled": "have a label that a model gave them",
    "sentence-filtered:duplicate_span": "in a span that an earlier document has",
}


def reason_in_words(reason: str) -> str:
    """Return a phrase for the reason why a page was dropped."""
    return _REASONS.get(reason, _plain(reason))


def decision_in_words(decision: str) -> str:
    """Return a phrase for the decision about a line or sentence."""
    return _DECISIONS.get(decision, _plain(decision))


_COUNTS = {
    "n-grams": "runs of words shared with evaluation texts “{}”",
    "pages": "pages that share such runs with “{}”",
    "masked": "masked: {}",
}


def count_in_words(name: str) -> str:
    """Return a phrase for another count of a step: ``n-grams:squad``, ``masked:email``, ``-en:filtered``."""
    kind, _, what = name.partition(":")
    if kind in _COUNTS:
        return _COUNTS[kind].format(what)
    return f"pages in {kind[1:]}: {what}" if kind.startswith("-") else name


def _plain(name: str) -> str:
    return name.rpartition("filtered:")[2].replace("_", " ").replace("-", " ")
