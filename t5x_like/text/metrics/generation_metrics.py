"""Metrics for generated text, times 100: BLEU, ROUGE and exact sequences; and edit distances."""

import logging
import re
import statistics
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t5x_like.nested_values import one_or_several
from t5x_like.text.metrics.classification import Scores, mean_score, require_as_many, require_pairs

_log = logging.getLogger(__name__)

_LETTER, _ROUGE_WORD = re.compile(r"[^\W_]"), re.compile("[a-z0-9]")
_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ROUGE = ("rouge1", "rouge2", "rougeLsum")


def bleu(
    targets: Sequence[str] | Sequence[Sequence[str]], predictions: Sequence[str], tokenizer: str = "intl"
) -> Scores:
    """Compute BLEU with sacreBLEU's ``intl`` tokenizer and exponential smoothing, as T5 reports translation.

    Args:
      targets: One reference for each prediction, or several whole lists of references.
      predictions: Generated texts.
      tokenizer: Name of a tokenizer of sacreBLEU.
    """
    import sacrebleu

    streams = reference_streams(targets)
    for stream in streams:
        require_pairs(stream, predictions)
    score = sacrebleu.corpus_bleu(
        list(predictions),
        streams,  # pyright: ignore[reportArgumentType]
        smooth_method="exp",
        tokenize=tokenizer,
        force=True,  # no warning for tokenized text, with spaces before full stops
    )
    return {"bleu": float(score.score)}


