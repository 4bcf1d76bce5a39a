"""Formats of published weights that packages above this one read, found by the names of their modules."""

import importlib
from abc import ABC, abstractmethod

from jax.sharding import Mesh

from t5x_like.io.files import PathLike
from t5x_like.model.parameters import ModelConfig, Parameters

_MODULES = ("t5x_like.ancestors.bilm_files",)  # each has a ``FORMAT``


class FurtherFormat(ABC):
    """Format of weights that are opened with a vocabulary, and become a run before anything else uses them."""

    @abstractmethod
    def is_in(self, directory: PathLike) -> bool:
        """Return whether a directory holds weights of this format."""

    @abstractmethod
    def advice(self, directory: PathLike) -> str:
        """Return a sentence that says how weights of this format become a run."""

    @abstractmethod
    def read(
        self,
        directory: PathLike,
        *,
        vocabulary: str = "",
        num_sentinels: int | None = None,
        mesh: Mesh | None = None,
    ) -> tuple[ModelConfig, Parameters]:
        """Read a model and its weights.

        Args:
          directory: Directory that has this format.
          vocabulary: Path of the vocabulary; the one in the directory if not given.
          num_sentinels: Sentinels of the vocabulary; if not given, as many as runs have.
          mesh: Devices to place the weights on; without one, the first device.

        Raises:
          ValueError: The files are of another model, or there is no vocabulary.
        """


def further_format(directory: PathLike) -> FurtherFormat | None:
    """Return the format of a directory that ``weight_sources`` doesn't know itself; ``None`` if there is none."""
    formats: list[FurtherFormat] = [importlib.import_module(module).FORMAT for module in _MODULES]
    return next((each for each in formats if each.is_in(directory)), None)
