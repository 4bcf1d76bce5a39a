"""Models in Hugging Face's format, with outputs, gradients and generated ids of transformers."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import t5x_like
from benchmarks.references.generation import check_generation, has_generation
from benchmarks.references.reference import ATOL, DifferenceError, Reference, check_close, read_json
from benchmarks.references.segments import check_segments, has_segments
from t5x_like.model import parameters
from t5x_like.model.zoo.architectures import architecture_for
from t5x_like.model.zoo.weights import write_weights
from t5x_like.pretrained.checkpoint import family_of
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.open_model import CALLS

# Other names of arrays in some recordings.
_ALIASES = {
    "ids": "in_input_ids",
    "am": "in_attention_mask",
    "dec": "in_decoder_input_ids",
    "out": "out_logits",
    "logits": "out_logits",
}
_NEEDED = ("logits", "start_logits", "end_logits", "prediction_logits")


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """Read recorded arrays: ``in_*`` for arguments, ``out_*`` for outputs."""
    with np.load(file) as arrays:
        return {str(_ALIASES.get(name, name)): array for name, array in arrays.items()}


class ModelFolder:
    """A model's weights, inputs, outputs, gradients and generated ids.

    Attributes:
      directory: The folder.
      name: Its name.
      meta: What its ``meta.json`` says; empty without one.
      io: Recorded arrays by name. Another container of the same weights has those of the folder that it names.
    """

    def __init__(self, directory: Path):
        self.directory, self.name = directory, directory.name
        meta = directory / "meta.json"
        self.meta: dict[str, Any] = read_json(meta) if meta.is_file() else {}
        recording = directory / "io.npz"
        if not recording.is_file() and "same_outputs_as" in self.meta:
            recording = directory.parent.parent / Path(self.meta["same_outputs_as"]).name / "io.npz"
        self.io = read_arrays(recording) if recording.is_file() else {}

    @functools.cached_property
    def pretrained(self) -> Any:
        """The model, read by us."""
        return t5x_like.from_pretrained(self.directory)

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """Arguments of the model by transformers' names."""
        return {name[3:]: array for name, array in self.io.items() if name.startswith("in_")}

    @property
    def arguments(self) -> dict[str, np.ndarray]:
        """Arguments of a call here; GLM's own names are replaced."""
        arguments = self.inputs
        if "sep" in arguments:
            arguments["attention_mask"] = arguments.pop("sep")
            arguments["labels"] = np.where(arguments.pop("loss_mask") == 1, arguments.pop("targets"), -100)
        return arguments

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """What transformers answered."""
        return {name[4:]: array for name, array in self.io.items() if name.startswith("out_")}

    def real(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return the part of an output that belongs to real tokens."""
        if name == "hidden_states" and self.name.startswith("glm_orig"):
            array = array[:-1]  # GLM's last is from before the final norm
        mask = self.inputs.get("attention_mask")
        is_of_decoder = name.startswith("decoder") or (
            "decoder_input_ids" in self.inputs and not name.startswith("encoder")
        )
        if mask is None or mask.ndim != 2 or is_of_decoder:
            return array
        if array.shape[:2] == mask.shape:
            return array[mask == 1]
        if array.shape[1:3] == mask.shape:
            return array[:, mask == 1]
        return array

    def check_outputs(self, *, atol: float = ATOL) -> None:
        """Compare every output that the reference and we have."""
        answers = self.pretrained(**self.arguments, output_hidden_states=True)
        compared = 0
        for name, wanted in self.outputs.items():
            if name in answers:
                got = np.stack(answers[name]) if isinstance(answers[name], tuple) else answers[name]
                check_close(self.real(name, got), self.real(name, wanted), name, atol=atol)
                compared += 1
            elif name in _NEEDED:
                raise DifferenceError(f"{name} is recorded, and our outputs are {', '.join(answers)}")
        if compared < (2 if len(self.outputs) > 1 else 1):
            raise DifferenceError(f"only {compared} of the outputs {', '.join(self.outputs)} are ours, too")

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
            return call.compute(model, pretrained.config, inputs)["loss"]

        table = architecture_for(pretrained.fields, self.name).hugging_face_weights(pretrained.config)
        return dict(write_weights(table, differentiate(params, inputs)))

    def check_gradients(self, arguments: dict[str, Any]) -> None:
        """Compare every gradient that the reference has, and the norm of all."""
        gradients = self.gradients(arguments)
        for name in self.meta.get("not_trained", ()):
            gradients.pop(name, None)
        norm = np.sqrt(sum(np.sum(np.square(np.float64(array))) for array in gradients.values()))
        check_close(norm, self.io["grad_global_norm"], "norm of all gradients", atol=0.0, rtol=2e-5)
        for key, wanted in self.io.items():
            if key.startswith("grad__"):
                name = key.removeprefix("grad__")
                if name not in gradients:
                    raise DifferenceError(
                        f"the gradient of {name} is recorded, and no weight of ours has this name"
                    )
                error = 2e-5 * np.abs(wanted).max()
                check_close(gradients[name], wanted, f"gradient of {name}", atol=error, rtol=1e-7)
        if "grad_params" in self.meta:
            self._check_samples(gradients)

    def _check_samples(self, gradients: dict[str, np.ndarray]) -> None:
        """Compare the norm of each weight's gradient, and the values that ``make_models.py`` kept."""
        recorded = dict(zip(self.meta["grad_params"], self.io["grad_norms"], strict=True))
        # Sinusoids are a constant weight there, and no weight of ours.
        constants = {name for name, norm in recorded.items() if norm == 0 and name not in gradients}
        if set(gradients) != set(recorded) - constants:
            raise DifferenceError(
                f"weights with gradients differ: {set(gradients) ^ (set(recorded) - constants)}"
            )
        for index, name in enumerate(recorded):
            if name in constants:
                continue
            norm, sample = self.io["grad_norms"][index], self.io["grad_samples"][index]
            # A bias of keys has none: adding a number to all scores changes no softmax, so there is only rounding.
            rounding = float(3e-7 * self.io["grad_global_norm"])
            values = np.asarray(gradients[name], np.float32).reshape(-1)
            own = np.linalg.norm(values.astype(np.float64))
            check_close(own, norm, f"norm of the gradient of {name}", atol=rounding, rtol=2e-5)
            kept = values[:: max(1, values.size // sample.size)][: sample.size]
            error = 2e-5 * np.abs(values).max() + rounding
            check_close(kept, sample[: kept.size], f"gradient of {name}", atol=error, rtol=0)


def model(directory: Path) -> Iterator[Reference]:
    """Yield the references of a model: its outputs, gradients and generated ids, as far as they are recorded."""
    folder = ModelFolder(directory)

    def reference(part: str, compare: Any) -> Reference:
        return Reference("models", f"{directory} {part}", compare)

    if not any(directory.glob("*.safetensors")):
        yield reference("refusal", lambda: check_refused(directory))
    elif has_segments(folder):
        yield reference("outputs", lambda: check_segments(folder, atol=ATOL))
    else:
        yield reference("outputs", folder.check_outputs)
        if "grad_global_norm" in folder.io:
            yield reference("gradients", lambda: folder.check_gradients(folder.arguments))
        if has_generation(folder):
            yield reference("generation", lambda: check_generation(folder))


def check_refused(directory: Path) -> None:
    """Check that pickled weights, which could run any program, are refused.

    Raises:
      DifferenceError: They are read, or something else is wrong.
    """
    try:
        t5x_like.from_pretrained(directory)
    except ValueError as error:
        if "pickled" not in str(error):
            raise DifferenceError(f"refused for another reason than pickled weights: {error}") from error
        return
    raise DifferenceError("pickled weights are read")
