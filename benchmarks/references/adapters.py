"""Adapters that PEFT saved, with their logits over a base model."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import t5x_like
from benchmarks.references.models import read_arrays
from benchmarks.references.reference import ATOL, DifferenceError, Reference, check_close, read_json


class AdapterFolder:
    """An adapter with inputs and logits.

    Attributes:
      adapter: Folder with ``adapter_config.json``.
      io: Recorded arrays: ``in_*`` and ``out_logits``.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        inside = directory / "adapter"
        self.adapter = inside if (inside / "adapter_config.json").is_file() else directory
        self.io = read_arrays(directory / "io.npz")

    @functools.cached_property
    def base(self) -> Path:
        """Folder of the model that the adapter was trained on: beside it, or as its own file names it.

        Raises:
          DifferenceError: There is none.
        """
        named = read_json(self.adapter / "adapter_config.json").get("base_model_name_or_path") or "base"
        parents = (self.directory, *self.directory.resolve().parents[:3])
        places = [
            Path(named),
            *(home / "base" for home in parents[:2]),
            *(home / part / Path(named).name for home in parents for part in ("", "models")),
        ]
        folder = next((place for place in places if (place / "config.json").is_file()), None)
        if folder is None:
            raise DifferenceError(f"its base model {named!r} lies neither beside it nor in a folder models")
        return folder

    def logits(self, pretrained: Any) -> np.ndarray:
        """Return a model's logits for the recorded inputs, at real tokens alone."""
        inputs = {name[3:]: array for name, array in self.io.items() if name.startswith("in_")}
        return self.real(np.asarray(pretrained(**inputs).logits))

    @property
    def recorded(self) -> np.ndarray:
        """Recorded logits at real tokens."""
        return self.real(self.io["out_logits"])

    def real(self, logits: np.ndarray) -> np.ndarray:
        """Return the logits of real tokens; an encoder-decoder's outputs are all real."""
        mask = self.io.get("in_attention_mask")
        if logits.ndim < 3 or mask is None or "in_decoder_input_ids" in self.io:
            return logits
        return logits[mask == 1]

    def check(self) -> None:
        """Compare the logits of the base model with the adapter; or the message, if ``meta.json`` says "refused"."""
        pretrained = t5x_like.from_pretrained(self.base)
        meta = self.directory / "meta.json"
        if meta.is_file() and (words := read_json(meta).get("refused")):
            self._check_refused(pretrained, words)
            return
        pretrained.load_adapter("recorded", self.adapter)
        check_close(self.logits(pretrained), self.recorded, "logits", atol=ATOL)

    def _check_refused(self, pretrained: Any, words: str) -> None:
        try:
            pretrained.load_adapter("recorded", self.adapter)
        except ValueError as error:
            if words not in str(error):
                raise DifferenceError(
                    f"it is refused with another message than {words!r}: {error}"
                ) from error
            return
        raise DifferenceError(f"it is read, and a message with {words!r} was expected")


def adapter(directory: Path) -> Iterator[Reference]:
    """Yield the reference of an adapter."""
    yield Reference("adapters", str(directory), lambda: AdapterFolder(directory).check())
