"""Files of rollouts in a run: the answers that steps still learn from, and samples for people."""

import io
from collections.abc import Sequence

import jax
import numpy as np

from t5x_like.batch import FIELDS, Batch, DeclaredStreams
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import as_path, write_bytes, write_jsonl
from t5x_like.nested_values import json_number
from t5x_like.training.rollouts.rollout import Rollout

SAMPLES = "samples"
_ROLLOUTS = "rollouts"
_NUM_KEPT = 2  # a run that is stopped between two steps of a rollout continues with it
_NUM_SAMPLES = 16


class RolloutFiles:
    """Reads and writes ``rollouts`` and ``samples`` in a run's folder.

    Args:
      model_dir: Folder of the run.
    """

    def __init__(self, model_dir: str) -> None:
        self._rollouts, self._samples = as_path(model_dir) / _ROLLOUTS, as_path(model_dir) / SAMPLES
        self._kept: int | None = None

    def write(self, step: int, rows: Batch) -> None:
        """Keep the rows of a rollout, and remove older ones but for the newest before it.

        Args:
          step: Steps done before the rollout.
          rows: Rows of all its answers.
        """
        if jax.process_index():
            return
        assert rows.declared is not None
        arrays = {name: getattr(rows, name) for name in FIELDS if getattr(rows, name) is not None}
        arrays |= {f"token.{name}": each for name, each in rows.declared.token.items()}
        arrays |= {f"row.{name}": each for name, each in rows.declared.row.items()}
        file = io.BytesIO()
        np.savez(file, **arrays)
        write_bytes(self._rollouts / f"{step:08d}.npz", file.getvalue())
        for path in sorted(self._rollouts.glob("*.npz"))[:-_NUM_KEPT]:
            if path.stem != f"{self._kept or -1:08d}":
                path.unlink()

    def read(self, step: int) -> Batch:
        """Return the rows of a rollout that an earlier process has kept.

        Args:
          step: Steps done before the rollout.

        Raises:
          ValueError: It is not there any more.
        """
        path, self._kept = self._rollouts / f"{step:08d}.npz", step
        if not path.exists():
            raise ValueError(
                f"{path} is missing: the saved step was made in the middle of its answers, which are gone. Continue "
                "from an earlier one by from_step=STEP"
            )
        with refusing_damage(path), np.load(io.BytesIO(path.read_bytes())) as file:
            arrays = dict(file)
        declared: dict[str, dict[str, np.ndarray]] = {"token": {}, "row": {}}
        for name in [each for each in arrays if "." in each]:
            level, _, stream = name.partition(".")
            declared[level][stream] = arrays.pop(name)
        return Batch(**arrays, declared=DeclaredStreams(**declared))

    def write_samples(
        self, step: int, prompts: Sequence[str], texts: Sequence[str], rollout: Rollout
    ) -> None:
        """Write the first answers of a rollout for people, as ``samples/<step>.jsonl``.

        Args:
          step: Steps done before the rollout.
          prompts: Text of each answer's prompt.
          texts: Texts of the answers.
          rollout: Their rewards and divergences.
        """
        if jax.process_index():
            return
        rows = zip(prompts, texts, rollout.rewards.tolist(), rollout.kl.tolist(), strict=True)
        write_jsonl(
            self._samples / f"{step:08d}.jsonl",
            (
                {
                    "step": step,
                    "prompt": prompt,
                    "answer": text,
                    "reward": json_number(reward),
                    "kl": json_number(kl),
                }
                for prompt, text, reward, kl in list(rows)[:_NUM_SAMPLES]
            ),
        )
