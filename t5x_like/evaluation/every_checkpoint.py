"""Evaluation of every checkpoint of a run, or of each new one as training saves it, with scores by step."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import jax

from t5x_like.evaluation.scores_file import ScoresFile, flat_scores
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import as_path, read_json, write_json
from t5x_like.pretrained.finite_weights import NotNumbersError
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
) -> Iterator[tuple[int, ScoresFile]]:
    """Evaluate the steps of a run in order, each into ``output_dir/step_<step>``.

    Writes ``scores_by_step.json`` with the scores of all steps. Steps whose weights are not numbers, or that training
    has removed meanwhile, are logged and skipped.

    Args:
      suite: The evaluation; its ``step`` and ``output_dir`` are replaced for each step.
      watch: Wait for new steps until the run's last step is evaluated (``total_steps`` of its ``config.json``). Without
        that field, wait until interrupted.
      seconds: Time between two looks for new steps.
      sleep: Replacement of ``time.sleep`` for tests.
      shown: Show progress.

    Yields:
      The step and its scores.

    Raises:
      ValueError: The checkpoint is not a run, or has no steps and ``watch`` is off.
    """
    if not is_run(suite.checkpoint):
        raise ValueError(
            f"{suite.checkpoint} is not a run and has one checkpoint only; evaluate that one alone, without watch"
        )
    done: dict[int, ScoresFile] = {}
    seen: set[int] = set()
    while True:
        waiting = [step for step in steps_of(suite.checkpoint) if step not in seen]
        seen.update(waiting)
        for step in waiting:
            one = replace(suite, step=step, output_dir=f"{suite.output_dir}/step_{step}")
            try:
                done[step] = evaluate_suite(one, shown=shown)
            except NotNumbersError as error:
                _log.warning("step %d is skipped: %s", step, error)
                continue
            except (ValueError, OSError):
                if step in steps_of(suite.checkpoint):
                    raise
                _log.warning(
                    "step %d is skipped: training keeps its newest checkpoints only and has removed it", step
                )
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
        what = "whose weights are numbers" if seen else "to evaluate; watch=True waits for them"
        raise ValueError(f"{suite.checkpoint} has no finished step {what}")


def _last_step(checkpoint: str) -> int | None:
    config = as_path(checkpoint) / "config.json"
    if not config.exists():
        return None
    return read_json(config).get("total_steps")


def _write(directory: str, done: Mapping[int, ScoresFile]) -> None:
    if jax.process_index() != 0:
        return
    steps = {str(step): flat_scores(scores, with_averages=True) for step, scores in sorted(done.items())}
    write_json(f"{directory}/{STEPS}", json.loads(json.dumps(steps)))
