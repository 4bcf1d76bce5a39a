"""The golden fixtures of models: where they are, and what in them is to be compared."""

import functools
import json
from typing import Any

import numpy as np

import t5x_like
from tests.references import FIXTURES, GOLDEN

GOLDEN = GOLDEN / "models"
# Of a model that both have, the larger set's is read.
FOLDERS = {
    config.parent.name: config.parent
    for home in (FIXTURES / "models", GOLDEN)
    for config in home.glob("*/config.json")
}


class Fixture:
    """One architecture's weights, inputs, outputs and generated ids."""

    def __init__(self, name: str):
        self.name = name
        self.directory = FOLDERS[name]
        self.meta = json.loads((self.directory / "meta.json").read_text())
        self.io = dict(np.load(self.directory / "io.npz"))

    @functools.cached_property
    def pretrained(self) -> Any:
        """The model, read by us."""
        return t5x_like.from_pretrained(self.directory)

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """Arguments of the model by transformers' names."""
        return {name[3:]: array for name, array in self.io.items() if name.startswith("in_")}

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """What transformers answered."""
        return {name[4:]: array for name, array in self.io.items() if name.startswith("out_")}

    def real(self, name: str, array: np.ndarray) -> np.ndarray:
        """The part of an output that belongs to real tokens."""
        if name == "hidden_states" and self.name.startswith("glm_orig"):
            array = array[:-1]  # GLM's last is from before the final norm
        mask = self.inputs.get("attention_mask")
        if mask is None or mask.ndim != 2 or name.startswith("decoder"):
            return array
        if array.shape[:2] == mask.shape:
            return array[mask == 1]
        if array.shape[1:3] == mask.shape:
            return array[:, mask == 1]
        return array


@functools.cache
def fixture(name: str) -> Fixture:
    """One fixture, read once."""
    return Fixture(name)


def names(recording: str = "") -> list[str]:
    """Every fixture that is one model called once (and records an array of that name); none where they are absent."""
    folders = sorted(FOLDERS.values(), key=lambda folder: folder.name)
    called_once = [
        folder for folder in folders if not folder.name.startswith(("unilm", "transfo", "xlnet", "eps_xlnet"))
    ]
    return [
        folder.name
        for folder in called_once
        if not recording or recording in np.load(folder / "io.npz").files
    ]
