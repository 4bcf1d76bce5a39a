"""Mixtures of tasks, sampled by rates."""

from collections.abc import Mapping, Sequence

from t5x_like.config_class import config_class

T5_MAXIMUM = 2**19  # Raffel et al. 2020, §3.5.2: limit of a task's size


@config_class
class Proportional:
    """Examples-proportional mixing: ``min(examples * scale, maximum) ** (1 / temperature)``.

    Raffel et al. 2020, §3.5.2, https://arxiv.org/abs/1910.10683.

    Attributes:
      maximum: Limit of a task's size; None for no limit.
      temperature: 1 keeps the proportions, higher values make rates more equal (mT5 uses 1/0.3).
      scale: Factor of all sizes.
    """

    maximum: int | None = T5_MAXIMUM
    temperature: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.scale <= 0 or (self.maximum is not None and self.maximum <= 0):
            raise ValueError(f"temperature, scale and maximum must be positive, got {self}")

    def rate(self, num_examples: int) -> float:
        """Return the rate of a task of ``num_examples``."""
        size = num_examples * self.scale
        if self.maximum is not None:
            size = min(size, self.maximum)
        return float(size) if self.temperature == 1.0 else size ** (1.0 / self.temperature)


@config_class
class Mixture:
    """Tasks that are sampled by rates.

    Attributes:
      name: Name in the registry.
      tasks: Names of the tasks; by default those that ``rates`` names.
      rates: Rate of each task; by default proportional to its training examples. A task of rate 0 is used in
        evaluation only.
      left_out: Tasks to leave out of ``tasks`` and ``rates``, such as the one to fine-tune on afterwards.
    """

    name: str
    tasks: Sequence[str] = ()
    rates: Proportional | Mapping[str, float] = Proportional()
    left_out: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._leave_out()
        if not self.tasks and isinstance(self.rates, Mapping):
            object.__setattr__(self, "tasks", tuple(self.rates))
        if not self.tasks:
            raise ValueError(f"mixture {self.name!r} has no tasks")
        if isinstance(self.rates, Mapping):
            missing = [task for task in self.tasks if task not in self.rates]
            unknown = [task for task in self.rates if task not in self.tasks]
            if missing or unknown:
                raise ValueError(
                    f"mixture {self.name!r}: rates lack {missing} and name {unknown}, which are not its tasks"
                )
            if any(rate < 0 for rate in self.rates.values()) or not any(self.rates.values()):
                raise ValueError(f"mixture {self.name!r}: rates must not be negative nor all 0: {self.rates}")

    def _leave_out(self) -> None:
        named = [*self.tasks, *(self.rates if isinstance(self.rates, Mapping) else ())]
        unknown = [name for name in self.left_out if name not in named]
        if unknown:
            raise ValueError(
                f"mixture {self.name!r}: left_out has {unknown}, and its tasks are {sorted(set(named))}"
            )
        object.__setattr__(self, "tasks", tuple(name for name in self.tasks if name not in self.left_out))
        if isinstance(self.rates, Mapping):
            kept = {name: rate for name, rate in self.rates.items() if name not in self.left_out}
            object.__setattr__(self, "rates", kept)
        object.__setattr__(
            self, "left_out", ()
        )  # done: a copy, or one from a run's record, has them out already
