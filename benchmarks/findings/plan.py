"""The plan of the findings: what is compared, by which measure, with how many seeds; written before the runs."""

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from t5x_like.gin_config.configuration import load_one
from t5x_like.io.files import shipped_directory
from t5x_like.sweep.comparison import Comparison

PLAN = Path(__file__).with_name("plan.toml")
RECIPES = shipped_directory("gin") / "recipes"


class LeftOut(NamedTuple):
    """A comparison that the plan has no runs for.

    Attributes:
      recipe: Gin file, below ``gin/recipes``.
      why: The paper's differences and their noise, if these are too small to show; empty if it only waits for more
        computation.
    """

    recipe: str
    why: str = ""


class Pair(NamedTuple):
    """Two settings whose order a paper reports.

    Attributes:
      better: Setting with the better published score.
      worse: The other setting.
      paper_difference: By how much the published score is better.
    """

    better: str
    worse: str
    paper_difference: float


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A paper's finding, and the runs that decide whether it shows here.

    Attributes:
      name: Name, such as ``t5_objectives``.
      sentence: The paper's conclusion.
      recipe: Gin file of the comparison, below ``gin/recipes``.
      paper: Citation and table.
      smallest: Least published difference of a pair that counts, above the noise of the paper's own scores.
      seeds: Runs of each setting. A pair is decided once, when both settings have them all.
      first_seed: Seed of the first run; another one repeats a finding with fresh runs.
      macros: Values for ``t5x-like sweep --set``, the same for all settings.
      settings: Settings to run; empty for those in the pairs.
      metric: Score to compare; ``None`` for the comparison's.
      held_out_loss: The metric is the first run's loss of held-out text, and there is no second run. For settings with
        the same objective.
    """

    name: str
    sentence: str
    recipe: str
    paper: str
    smallest: float
    seeds: int
    first_seed: int = 0
    macros: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    metric: str | None = None
    held_out_loss: bool = False

    def __post_init__(self) -> None:
        if self.seeds < 3:
            raise ValueError(f"{self.name}: {self.seeds} seeds; an interval needs at least 3")

    def comparison(self) -> Comparison:
        """Return the recipe's comparison of small runs: of the first ones if a loss is compared."""
        compared = self._compared()
        return compared.of_first_run() if self.held_out_loss and compared.then else compared

    def sweep_flags(self, seed: int, text: Path | None) -> list[str]:
        """Return flags for ``t5x-like sweep`` besides settings and folders.

        Args:
          seed: Seed of all runs.
          text: Folder of a corpus, for ``{text}`` in macros.
        """
        macros = [macro.replace("{text}", str(text)) for macro in (*self.macros, f"SEED={seed}")]
        if self._compared().then and not self.held_out_loss:
            macros.append(f"then:SEED={seed}")
        flags = [f"--set={macro}" for macro in macros]
        flags += [f"--metric={self.metric}"] if self.metric else []
        if self.held_out_loss:
            flags += ["--lowest", *(["--first_run_only"] if self._compared().then else [])]
        return flags

    def _compared(self) -> Comparison:
        return load_one([str(self.gin_file)], [], root="", parameter="", macro="COMPARISON").as_toy()

    @property
    def run_seeds(self) -> range:
        """Seeds of the runs."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def needs_text(self) -> bool:
        """True if a macro has ``{text}``, the folder of a corpus."""
        return any("{text}" in macro for macro in self.macros)

    @property
    def gin_file(self) -> Path:
        """Gin file of the comparison."""
        return RECIPES / self.recipe

    def pairs(self, comparison: Comparison) -> list[Pair]:
        """Return the pairs of settings that count, those with the largest published difference first.

        Args:
          comparison: Of ``comparison()``.
        """
        published = {
            setting: -score if comparison.published_lowest else score
            for setting, score in comparison.published.items()
            if setting in comparison.settings and setting in (self.settings or comparison.settings)
        }
        pairs = []
        for one, other in itertools.combinations(published, 2):
            better, worse = (one, other) if published[one] >= published[other] else (other, one)
            difference = round(published[better] - published[worse], 4)
            if difference >= self.smallest and difference:
                pairs.append(Pair(better, worse, difference))
        return sorted(pairs, key=lambda pair: -pair.paper_difference)


def read_plan(file: Path = PLAN) -> list[Finding]:
    """Return the findings of a plan, in the order in which their runs are made.

    Args:
      file: TOML with a table ``macros`` of named groups of macros, and an array ``findings``.
    """
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    groups: Mapping[str, Sequence[str]] = content["macros"]
    return [_finding(entry, groups) for entry in content["findings"]]


def read_left_out(file: Path = PLAN) -> list[LeftOut]:
    """Return the comparisons that the plan has no runs for.

    Args:
      file: TOML with arrays ``waiting`` and ``not_shown``.
    """
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    return [LeftOut(**entry) for entry in (*content["waiting"], *content["not_shown"])]


def _finding(entry: dict[str, Any], groups: Mapping[str, Sequence[str]]) -> Finding:
    macros = [macro for group in entry.pop("groups", ()) for macro in groups[group]]
    tuples: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }
    tuples["macros"] = (*macros, *tuples.get("macros", ()))
    return Finding(**tuples)
