"""Every checkpoint of a run evaluated, or each as it appears, and what came out step by step."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax

from t5x_like.evaluation.scores_file import flat_scores
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import as_path, read_json, write_json
from t5x_like.pretrained.open_checkpoint import NotNumbersError
from t5x_like.pretrained.run_weights import steps_of
from t5x_like.pretrained.weight_sources import is_run

_log = logging.getLogger(__name__)

STEPS = "scores_by_step.json"


def evaluate_steps(
    suite: SuiteEvaluation,
    *,
    watch: bool = False,
    seconds: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
    shown: bool = True,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Evaluates the steps that a run has, in order, each into ``output_dir/step_<step>``; yields (step, scores).

    With ``watch`` it then looks every few ``seconds`` for steps that have been saved since, until the run's last step
    is done (``total_steps`` of its ``config.json``; without one, until it is interrupted). ``scores_by_step.json`` has
    all of them.
    Steps whose weights are no numbers, or that training has removed meanwhile, are logged and passed over.

    Raises:
      ValueError: the checkpoint is no run, or has no steps and isn't watched.
    """
    if not is_run(suite.checkpoint):
        raise ValueError(
            f"{suite.checkpoint} is no run, it has one checkpoint only; leave --every_checkpoint and --watch out"
        )
    done: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    while True:
        waiting = [step for step in steps_of(suite.checkpoint) if step not in seen]
        seen.update(waiting)
        for step in waiting:
            one = replace(suite, step=step, output_dir=f"{suite.output_dir}/step_{step}")
            try:
                done[step] = evaluate_suite(one, shown=shown)
            except (ValueError, OSError) as error:
                if step in steps_of(suite.checkpoint) and not isinstance(error, NotNumbersError):
                    raise
                _log.warning("step %d is passed over: %s", step, _why(error))
                continue
            _write(suite.output_dir, done)
            yield step, done[step]
        if waiting:
            continue  # evaluating took time: there may be another already
        if not watch:
            break
        if _last_step(suite.checkpoint) in seen:
            break
        sleep(seconds)
    if not done:
        what = "whose weights are numbers" if seen else "to evaluate; --watch waits for them"
        raise ValueError(f"{suite.checkpoint} has no finished step {what}")


def _why(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, NotNumbersError)
        else "training keeps its newest only, and has removed it"
    )


def _last_step(checkpoint: str) -> int | None:
    config = as_path(checkpoint) / "config.json"
    if not config.exists():
        return None
    total = read_json(config).get("total_steps")
    return total if isinstance(total, int) else None


def _write(directory: str, done: dict[int, dict[str, Any]]) -> None:
    if jax.process_index() != 0:
        return
    steps = {str(step): flat_scores(found, with_averages=True) for step, found in sorted(done.items())}
    write_json(f"{directory}/{STEPS}", json.loads(json.dumps(steps)))
