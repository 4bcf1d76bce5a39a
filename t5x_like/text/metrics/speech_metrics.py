"""Error rates of recognized speech, times 100: words and characters, counted by jiwer."""

import re
import unicodedata
from collections.abc import Sequence

from t5x_like.io.extra_libraries import extra_library
from t5x_like.text.metrics.classification import Scores, require_pairs

_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_KEPT_APOSTROPHE = "\0"


def word_error_rate(
    targets: Sequence[str],
    predictions: Sequence[str],
    *,
    lower: bool = False,
    remove_punctuation: bool = False,
) -> Scores:
    """Compute the number of word edits per 100 words of the targets; it can exceed 100.

    Edits of all rows are summed before the division, so long rows count for more.

    Args:
      targets: True transcripts.
      predictions: Recognized texts.
      lower: Ignore case.
      remove_punctuation: Ignore punctuation, but for apostrophes inside of words.

    Raises:
      ValueError: The extra ``speech`` isn't installed.
    """
    return {"wer": _error_rate("process_words", targets, predictions, lower, remove_punctuation)}


def character_error_rate(
    targets: Sequence[str],
    predictions: Sequence[str],
    *,
    lower: bool = False,
    remove_punctuation: bool = False,
) -> Scores:
    """Compute the number of character edits per 100 characters of the targets, spaces included.

    Args:
      targets: True transcripts.
      predictions: Recognized texts.
      lower: Ignore case.
      remove_punctuation: Ignore punctuation, but for apostrophes inside of words.

    Raises:
      ValueError: The extra ``speech`` isn't installed.
    """
    return {"cer": _error_rate("process_characters", targets, predictions, lower, remove_punctuation)}


def require_jiwer() -> None:
    """Check that jiwer can be imported.

    Raises:
      ValueError: It isn't installed; the message names the extra.
    """
    extra_library("jiwer", extra="speech", needed_by="metric 'wer' or 'cer'")


def normalized_transcript(text: str, *, lower: bool = False, remove_punctuation: bool = False) -> str:
    """Return a transcript in Unicode's composed form (NFC), with single spaces between words.

    >>> normalized_transcript("“Don’t!”  he said", lower=True, remove_punctuation=True)
    "don't he said"

    Args:
      text: Transcript.
      lower: Convert it to lower case.
      remove_punctuation: Remove all characters that Unicode calls punctuation, but for apostrophes inside of words.
    """
    text = unicodedata.normalize("NFC", text)
    text = text.lower() if lower else text
    if remove_punctuation:
        text = _APOSTROPHE.sub(_KEPT_APOSTROPHE, text.replace("’", "'"))
        text = "".join(mark for mark in text if not unicodedata.category(mark).startswith("P"))
        text = text.replace(_KEPT_APOSTROPHE, "'")
    return " ".join(text.split())


def _error_rate(
    count: str, targets: Sequence[str], predictions: Sequence[str], lower: bool, remove_punctuation: bool
) -> float:
    require_pairs(targets, predictions)
    jiwer = extra_library("jiwer", extra="speech", needed_by="metric 'wer' or 'cer'")
    texts, guesses = (
        [normalized_transcript(text, lower=lower, remove_punctuation=remove_punctuation) for text in each]
        for each in (targets, predictions)
    )
    counts = getattr(jiwer, count)(texts, guesses)
    length = counts.hits + counts.substitutions + counts.deletions
    edits = counts.substitutions + counts.deletions + counts.insertions
    return 100.0 * edits / length if length else float("nan")
