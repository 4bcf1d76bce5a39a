"""Values that flags of the command line give to a configuration."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from t5x_like.gin_config.configuration import Configuration
from t5x_like.gin_config.gin_syntax import as_binding
from t5x_like.gin_config.statements import COMMAND_LINE


class FlagValues(NamedTuple):
    """Names that ``--set`` and ``--gin.`` give a value, without those that a verb adds.

    Attributes:
      macros: Names of macros.
      parameters: Names of parameters, of any class.
    """

    macros: frozenset[str]
    parameters: frozenset[str]

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "FlagValues":
        """Return the names of a verb's flags."""
        bindings = list(map(as_binding, arguments.overrides))
        macros = frozenset(each.name for each in bindings if not each.parameter)
        return cls(macros, frozenset(each.parameter for each in bindings if each.parameter))

    def parameters_of(self, owner: str, loaded: Configuration) -> set[str]:
        """Return the parameters of a class that flags have given a value, in any scope or by a macro.

        Args:
          owner: Name of the class, such as "GenerationConfig".
          loaded: Configuration that was built with the flags.
        """
        by_macro = {f"{COMMAND_LINE} ({name})" for name in self.macros}
        names = set()
        for each in loaded.resolved:
            where, _, parameter = each.name.rpartition(".")
            by_flag = each.origin == COMMAND_LINE and parameter in self.parameters
            if re.split("[./]", where)[-1] == owner and (by_flag or each.origin in by_macro):
                names.add(parameter)
        return names

    def fields_of(self, value: Any, loaded: Configuration, *, owner: str, name: str) -> set[str]:
        """Return the fields of nested settings that flags have given a value; all if a flag gives the whole.

        Args:
          value: The settings, a dataclass.
          loaded: Configuration that was built with the flags.
          owner: Name of the class that has the settings.
          name: Field of that class.
        """
        names = self.parameters_of(type(value).__name__, loaded)
        if names or name not in self.parameters_of(owner, loaded):
            return names
        return {each.name for each in fields(value)}

    def own_search(self, evaluations: Sequence[Any]) -> list[str]:
        """Return bindings of a run's search, where flags give settings that have an effect in this search only.

        Args:
          evaluations: Evaluations of the run.
        """
        search, dependent = {"num_beams", "temperature"}, {"length_penalty_alpha", "top_k", "top_p"}
        generation = next((each.generation for each in evaluations if hasattr(each, "generation")), None)
        if generation is None or self.parameters & search or not self.parameters & dependent:
            return []
        return [f"generator.GenerationConfig.{name}={getattr(generation, name)!r}" for name in sorted(search)]
