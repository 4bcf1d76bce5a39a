"""The reference models: where they are, what in them is to be compared, and our gradients by their names."""

import functools
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.zoo.architectures import architecture_for
from t5x_like.model.zoo.weights import write_weights
from t5x_like.pretrained.checkpoint import family_of
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.open_model import CALLS
from tests.references import FIXTURES, references

# The repository's models are always compared; those of the larger set, where it is, under names with this prefix.
LARGER = "larger/"
LARGER_SET = references() / "models" if references() != FIXTURES else None


class Fixture:
    """One architecture's weights, inputs, outputs, gradients and generated ids."""

    def __init__(self, name: str):
        self.name = name.removeprefix(LARGER)
        folder = LARGER_SET if name.startswith(LARGER) else FIXTURES / "models"
        assert folder is not None
        self.directory = folder / self.name
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

    def gradients(self, arguments: dict[str, Any]) -> dict[str, np.ndarray]:
        """Gradients of the loss for ``arguments``, by the names that weights have in the model's file."""
        pretrained = self.pretrained
        graphdef, params = parameters.split(pretrained.model)
        call = CALLS[family_of(pretrained.model)]
        inputs = call.read(arguments, Context(pretrained.config, pretrained.special_ids))

        @jax.jit
        @jax.grad
        def differentiate(params: Any, inputs: Any) -> Any:
            model = parameters.merge(graphdef, params)
            return call.compute(model, pretrained.config, inputs, False)["loss"]

        table = architecture_for(pretrained.fields, self.name).hugging_face_weights(pretrained.config)
        return dict(write_weights(table, differentiate(params, inputs)))

    def check_gradients(self, arguments: dict[str, Any]) -> None:
        """Compares every gradient that the reference has, and the norm of all."""
        ours = self.gradients(arguments)
        for name in self.meta.get("not_trained", ()):
            ours.pop(name, None)
        norm = np.sqrt(sum(np.sum(np.square(np.float64(array))) for array in ours.values()))
        np.testing.assert_allclose(norm, self.io["grad_global_norm"], rtol=2e-5)
        for name in self.meta["grads"]:
            wanted = self.io[f"grad__{name}"]
            np.testing.assert_allclose(ours[name], wanted, atol=2e-5 * np.abs(wanted).max(), err_msg=name)
        if "grad_params" in self.meta:
            self._check_samples(ours)

    def _check_samples(self, ours: dict[str, np.ndarray]) -> None:
        """Compares the norm of each weight's gradient and the values that ``make_models.py`` kept."""
        assert set(ours) == set(self.meta["grad_params"])
        for number, name in enumerate(self.meta["grad_params"]):
            norm, sample = self.io["grad_norms"][number], self.io["grad_samples"][number]
            # A bias of keys has none: adding a number to all scores changes no softmax, so there is only rounding.
            rounding = 3e-7 * self.io["grad_global_norm"]
            values = np.asarray(ours[name], np.float32).reshape(-1)
            np.testing.assert_allclose(
                np.linalg.norm(values.astype(np.float64)), norm, rtol=2e-5, atol=rounding, err_msg=name
            )
            kept = values[:: max(1, values.size // sample.size)][: sample.size]
            error = 2e-5 * np.abs(values).max() + rounding
            np.testing.assert_allclose(kept, sample[: kept.size], rtol=0, atol=error, err_msg=name)


@functools.cache
def fixture(name: str) -> Fixture:
    """One fixture, read once."""
    return Fixture(name)


def names(recording: str = "", *, larger: bool = True) -> list[str]:
    """Every model that is called once, and of which an array of the name ``recording`` is kept."""
    found = _names_in(FIXTURES / "models", recording)
    if larger and LARGER_SET is not None:
        found += [LARGER + name for name in _names_in(LARGER_SET, recording)]
    return found


def _names_in(folder: Path, recording: str) -> list[str]:
    models = sorted(path.parent for path in folder.glob("*/config.json"))
    return [
        model.name
        for model in models
        if not model.name.startswith(("unilm", "transfo", "xlnet", "eps_xlnet"))
        and (not recording or recording in np.load(model / "io.npz").files)
    ]
