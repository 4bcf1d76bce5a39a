"""Fields and tensors of PEFT's files, taken one by one, so that none is overlooked."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.peft_targets import TargetSelection
from t5x_like.pretrained.peft_weights import Arrays, PublishedModel

_PART = re.compile(
    r"(?:(.*?)\.)?(lora_[AB]\.weight|lora_embedding_[AB]|lora_magnitude_vector(?:\.weight)?|ia3_l|[^.]+)"
)

# Fields that say nothing that the tensors don't say, or that don't change outputs.
_UNREAD_FIELDS = frozenset(
    "peft_type peft_version auto_mapping base_model_name_or_path revision task_type inference_mode modules_to_save "  # noqa: SIM905 - quotes around twenty names would hide them
    "target_modules exclude_modules fan_in_fan_out layers_to_transform layers_pattern bias runtime_config "
    "ephemeral_gpu_offload".split()
)


# Factors that are saved together.
_PAIRS = (("lora_A.weight", "lora_B.weight"), ("lora_embedding_A", "lora_embedding_B"))

_MOST_NAMES = 8  # in a message


class AdapterFields:
    """Fields of an ``adapter_config.json``; those that nothing takes must have values without effect."""

    def __init__(self, fields: Mapping[str, object], *, where: str):
        self._fields = dict(fields)
        self.where = where
        self._read: set[str] = {*_UNREAD_FIELDS}

    def take(self, name: str, default: Any = None) -> Any:
        """Return a field of the adapter's configuration.

        Args:
          name: Name of the field.
          default: Result where the field is null or absent.
        """
        self._read.add(name)
        value = self._fields.get(name)
        return default if value is None else value

    def ignore(self, *names: str) -> None:
        """Accept any values of fields."""
        self._read |= {*names}

    def finish(self) -> None:
        """Check that what was not taken has no effect.

        Raises:
          ValueError: Something has; names it.
        """
        others = {name: value for name, value in self._fields.items() if name not in self._read and value}
        if others:
            listed = ", ".join(f"{name}={value!r}" for name, value in others.items())
            raise ValueError(f"{self.where}: {listed} is not supported; only adapters without it can be read")


class AdapterTensors:
    """An adapter's tensors by module and part, such as ``("bert.pooler.dense", "lora_A.weight")``.

    Attributes:
      model: Model that they are for, without an adapter.
      where: Directory of the tensors, for messages.
    """

    def __init__(self, config: CommonConfig, tensors: Mapping[str, np.ndarray], *, where: str):
        self.model, self.where = PublishedModel(config), where
        self._tensors: dict[tuple[str, str], np.ndarray] = {}
        for name, tensor in tensors.items():
            if ".original_module." in name or ".modules_to_save." in name:
                continue  # repetitions, which bias="all" adds
            name = re.sub(r"^base_model\.(model\.)?", "", name).replace(".base_layer.", ".")
            match = _PART.fullmatch(name)
            assert match is not None
            self._tensors[self.model.spelled(match[1] or ""), match[2]] = tensor

    def require_all(self, fields: AdapterFields) -> None:
        """Check that there is a tensor of every module that the fields name, and of no others.

        Raises:
          ValueError: Tensors are missing, or belong to modules that the fields leave out; lists the names.
        """
        targets, saved = fields.take("target_modules"), fields.take("modules_to_save", [])
        present = {f"{module}.{part}" for module, part in self._tensors}
        needed = [*self.model.weights_in(saved), *(self.model.biases if fields.take("bias") == "all" else ())]
        absent = [name for name in dict.fromkeys(needed) if name not in present]
        if targets is not None:
            selection = TargetSelection(
                where=fields.where,
                target_modules=targets,
                exclude_modules=fields.take("exclude_modules"),
                modules_to_save=saved,
                layers_to_transform=fields.take("layers_to_transform"),
                layers_pattern=fields.take("layers_pattern"),
            )
            absent += self._without_adapter(selection)
        parts = {
            part: {module for module, each in self._tensors if each == part} for _, part in self._tensors
        }
        for one, other in _PAIRS:
            lone = parts.get(one, set()) ^ parts.get(other, set())
            absent += [f"{name}.{one if name in parts.get(other, ()) else other}" for name in sorted(lone)]
        if absent:
            more = f" and {len(absent) - _MOST_NAMES} more" if len(absent) > _MOST_NAMES else ""
            raise ValueError(
                f"{self.where} lacks tensors of {', '.join(absent[:_MOST_NAMES])}{more}, which its adapter_config.json "
                "names; fetch the whole adapter"
            )

    def _without_adapter(self, selection: TargetSelection) -> list[str]:
        """Return the modules that a selection has and that lack tensors.

        Raises:
          ValueError: The selection has no module, or there are tensors of modules that it leaves out.
        """
        selected = self.model.targeted(selection)
        adapted = {module for module, part in self._tensors if module and part.startswith(("lora_", "ia3_"))}
        if not selected and not adapted:
            raise ValueError(
                f"{selection.where}: target_modules={selection.target_modules!r} selects no module of the model"
            )
        others = sorted(name for name in adapted if not self.model.is_in(selection, name))
        if others:
            raise ValueError(
                f"{self.where} has tensors of {', '.join(others[:_MOST_NAMES])}, which its adapter_config.json leaves "
                "out (target_modules, exclude_modules, layers_to_transform), so that PEFT ignores them; delete the "
                "tensors or select the modules"
            )
        whole = {module for module, _ in self._tensors}
        return [name for name in selected if name not in whole]

    def pop(self, part: str) -> Arrays:
        """Return and remove the tensors of one part by module."""
        return {
            module: self._tensors.pop((module, part)) for module, each in list(self._tensors) if each == part
        }

    def pop_whole(self, part: str) -> np.ndarray:
        """Return and remove a tensor of the whole model.

        Raises:
          ValueError: There is none.
        """
        by_row = self.pop(part)
        if "" not in by_row:
            raise ValueError(f"{self.where} lacks {part}; fetch the whole adapter")
        return by_row[""]

    def refuse_own_table(self, modules: Collection[str]) -> None:
        """Refuse a trained copy of an embedding table with which the output layer of the base scores.

        Args:
          modules: Modules that the adapter has whole, ``modules_to_save``.

        Raises:
          ValueError: In PEFT, only the inputs change; here, one table serves both.
        """
        names = {self.model.spelled(name) for name, _ in self._tensors}
        whole = {name for name in names for end in modules if name == end or name.endswith(f".{end}")}
        own_tables = [name for name in sorted(whole) if name in self.model.embeddings and self.model.tied]
        if own_tables and not whole & self.model.tied:
            raise ValueError(
                f"{self.where} has a {own_tables[0]} of its own, and the base scores with the same table "
                "(tie_word_embeddings), which PEFT leaves as it was; train it with ensure_weight_tying=True, or over a "
                "base with an output layer of its own"
            )

    def rest(self) -> Arrays:
        """Return what was not taken, which are weights of the model itself, by our paths."""
        arrays = {f"{module}.{part}".lstrip("."): array for (module, part), array in self._tensors.items()}
        return self.model.read(arrays, where=self.where) if arrays else {}

    def refuse_unlike(
        self, method: str, wanted: Mapping[str, tuple[tuple[int, ...], tuple[int, ...] | None]]
    ) -> None:
        """Check the modules and shapes of an adapter.

        Args:
          method: Name of the method, for messages.
          wanted: Shape of each module, and the one that fits the model; ``None`` for a module that the model lacks.
        """
        tied = sorted(name for name, (_, fits) in wanted.items() if fits is None and name in self.model.tied)
        if tied:
            raise ValueError(
                f"the {method} in {self.where} is on {tied[0]}, which scores with the table of the embeddings here "
                "(tie_word_embeddings) and has no weights of its own; train it over a base with an output layer of its "
                "own, or leave that module out"
            )
        lines = [
            f"{name} is no linear layer of the model"
            if fits is None
            else f"{name}: {has}, the model needs {fits}"
            for name, (has, fits) in wanted.items()
            if has != fits
        ]
        if lines:
            more = [f"… and {len(lines) - 20} more"] if len(lines) > 20 else []
            listed = "".join(f"\n  {line}" for line in lines[:20] + more)
            raise ValueError(
                f"the {method} in {self.where} is for another {type(self.model.config).__name__}:{listed}"
            )
