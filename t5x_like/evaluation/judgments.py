"""Judgments of pairs of answers, and win rates: how often a judge prefers the answers of one model to another's.

Zheng et al. 2023, Judging LLM-as-a-judge with MT-bench and Chatbot Arena, sections 3.1 and 3.4,
https://arxiv.org/abs/2306.05685: both orders are judged, and a contradiction is a tie.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from t5x_like.evaluation.paired_answers import AnswerPair, shortened
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, read_jsonl, write_json, write_jsonl
from t5x_like.io.progress import Progress
from t5x_like.io.timed_calls import call_in_time
from t5x_like.text.metrics.bootstrap import intervals

WIN_RATE = "win_rate.json"
_JUDGMENTS = "judgments.jsonl"

# Returns a number for each pair: above 0 if the first answer is better, below 0 if the second is, 0 for a tie.
Judge = Callable[[Sequence[AnswerPair]], Sequence[float]]


class Judgment(NamedTuple):
    """Outcome of a comparison.

    Attributes:
      pair: The answers.
      outcome: 1 if the first answer wins, 0 if the second does, 0.5 for a tie.
      is_contradiction: Whether the judge decided otherwise when the answers were swapped; then it is a tie.
    """

    pair: AnswerPair
    outcome: float
    is_contradiction: bool = False


@dataclass(frozen=True, kw_only=True)
class FunctionJudge:
    """A user's function as judge.

    Attributes:
      function: Function of a prompt, a first and a second answer. It returns a number above 0 if the first is better,
        below 0 if the second is, and 0 for a tie.
      name: Its name in messages.
      time_limit: Seconds for one call.
    """

    function: Callable[[str, str, str], Any]
    name: str
    time_limit: float = 60.0

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float]:
        """Call the function for each pair.

        Raises:
          ValueError: It raised an error, took too long, or returned something else than a number.
        """
        preferences = []
        with Progress(f"judging by {self.name}", len(pairs), "pairs") as progress:
            for pair in pairs:
                preferences.append(self._preference(pair))
                progress.add(1)
        return preferences

    def _preference(self, pair: AnswerPair) -> float:
        prompt = f"for prompt {shortened(pair.prompt)}"
        try:
            preference = call_in_time(lambda: self.function(*pair), self.time_limit)
        except TimeoutError:
            raise ValueError(
                f"judge {self.name} did not answer within {self.time_limit:g} seconds {prompt}; make it faster, or "
                "give it more time by time_limit=SECONDS"
            ) from None
        except (Exception, SystemExit) as error:
            raise ValueError(f"judge {self.name} raised {type(error).__name__} {prompt}: {error}") from error
        if not isinstance(preference, Real) or isinstance(preference, bool) or math.isnan(preference):
            raise ValueError(
                f"judge {self.name} returned {preference!r} {prompt}; return a number above 0 if the first answer is "
                "better, below 0 if the second is, and 0 for a tie"
            )
        return float(preference)


def length_judge(pairs: Sequence[AnswerPair]) -> list[float]:
    """Prefer the longer answer, in characters: a baseline."""
    return [float(len(pair.first) - len(pair.second)) for pair in pairs]


def judge_pairs(pairs: Sequence[AnswerPair], judge: Judge) -> list[Judgment]:
    """Judge pairs of answers in both orders. Where the winners differ, it is a tie.

    Args:
      pairs: The answers.
      judge: The judge.
    """
    forward = np.sign(judge(pairs))
    backward = -np.sign(judge([pair.swapped for pair in pairs]))
    return [
        Judgment(pair, (1 + sign) / 2 if sign == other else 0.5, sign != other)
        for pair, sign, other in zip(pairs, forward.tolist(), backward.tolist(), strict=True)
    ]


def count_wins(judgments: Sequence[Judgment]) -> dict[str, Any]:
    """Return numbers of outcomes, and the win rate ``(wins + ties / 2) / n`` of the first side with its interval.

    The interval has 95 % of bootstrap samples of prompts. Its seed is a hash of prompts and outcomes.
    A single prompt has none.

    Args:
      judgments: At least one judgment.
    """
    outcomes = [each.outcome for each in judgments]
    prompts = [{"group": each.pair.prompt} for each in judgments]

    def metric(_: Sequence[object], drawn: Sequence[float]) -> dict[str, float]:
        return {"win_rate": 100 * fmean(drawn)}

    has_interval = len({each.pair.prompt for each in judgments}) > 1
    interval = intervals(metric, prompts, outcomes)["win_rate"] if has_interval else None
    return {
        **metric(prompts, outcomes),
        "interval": interval and interval._asdict(),
        "wins": outcomes.count(1.0),
        "ties": outcomes.count(0.5),
        "losses": outcomes.count(0.0),
        "contradictions": 100 * fmean(each.is_contradiction for each in judgments),
    }


def compare_answers(pairs: Sequence[AnswerPair], judge: Judge) -> tuple[dict[str, Any], list[Judgment]]:
    """Return the win rate of the first answers, that of the longer ones, mean lengths, and all judgments.

    Args:
      pairs: Answers of both sides; at least one pair.
      judge: The judge.
    """
    judgments = judge_pairs(pairs, judge)
    lengths = {side: fmean(len(getattr(pair, side)) for pair in pairs) for side in ("first", "second")}
    longer = count_wins(judge_pairs(pairs, length_judge))
    result = {"pairs": len(pairs), **count_wins(judgments), "longer_answer": longer, "mean_length": lengths}
    return result, judgments


def write_win_rate(directory: PathLike, result: Mapping[str, Any], judgments: Sequence[Judgment]) -> None:
    """Write ``win_rate.json`` and a line for each pair in ``judgments.jsonl``.

    Args:
      directory: Folder to write to.
      result: Result of ``compare_answers``, and names of both sides and the judge.
      judgments: All judgments.
    """
    preferred = {1.0: "first", 0.5: "tie", 0.0: "second"}
    rows = (
        {**each.pair._asdict(), "preferred": preferred[each.outcome], "contradiction": each.is_contradiction}
        for each in judgments
    )
    write_jsonl(as_path(directory) / _JUDGMENTS, rows)
    write_json(as_path(directory) / WIN_RATE, result)


def read_win_rate(directory: PathLike) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read what ``write_win_rate`` wrote: the result, and the rows of ``judgments.jsonl``."""
    with refusing_damage(as_path(directory) / WIN_RATE):
        return read_json(as_path(directory) / WIN_RATE, dict), list(
            read_jsonl(as_path(directory) / _JUDGMENTS)
        )