def reference_streams(targets: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    """Return lists of references, one for each prediction in each list; a plain list is the only one."""
    is_one = not targets or isinstance(targets[0], str)
    return [list(targets)] if is_one else [list(stream) for stream in targets]  # pyright: ignore[reportReturnType]


def rouge_mean(
    targets: Sequence[str | Sequence[str]],
    predictions: Sequence[str],
    score_keys: Sequence[str] = _ROUGE,
    **settings: object,
) -> Scores:
    """Compute the mean F1 of ROUGE-1, ROUGE-2 and ROUGE-Lsum, without stemming; `` . `` ends a sentence for Lsum.

    Args:
      targets: One reference for each prediction, or a list of them, of which the one with the best F1 counts.
      predictions: Generated texts.
      score_keys: Kinds of ROUGE (also ``rouge3``, ``rougeL``).
      **settings: Arguments of rouge_score's ``RougeScorer``, such as ``use_stemmer``.
    """
    rows = _rouge_rows(targets, predictions, score_keys, settings)
    return {name: 100.0 * float(np.mean([row[name].fmeasure for row in rows])) for name in score_keys}


def rouge(
    targets: Sequence[str | Sequence[str]],
    predictions: Sequence[str],
    score_keys: Sequence[str] = _ROUGE,
    **settings: object,
) -> Scores:
    """Compute ROUGE as T5 reports it: the median of 1,000 means over rows drawn with replacement.

    It differs from ``rouge_mean`` by chance only; the draw has a fixed seed.

    Args:
      targets: One reference for each prediction, or a list of them, of which the one with the best F1 counts.
      predictions: Generated texts.
      score_keys: Kinds of ROUGE (also ``rouge3``, ``rougeL``).
      **settings: Arguments of rouge_score's ``RougeScorer``, such as ``use_stemmer``.
    """
    from rouge_score import scoring

    aggregator = scoring.BootstrapAggregator()
    for row in _rouge_rows(targets, predictions, score_keys, settings):
        aggregator.add_scores(row)
    state = np.random.get_state()  # the library draws from NumPy's global generator
    try:
        np.random.seed(0)
        result = aggregator.aggregate()
    finally:
        np.random.set_state(state)
    return {name: 100.0 * float(result[name].mid.fmeasure) for name in score_keys}


def instruction_scores(targets: Sequence[Mapping[str, Any]], predictions: Sequence[str]) -> Scores:
    """Compute Super-NaturalInstructions' ROUGE-L and exact match, and ROUGE-L in each category of tasks.

    The best of a row's outputs counts. ROUGE-L has stems of words. Exact match ignores case, punctuation and repeated
    spaces (Wang et al. 2022, section 5, https://arxiv.org/abs/2204.07705; compute_metrics.py of Tk-Instruct).

    Args:
      targets: Rows ``{"outputs": […], "category": …}``.
      predictions: Generated texts.
    """
    outputs = [list(target["outputs"]) for target in targets]
    rows = _rouge_rows(outputs, predictions, ("rougeL",), {"use_stemmer": True})
    shares = [100.0 * float(row["rougeL"].fmeasure) for row in rows]
    equal = [
        _bare_words(guess) in map(_bare_words, texts)
        for texts, guess in zip(outputs, predictions, strict=True)
    ]
    by_category: dict[str, list[float]] = {}
    for target, share in zip(targets, shares, strict=True):
        name = "_".join(target["category"].lower().split())
        by_category.setdefault(f"rougeL_for_{name}", []).append(share)
    means = {name: float(np.mean(each)) for name, each in sorted(by_category.items())}
    return {"rougeL": float(np.mean(shares)), "exact_match": mean_score(equal), **means}


def _bare_words(text: str) -> str:
    return " ".join(text.lower().translate(_DROP_PUNCTUATION).split())


def _rouge_rows(
    targets: Sequence[str | Sequence[str]],
    predictions: Sequence[str],
    score_keys: Sequence[str],
    settings: dict[str, Any],
) -> list[dict[str, Any]]:
    from rouge_score import rouge_scorer

    require_pairs(targets, predictions)
    scorer = rouge_scorer.RougeScorer(list(score_keys), **settings)
    if "tokenizer" not in settings:
        _warn_of_other_letters(targets)
    pairs = zip(targets, predictions, strict=True)
    return [
        scorer.score_multi(
            [_one_sentence_a_line(text) for text in one_or_several(truth)],
            _one_sentence_a_line(guess),
        )
        for truth, guess in pairs
    ]


def _warn_of_other_letters(targets: Sequence[str | Sequence[str]]) -> None:
    """Warn of references that rouge_score's tokenizer finds no word in, as in Thai or Chinese; they score 0."""
    texts = [text for each in targets for text in one_or_several(each)]
    num_unread = sum(bool(_LETTER.search(text)) and not _ROUGE_WORD.search(text.lower()) for text in texts)
    if num_unread:
        _log.warning(
            "ROUGE reads the letters a to z and digits alone; %d of %d references have none of them and score 0. "
            "Use another metric, such as bleu or token_error_rate, for their language",
            num_unread,
            len(texts),
        )


def _one_sentence_a_line(text: str) -> str:
    return text.replace(" . ", " .\n")


def sequence_accuracy(targets: Sequence[str], predictions: Sequence[str]) -> Scores:
    """Compute the share of predictions that equal their target exactly.

    Args:
      targets: True texts.
      predictions: Generated texts.
    """
    require_as_many(targets, predictions)
    equal = [truth == guess for truth, guess in zip(targets, predictions, strict=True)]
    return {"sequence_accuracy": mean_score(equal)}


def token_error_rate(targets: Sequence[str], predictions: Sequence[str]) -> Scores:
    """Compute the number of edits per 100 target tokens; tokens are separated by white space.

    This is the word error rate of words and the phoneme error rate of phonemes. It can exceed 100.

    Args:
      targets: True texts.
      predictions: Generated texts.
    """
    require_pairs(targets, predictions)
    pairs = [(truth.split(), guess.split()) for truth, guess in zip(targets, predictions, strict=True)]
    edits = sum(num_edits(truth, guess) for truth, guess in pairs)
    length = sum(len(truth) for truth, _ in pairs)
    return {"token_error_rate": 100.0 * edits / length if length else float("nan")}


def edit_distance(targets: Sequence[str], predictions: Sequence[str], lower: bool = True) -> dict[str, float]:
    """Compute minimum, maximum, mean, median and sum of the word edit distances over all rows; not times 100.

    Texts are split at every character that is not a letter or digit, so two of these in a row enclose an empty word.

    Args:
      targets: References.
      predictions: Generated texts.
      lower: Ignore case.
    """
    require_pairs(targets, predictions)
    edits = []
    for pair in zip(targets, predictions, strict=True):
        truth, guess = (re.split(r"\W", text.lower() if lower else text) for text in pair)
        edits.append(num_edits(truth, guess))
    return {
        "min_edit": min(edits),
        "max_edit": max(edits),
        "mean_edit": statistics.fmean(edits),
        "median_edit": float(statistics.median(edits)),
        "sum_edit": sum(edits),
    }


def num_edits(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the fewest insertions, deletions and substitutions that turn one sequence into the other.

    Args:
      left: Tokens to edit.
      right: Tokens to reach.
    """
    row = list(range(len(right) + 1))
    for row_index, token in enumerate(left, start=1):
        diagonal, row[0] = row[0], row_index
        for column, other in enumerate(right, start=1):
            cheapest = min(row[column] + 1, row[column - 1] + 1, diagonal + (token != other))
            diagonal, row[column] = row[column], cheapest
    return row[-1]
