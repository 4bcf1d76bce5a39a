"""Plain version of C4's rules, the reference of ``corpus_speed.py``."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MAX_CHARS = 190_000


def plain_cleaning() -> Callable[[str], Any]:
    """Return C4's rules as a function of a page: every step for every line, all of its sentences."""
    sentences = nltk_sentences()
    citation = re.compile(r"\[(?:[0-9]*|edit|citation needed)\]")
    policies = re.compile("terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies")

    def judge(line: str) -> tuple[str, str]:
        if any(len(word) > 1000 for word in line.split()):
            return "line-filtered:too_long_word", line
        line = citation.sub("", line)
        if line[-1:] not in tuple('.?!"') or line.endswith("..."):
            return "line-filtered:no_endmark", line
        if len(line.split()) < 5:
            return "line-filtered:too_short", line
        if "lorem ipsum" in line.lower():
            return "filtered", line
        if "javascript" in line.lower():
            return "line-filtered:javascript", line
        if "{" in line:
            return "filtered", line
        return ("line-filtered:policy" if policies.search(line.lower()) else "line-passed"), line

    def clean(text: str) -> tuple[str | None, Counter[str]]:
        counts: Counter[str] = Counter()
        kept, num_sentences = [], 0
        for raw in text.splitlines():
            decision, line = judge(raw.strip())
            if decision == "filtered":
                return None, counts
            counts[decision] += 1
            if decision == "line-passed":
                kept.append(line)
                num_sentences += len(sentences(line))
        return ("\n".join(kept).strip() if num_sentences >= 3 else None), counts

    return clean


def plain_count() -> Callable[[str], Any]:
    sentences = nltk_sentences()
    return lambda text: len(sentences(text))


def nltk_sentences() -> Callable[[str], list[str]]:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
    from punkt.data import english

    learned = PunktParameters()
    learned.abbrev_types, learned.sent_starters = set(english.ABBREV_TYPES), set(english.SENT_STARTERS)
    learned.collocations = set(english.COLLOCATIONS)
    learned.ortho_context.update(english.ORTHO_CONTEXT)
    return PunktSentenceTokenizer(learned).tokenize


def plain_english() -> Callable[[str], Any]:
    import langdetect

    langdetect.DetectorFactory.seed = 0

    def is_english(text: str) -> bool:
        try:
            best = langdetect.detect_langs(text)[:1]
        except langdetect.LangDetectException:
            return False
        return bool(best) and best[0].lang == "en" and best[0].prob >= 0.99

    return is_english


def plain_path() -> Callable[[str], Any]:
    """Return the reference for whole builds: cleaning, then langdetect on the cleaned text."""
    return in_turn(plain_cleaning(), plain_english())


def in_turn(clean: Callable[[str], Any], is_english: Callable[[str], bool]) -> Callable[[str], bool]:
    def keep(text: str) -> bool:
        cleaned = clean(text)[0] if len(text) <= MAX_CHARS else None
        return cleaned is not None and is_english(cleaned)

    return keep


def plain_bad_words() -> Callable[[str], Any]:
    terms = (ROOT / "data/bad_words/en.txt").read_text(encoding="utf-8").splitlines()
    pattern = re.compile(rf"(?:\W|^)({'|'.join(map(re.escape, terms))})(?:\W|$)")
    return lambda text: pattern.search(text.lower()) is None
