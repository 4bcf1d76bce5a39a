"""Several tasks as one, by rates."""

from collections.abc import Mapping, Sequence

from t5x_like.config_class import config_class

T5_MAXIMUM = 2**19  # Raffel et al. 2020, §3.5.2: larger tasks count as this large


@config_class
class Proportional:
    """Examples-proportional mixing: ``min(examples * scale, maximum) ** (1 / temperature)``.

    Temperature 1 keeps the proportions, higher ones even them out (Raffel et al. 2020, §3.5.2; mT5 uses
    1/0.3).
    """

    maximum: int | None = T5_MAXIMUM
    temperature: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.scale <= 0 or (self.maximum is not None and self.maximum <= 0):
            raise ValueError(f"temperature, scale and maximum must be positive, got {self}")

    def rate(self, num_examples: int) -> float:
        """The rate of a task of ``num_examples``."""
        size = num_examples * self.scale
        if self.maximum is not None:
            size = min(size, self.maximum)
        return float(size) if self.temperature == 1.0 else size ** (1.0 / self.temperature)


@config_class
class Mixture:
    """Tasks drawn from by rate.

    ``tasks`` are names, their rates set by ``rates``: proportional to their training examples where not
    given, or a dict of name to number. Rate 0 leaves a task out of training but in evaluation.
    """

    name: str
    tasks: Sequence[str]
    rates: Proportional | Mapping[str, float] = Proportional()

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ValueError(f"mixture {self.name!r} has no tasks")
        if isinstance(self.rates, Mapping):
            missing = [task for task in self.tasks if task not in self.rates]
            unknown = [task for task in self.rates if task not in self.tasks]
            if missing or unknown:
                raise ValueError(
                    f"mixture {self.name!r}: rates lack {missing} and name {unknown} that it has not"
                )
            if any(rate < 0 for rate in self.rates.values()) or not any(self.rates.values()):
                raise ValueError(f"mixture {self.name!r}: rates must not be negative nor all 0: {self.rates}")
