"""Waits between tries of work that fails, such as saving to a full disk."""

import time


class Backoff:
    """Doubles the wait after each failure in a row.

    Args:
      first_seconds: Wait after the first failure.
      longest_seconds: Longest wait.

    Attributes:
      num_failures: Failures in a row.
    """

    def __init__(self, first_seconds: float = 10.0, longest_seconds: float = 600.0):
        self._first, self._longest = first_seconds, longest_seconds
        self._retry_at = 0.0
        self.num_failures = 0

    def fail(self) -> float:
        """Count a failure; return the seconds until the next try."""
        seconds = min(self._first * 2**self.num_failures, self._longest)
        self.num_failures += 1
        self._retry_at = time.monotonic() + seconds
        return seconds

    def succeed(self) -> None:
        """End the row of failures."""
        self.num_failures = 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the next try; 0 when it is due, and after a success."""
        return max(self._retry_at - time.monotonic(), 0.0) if self.num_failures else 0.0
