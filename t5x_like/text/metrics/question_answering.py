"""Exact match and F1 of SQuAD, TriviaQA and CoQA over normalized words, times 100."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from t5x_like.nested_values import one_or_several
from t5x_like.text.metrics.classification import Scores, mean_score, require_as_many

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_WORD = re.compile(r"\w+")
_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SPACE_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`_", " "))

Answers = Sequence[str] | str  # all that count as right


def normalize_squad(text: str) -> str:
    """Lower-case a text and remove punctuation, articles and repeated spaces."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_DROP_PUNCTUATION)).split())


def normalize_trivia_qa(text: str) -> str:
    """Normalize as ``normalize_squad``, but replace punctuation, including more kinds of quotes, with spaces."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_SPACE_PUNCTUATION)).split())


def squad(targets: Sequence[Answers], predictions: Sequence[str]) -> Scores:
    """Compute exact match and F1 against the best of each question's answers.

    Args:
      targets: All right answers of each question, or a single one.
      predictions: Answer texts.
    """
    return _score(targets, predictions, normalize_squad)


def trivia_qa(targets: Sequence[Answers], predictions: Sequence[str]) -> Scores:
    """Compute ``squad`` with TriviaQA's normalization.

    Args:
      targets: All right answers of each question, or a single one.
      predictions: Answer texts.
    """
    return _score(targets, predictions, normalize_trivia_qa)


def span_squad(targets: Sequence[Mapping[str, Any]], predictions: Sequence[str]) -> Scores:
    """Compute ``squad`` for answers written as positions: ``start: 3 end: 5`` are words 3 to 5 of the context, from 0.

    Words are runs of letters and digits. An answer that can't be read as positions is empty.

    Args:
      targets: Rows ``{"answers": […], "context": …}``.
      predictions: Answers as positions.
    """
    require_as_many(targets, predictions)
    words = [_words_at(target["context"], guess) for target, guess in zip(targets, predictions, strict=True)]
    return squad([target["answers"] for target in targets], words)


def coqa_f1(targets: Sequence[Sequence[str]], predictions: Sequence[str]) -> Scores:
    """Compute CoQA's F1 against the best of each question's answers (Reddy et al. 2019, https://arxiv.org/abs/1808.07042).

    Normalization is that of ``squad``; two answers that become empty are equal.

    Args:
      targets: All right answers of each question.
      predictions: Answer texts.
    """
    overlap = []
    for answers, prediction in zip(_right_answers(targets, predictions), predictions, strict=True):
        guess = normalize_squad(prediction).split()
        truths = [normalize_squad(answer).split() for answer in answers]
        overlap.append(max(_word_f1(truth, guess) if truth or guess else 1.0 for truth in truths))
    return {"f1": mean_score(overlap)}


def coqa(targets: Sequence[Sequence[str]], predictions: Sequence[str]) -> Scores:
    """Compute exact match and F1 as CoQA's official script (Reddy et al. 2019, §6.1, https://arxiv.org/abs/1808.07042).

    With several human answers, each is left out in turn, the best of the others counts, and these scores are averaged.
    So people, who can't be compared with themselves, are scored alike. Normalization is that of ``squad``.

    Args:
      targets: All human answers of each question.
      predictions: Answer texts.
    """
    exact, overlap = [], []
    for answers, prediction in zip(_right_answers(targets, predictions), predictions, strict=True):
        guess = normalize_squad(prediction)
        truths = [normalize_squad(answer) for answer in answers]
        equal = [float(truth == guess) for truth in truths]
        shared = [
            _word_f1(truth.split(), guess.split()) if truth and guess else float(truth == guess)
            for truth in truths
        ]
        exact.append(_left_one_out(equal))
        overlap.append(_left_one_out(shared))
    return {"em": mean_score(exact), "f1": mean_score(overlap)}


def _left_one_out(scores: list[float]) -> float:
    if len(scores) == 1:
        return scores[0]
    return sum(max(scores[:index] + scores[index + 1 :]) for index in range(len(scores))) / len(scores)


# Signs that CMRC 2018's script leaves out. It also lists "……", which no single character equals.
_CMRC_SIGNS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CHINESE = re.compile("[\u4e00-\u9fa5]")
_CMRC_RUN = re.compile("[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+")


def cmrc(targets: Sequence[Answers], predictions: Sequence[str]) -> Scores:
    """Compute exact match and F1 as the script of CMRC 2018 (Cui et al. 2019, §4, https://arxiv.org/abs/1810.07366).

    Texts are split into Chinese characters and, between them, words. F1 is over the longest run of these that both
    texts have, and the best of a question's answers counts. Case and some signs are ignored.

    Words are those of NLTK's tokenizer. The script splits sentences first, which this doesn't: a full stop within a run
    of foreign words stays with its word.

    Args:
      targets: All right answers of each question, or a single one.
      predictions: Answer texts.
    """
    exact, overlap = [], []
    for truths, prediction in zip(_right_answers(targets, predictions), predictions, strict=True):
        guess, guessed = _without_signs(prediction), _segments(prediction)
        exact.append(max(_without_signs(truth) == guess for truth in truths))
        overlap.append(max(_run_f1(_segments(truth), guessed) for truth in truths))
    return {"em": mean_score(exact), "f1": mean_score(overlap)}


def _without_signs(text: str) -> str:
    return "".join(character for character in text.lower().strip() if character not in _CMRC_SIGNS)


def _segments(text: str) -> list[str]:
    runs = _CMRC_RUN.findall(_without_signs(text))
    if all(_CHINESE.match(run) for run in runs):
        return runs
    from nltk.tokenize.destructive import NLTKWordTokenizer  # takes a second to import

    split = NLTKWordTokenizer().tokenize
    return [part for run in runs for part in ([run] if _CHINESE.match(run) else split(run))]


def _run_f1(truth: list[str], guess: list[str]) -> float:
    size = SequenceMatcher(None, truth, guess, autojunk=False).find_longest_match().size
    return 2.0 * size / (len(truth) + len(guess)) if size else 0.0


# Articles that MLQA's script removes. Of Arabic's it removes the letters wherever they are.
_MLQA_ARTICLES = {
    "ar": r"\sال^|ال",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "hi": "",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "zh": "",
}


def mlqa(language: str) -> Callable[[Sequence[Answers], Sequence[str]], Scores]:
    """Make MLQA's metric: exact match and F1 as ``squad``, without a language's articles and all kinds of punctuation.

    Chinese characters are words of their own (Lewis et al. 2019, section 5, https://arxiv.org/abs/1910.07475).

    Args:
      language: Code of the language, such as ``de``.
    """
    articles = re.compile(_MLQA_ARTICLES[language]) if _MLQA_ARTICLES[language] else None

    def normalize(text: str) -> str:
        kept = "".join(each for each in text.lower() if not _is_punctuation(each))
        kept = kept if articles is None else articles.sub(" ", kept)
        return " ".join((_CHINESE.sub(r" \g<0> ", kept) if language == "zh" else kept).split())

    def mlqa_scores(targets: Sequence[Answers], predictions: Sequence[str]) -> Scores:
        return _score(targets, predictions, normalize)

    mlqa_scores.__name__ = f"mlqa({language})"
    return mlqa_scores


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def _words_at(context: str, answer: str) -> str:
    numbers = _WORD.findall(answer)[1:4:2]
    try:
        start, end = map(int, numbers)
    except ValueError:
        return ""
    return " ".join(_WORD.findall(context)[start : end + 1])


def _right_answers(targets: Sequence[Answers], predictions: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the right answers of each question, for which there must be a prediction.

    Raises:
      ValueError: Their numbers differ, or a question has no answer.
    """
    require_as_many(targets, predictions)
    answers_of = [one_or_several(answers) for answers in targets]
    for index, answers in enumerate(answers_of):
        if not answers:
            raise ValueError(
                f"question {index} (from 0) has no right answer; give '' as the answer of a question without one"
            )
    return answers_of


def _score(targets: Sequence[Answers], predictions: Sequence[str], normalize: Callable[[str], str]) -> Scores:
    exact, overlap = [], []
    for answers, prediction in zip(_right_answers(targets, predictions), predictions, strict=True):
        guess = normalize(prediction)
        truths = [normalize(answer) for answer in answers]
        exact.append(max(truth == guess for truth in truths))
        overlap.append(max(_word_f1(truth.split(), guess.split()) for truth in truths))
    return {"em": mean_score(exact), "f1": mean_score(overlap)}


def _word_f1(truth: Sequence[str], guess: Sequence[str]) -> float:
    shared = sum((Counter(truth) & Counter(guess)).values())
    return 2.0 * shared / (len(truth) + len(guess)) if shared else 0.0
