"""Mixtures of tasks, sampled by rates."""

from collections.abc import Callable, Mapping, Sequence

from t5x_like.config_class import changeable, config_class, refuse_unused
from t5x_like.configuration_names import config_function

T5_MAXIMUM = 2**19  # Raffel et al. 2020, §3.5.2: limit of a task's size


@config_class
class Proportional:
    """Examples-proportional mixing: ``min(examples * scale, maximum) ** (1 / temperature)``.

    Raffel et al. 2020, §3.5.2, https://arxiv.org/abs/1910.10683.

    Attributes:
      maximum: Limit of a task's size; None for no limit.
      temperature: 1 keeps the proportions, higher values make rates more equal (mT5 uses 1/0.3).
      scale: Factor of all sizes, before they are compared with ``maximum``.
    """

    maximum: int | None = T5_MAXIMUM
    temperature: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.scale <= 0 or (self.maximum is not None and self.maximum <= 0):
            raise ValueError(f"temperature, scale and maximum must be positive, got {self}")
        if self.maximum is None:
            refuse_unused(self, "scale", because="without a maximum it changes all rates alike")

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
    rates: Proportional | Mapping[str, float] = changeable(default=Proportional())
    left_out: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._leave_out()
        rates = self.fixed_rates
        if not self.tasks:
            object.__setattr__(self, "tasks", tuple(rates or ()))
        if not self.tasks:
            raise ValueError(f"mixture {self.name!r} has no tasks")
        if rates is not None:
            missing = [task for task in self.tasks if task not in rates]
            unknown = [task for task in rates if task not in self.tasks]
            if missing or unknown:
                raise ValueError(
                    f"mixture {self.name!r}: rates lack {missing} and name {unknown}, which are not its tasks"
                )
            if any(rate < 0 for rate in rates.values()) or not any(rates.values()):
                raise ValueError(f"mixture {self.name!r}: rates must not be negative nor all 0: {rates}")

    @property
    def fixed_rates(self) -> Mapping[str, float] | None:
        """Rates by task; None where they follow from numbers of examples."""
        return self.rates if isinstance(self.rates, Mapping) else None

    def rate(self, task: str, count: Callable[[], int]) -> float:
        """Return the rate of a task.

        Args:
          task: Name of the task.
          count: Function that counts the task's training examples, called if the rate follows from them.
        """
        rates = self.rates
        return rates.rate(count()) if isinstance(rates, Proportional) else float(rates[task])

    def _leave_out(self) -> None:
        rates = self.fixed_rates
        named = [*self.tasks, *(rates or ())]
        unknown = [name for name in self.left_out if name not in named]
        if unknown:
            raise ValueError(
                f"mixture {self.name!r}: left_out has {unknown}, and its tasks are {sorted(set(named))}"
            )
        object.__setattr__(self, "tasks", tuple(name for name in self.tasks if name not in self.left_out))
        if rates is not None:
            kept = {name: rate for name, rate in rates.items() if name not in self.left_out}
            object.__setattr__(self, "rates", kept)
        object.__setattr__(
            self, "left_out", ()
        )  # done: a copy, or one from a run's record, has them out already


@config_function
def unimax_rates(sizes: Mapping[str, float], *, budget: float, max_epochs: float = 1.0) -> dict[str, float]:
    """Return rates that are as equal as they can be when no corpus is read more than ``max_epochs`` times.

    UniMax (Chung et al. 2023, algorithm 1, https://arxiv.org/abs/2304.09151). From the smallest corpus to the largest,
    each gets an equal share of the remaining budget, or ``max_epochs`` times its size if that is less.

    >>> unimax_rates({"en": 900, "de": 500, "yo": 20}, budget=1000)
    {'en': 0.49, 'de': 0.49, 'yo': 0.02}

    Args:
      sizes: Size of each corpus by its name, in characters as in the paper, or in any other unit.
      budget: What the whole run reads, in the same unit.
      max_epochs: Limit of how often a corpus is read.

    Returns:
      A rate for each corpus, in the order of ``sizes``; they add up to 1.

    Raises:
      ValueError: There are no sizes, or a number isn't positive.
    """
    if not sizes or min(*sizes.values(), budget, max_epochs) <= 0:
        raise ValueError(
            "unimax_rates needs the sizes of corpora, a budget in the same unit and max_epochs, all positive, got "
            f"sizes={dict(sizes)}, budget={budget}, max_epochs={max_epochs}"
        )
    left, read = float(budget), dict[str, float]()
    for index, name in enumerate(sorted(sizes, key=lambda name: sizes[name])):
        read[name] = min(left / (len(sizes) - index), max_epochs * sizes[name])
        left -= read[name]
    total = sum(read.values())
    return {name: read[name] / total for name in sizes}
