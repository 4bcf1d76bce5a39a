"""Answers of one batch of prompts with their rewards and probabilities."""

from typing import NamedTuple

import numpy as np


class Rollout(NamedTuple):
    """Answers of one batch of prompts, as NumPy arrays.

    Attributes:
      mask: float32 [N, L], 1 for the tokens of answers.
      rewards: float32 [N]; not-a-number for answers without one.
      num_answers: Answers to each prompt, which follow each other.
      logps: Log-probabilities of tokens under the model that wrote them [N, L]; ``None`` if the method reads none.
      reference_logps: Those under the reference; ``None`` without one.
      values: Predicted values before each token; ``None`` without a value head.
      log_kl_factor: Logarithm of the factor by which the penalty has changed since the run began.
    """

    mask: np.ndarray
    rewards: np.ndarray
    num_answers: int
    logps: np.ndarray | None
    reference_logps: np.ndarray | None
    values: np.ndarray | None
    log_kl_factor: float = 0.0

    @property
    def is_rewarded(self) -> np.ndarray:
        """True for answers with a reward, bool [N]."""
        return np.isfinite(self.rewards)

    def of_tokens(self, values: np.ndarray) -> np.ndarray:
        """Return numbers of answers, any shape of N elements, as those of all their tokens [N, L]."""
        return np.broadcast_to(values.reshape(-1, 1), self.mask.shape)

    @property
    def kl(self) -> np.ndarray:
        """Estimate of each answer's divergence from the reference: the sum of its tokens' log-ratios, float32 [N].

        Not-a-number where it isn't known.
        """
        if self.logps is None or self.reference_logps is None:
            return np.full(len(self.rewards), np.nan, np.float32)
        return np.sum((self.logps - self.reference_logps) * self.mask, axis=-1)
