"""Saves a run at intervals, and continues when a save fails."""

import time

import jax
import jax.numpy as jnp
import optax

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.message_sentences import sentence
from t5x_like.training.backoff import Backoff
from t5x_like.training.hooks import Every, Hook, RunProgress
from t5x_like.training.state import saved_part


class Save(Hook):
    """Saves the trained part of the state, and the position in the data; never weights that are not finite.

    Training continues when a save fails. The next try saves the weights of its own step, after 10 seconds, then 20, and
    so on; with several processes at the next interval. The last step waits for its save, and for these tries.

    Args:
      checkpoints: Where to save.
      steps: The interval; with 0 only the last step is saved.
      max_failures: Failed saves in a row after which the run ends with an OSError.
      backoff: The waits.
    """

    def __init__(
        self, checkpoints: Checkpoints, steps: int, *, max_failures: int = 5, backoff: Backoff | None = None
    ) -> None:
        self._checkpoints, self._max_failures = checkpoints, max_failures
        self._backoff = Backoff() if backoff is None else backoff
        self._scheduled = Every(steps, self._save_unless_waiting)
        self._is_finite = jax.jit(lambda params: jnp.isfinite(optax.tree.norm(params)))
        self._is_saving = False
        self._num_failed = 0

    def after_step(self, run: RunProgress) -> None:
        """Save if the step is due, or if a failed save is to be tried again."""
        try:
            self._checkpoints.check()
        except OSError as error:
            self._count_failure(run, error)
        self._scheduled.after_step(run)
        is_retry_due = self._backoff.num_failures and not self._backoff.seconds_left
        if is_retry_due and not self._is_saving and jax.process_count() == 1:
            self._save(run)
        if run.is_last:
            self._finish(run)

    def _save_unless_waiting(self, run: RunProgress) -> None:
        # Several processes have different clocks.
        if run.is_last or jax.process_count() > 1 or not self._backoff.seconds_left:
            self._save(run)

    def _save(self, run: RunProgress) -> None:
        if not bool(self._is_finite(run.state["params"])):
            run.say(f"step {run.step} is not saved: some weights are not finite")
            self._backoff.succeed()  # there is nothing to try again
            return
        with run.paused("saving"):
            self._wait(run)
            run.flush_log()
            try:
                self._checkpoints.save(run.step, saved_part(run.state), loader_state=run.loader_state)
                self._is_saving = True
            except OSError as error:
                self._count_failure(run, error)

    def _wait(self, run: RunProgress) -> None:
        """Wait for the save in progress, and note how it ended."""
        try:
            self._checkpoints.wait()
        except OSError as error:
            self._count_failure(run, error)
        if self._is_saving:
            self._is_saving = False
            self._backoff.succeed()

    def _finish(self, run: RunProgress) -> None:
        with run.paused("saving"):
            self._wait(run)
            while self._backoff.num_failures:
                time.sleep(self._backoff.seconds_left)
                self._save(run)
                self._wait(run)
        if self._num_failed:
            saved = ", ".join(map(str, self._checkpoints.all_steps()))
            run.say(f"{self._num_failed} saves failed; these steps are saved: {saved or 'none'}")

    def _count_failure(self, run: RunProgress, error: OSError) -> None:
        self._is_saving = False
        self._num_failed += 1
        seconds = self._backoff.fail()
        if self._backoff.num_failures >= self._max_failures:
            raise OSError(f"{self._backoff.num_failures} saves in a row failed. {error}") from error
        run.say(f"{sentence(error)} Training continues; the next try is in {seconds:.0f} s")
