"""Weights of a run: a directory that ``train`` or ``convert`` wrote, or a single step of it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import jax
from jax.sharding import Mesh

from t5x_like.checkpoints.checkpoints import lazy_params, restore_step
from t5x_like.checkpoints.state_names import describe, refuse_differences
from t5x_like.checkpoints.steps import absolute, find_checkpoints, finished_steps
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import adapter_paths
from t5x_like.model.lazy_array import LazyArray, put_on_devices
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.partitioning.shard import with_shardings
from t5x_like.pretrained.fresh_heads import missing_heads, with_fresh_weights
from t5x_like.pretrained.frozen_weights import FrozenRecord, read_frozen_record
from t5x_like.pretrained.head_classes import classes_at
from t5x_like.pretrained.model_config import read_model_config
from t5x_like.text.batches.loader_config import PrefixAttention
from t5x_like.text.heads.input_format import InputFraming
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.chat_preferences import ChatPreferenceTask
from t5x_like.text.tasks.chat_templates import ChatTemplate
from t5x_like.text.vocabularies.opening import BYTES

_SOURCE_FIELDS = "source_config.json"
_CHATS = tuple(kind.__name__ for kind in (ChatTask, ChatPreferenceTask))


@dataclass(frozen=True, kw_only=True)
class RunWeights:
    """Saved weights of a run, which are not yet read.

    Attributes:
      directory: Directory of the run, with ``model.json``, or a folder of steps without one.
      step: Step to read; ``None`` for the newest that is whole.
      saved: Configuration that the weights were saved with; ``None`` without ``model.json``.
      config: Configuration to read the weights for. Only heads may differ from ``saved``, and an adapter may be new.
      frozen: Record of weights that the run did not train, and did not save; ``None`` if it trained all.
      part: Part to read: "params", or "average" for the moving average of its weights that the run has kept.
    """

    directory: str
    step: int | None
    saved: Any
    config: Any
    frozen: FrozenRecord | None = None
    part: Literal["params", "average"] = "params"

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the ``config.json`` that it was converted from; empty for a run that was trained here."""
        return source_fields(self.directory)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes of its head; none if there are none."""
        return classes_at(self.directory)

    def read(
        self,
        mesh: Mesh | None = None,
        *,
        draw_heads: bool = False,
        seed: int = 0,
        frozen: parameters.Parameters | None = None,
    ) -> tuple[int, parameters.Parameters]:
        """Return the step that was read and its weights, float32, sharded over ``mesh`` if there is one.

        Args:
          mesh: Devices to place the weights on.
          draw_heads: Draw heads that were not saved, or in another shape, with a warning. An adapter that the run lacks
            is always drawn, without a warning.
          seed: Seed of freshly drawn weights.
          frozen: Weights that ``self.frozen`` describes.

        Raises:
          FileNotFoundError: There is no such step.
          ValueError: No step is whole, or the weights don't fit the configuration; lists all that differs.
        """
        like = self._abstract(self.config, mesh)
        heads, adapters = self._fresh(like)
        if not heads and not adapters and not self._is_part:
            return self._restore(like, frozen or {})
        if heads and not draw_heads:
            raise ValueError(missing_heads(self.directory, heads, self.config, self.saved))
        step, restored = self._restore(self._abstract(self.saved, mesh), frozen or {})
        saved, wanted = self._taken(parameters.flatten(restored)), parameters.flatten(like)

        def place(path: str, array: LazyArray) -> jax.Array:
            return put_on_devices(array, wanted[path].sharding)

        kept = {path: saved[path] for path in wanted if path not in heads and path not in adapters}
        return step, with_fresh_weights(
            self.config,
            parameters.unflatten(kept),
            heads=heads,
            adapters=adapters,
            where=self.directory,
            seed=seed,
            place=place,
        )

    def fresh_heads(self) -> tuple[str, ...]:
        """Return the paths of the heads' weights that the run lacks."""
        return self._fresh(self._abstract(self.config, None))[0]

    @contextmanager
    def unread(self) -> Iterator[parameters.Parameters]:
        """Yield the weights as arrays that stay on disk; each use reads them.

        Raises:
          FileNotFoundError, ValueError: The weights are refused for the reasons that ``read`` has.
        """
        with lazy_params(
            self.directory, self._abstract(self.config, None), step=self.step, part=self.part
        ) as params:
            yield params

    def _restore(
        self, like: parameters.Parameters, frozen: parameters.Parameters
    ) -> tuple[int, parameters.Parameters]:
        """Read the saved weights, and add the frozen ones."""
        if self.frozen is None:
            return restore_step(self.directory, like, step=self.step, part=self.part)
        selection = self.frozen.selection(like)
        in_place, trained = parameters.partition(like, selection)
        present, wanted = parameters.flatten(frozen), parameters.flatten(in_place)
        refuse_differences(
            describe(present), describe(wanted), where=f"the frozen weights of {self.directory}"
        )
        step, params = restore_step(self.directory, trained, step=self.step, part=self.part)
        return step, parameters.combine(frozen, params, selection)

    def _abstract(self, config: CommonConfig, mesh: Mesh | None) -> Parameters:
        _, shapes, axes = parameters.abstract(config)
        return shapes if mesh is None else with_shardings(axes, shapes, mesh)

    def _taken(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        return traits_of(self.config).taken_from(self.saved, saved)

    @property
    def _is_part(self) -> bool:
        """True if the model has a part of the saved weights, or others of their paths."""
        if self.saved is None or self.saved == self.config:
            return False
        shapes = parameters.flatten(parameters.abstract(self.saved)[1])
        return self._taken(shapes).keys() != shapes.keys()

    def _fresh(self, like: Parameters) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Paths of heads and of adapters to draw: none where the rest differs too, which restoring then refuses."""
        if self.saved is None or self.saved == self.config:
            return (), ()
        shapes = self._taken(parameters.flatten(parameters.abstract(self.saved)[1]))
        fresh = [
            path
            for path, leaf in parameters.flatten(like).items()
            if path not in shapes or shapes[path].shape != leaf.shape
        ]
        of_adapter = adapter_paths(self.config)
        adapters = tuple(path for path in fresh if path in of_adapter)
        heads = tuple(path for path in fresh if path not in of_adapter)
        return (heads, adapters) if all(path.startswith("heads/") for path in heads) else ((), ())


def find_run(directory: PathLike) -> tuple[str, int | None] | None:
    """Return the run directory (with ``model.json``) that ``directory`` is or belongs to, and its step if it is one.

    ``directory`` may be a run, its folder ``checkpoints``, or a single step; ``None`` if it is none of these.
    """
    if (as_path(directory) / "model.json").exists():
        return str(directory), None
    path = absolute(directory)
    if not path.is_dir():
        return None
    folder, step = find_checkpoints(path)
    if step is None and path.name != "checkpoints":
        return None
    home = next((home for home in (folder, folder.parent) if (home / "model.json").exists()), None)
    return None if home is None else (str(home), step)


def find_run_weights(directory: PathLike, *, step: int | None = None) -> RunWeights:
    """Find the weights of a run, without reading them.

    Args:
      directory: Directory of the run, its folder of checkpoints, or one of its steps.
      step: Step of the run; the newest good one if not given.

    Raises:
      ValueError: The directory is no run, or its model is not one that this version knows.
    """
    home, own_step = find_run(directory) or (str(directory), None)
    config = read_model_config(home)
    return RunWeights(
        directory=home,
        step=own_step if step is None else step,
        saved=config,
        config=config,
        frozen=read_frozen_record(home),
    )


def steps_of(directory: PathLike) -> list[int]:
    """Return the finished steps of a run, in ascending order."""
    return finished_steps(find_checkpoints(absolute(directory))[0])


def was_trained_here(directory: PathLike) -> bool:
    """Return whether ``train`` wrote a directory; a conversion has no ``config.json``."""
    return all((as_path(directory) / name).exists() for name in ("model.json", "config.json"))


def write_source_fields(directory: PathLike, fields: Mapping[str, object]) -> None:
    """Write the ``config.json`` that a conversion was read from: special ids and what else the weights don't say.

    Args:
      directory: Folder of the run.
      fields: Contents of the ``config.json``.
    """
    write_json(as_path(directory) / _SOURCE_FIELDS, dict(fields))


def source_fields(directory: PathLike) -> dict[str, Any]:
    """Read what ``write_source_fields`` wrote; empty for a run that was trained here, which has its own ids."""
    path = as_path(directory) / _SOURCE_FIELDS
    return read_json(path, dict) if path.exists() and not was_trained_here(directory) else {}


def trained_on(directory: PathLike) -> str:
    """Return the task or mixture that a run was trained on; an empty string for what was not trained here."""
    if not was_trained_here(directory):
        return ""
    return str(read_json(as_path(directory) / "config.json", dict).get("train.mixture", ""))


def trained_to_write(directory: PathLike) -> bool:
    """Return whether a run trained an encoder to write, by ``LoaderConfig.masked_targets``."""
    return was_trained_here(directory) and "train.masked_targets.is" in read_json(
        as_path(directory) / "config.json", dict
    )


def trained_to_predict_next(directory: PathLike) -> bool:
    """Return whether a run's masked tokens were predicted from the position before, by ``MaskedLM.predicted_from``."""
    return was_trained_here(directory) and "previous" in _values_of_tasks(
        directory, r"objective\.predicted_from"
    )


def trained_prefix_attention(directory: PathLike) -> PrefixAttention:
    """Return ``LoaderConfig.prefix_attention`` of a run; the default for what was not trained here."""
    described = read_json(as_path(directory) / "config.json", dict) if was_trained_here(directory) else {}
    return "causal" if described.get("train.prefix_attention") == "causal" else "bidirectional"


def trained_from_first_token(directory: PathLike) -> bool:
    """Return whether a decoder's rows began with the first token of their inputs, with no id shifted in before it.

    Those of conversations always do.
    """
    if not was_trained_here(directory):
        return False
    kinds = _values_of_tasks(directory, "is") - {"Mixture"}
    is_causal = trained_prefix_attention(directory) == "causal"
    return (is_causal and kinds != {"PretrainingTask"}) or (bool(kinds) and kinds <= {*_CHATS})


def trained_with_sentinels(directory: PathLike) -> int | None:
    """Return ``num_sentinels`` of a run's tasks: 100 if they differ, ``None`` for what was not trained here."""
    if not was_trained_here(directory):
        return None
    values = _values_of_tasks(directory, "num_sentinels")
    return values.pop() if len(values) == 1 else 100


def trained_with_vocabulary(directory: PathLike) -> str:
    """Return the vocabulary of a run's tasks; an empty string if they differ, or it was not trained here."""
    values = _values_of_tasks(directory, "vocabulary") if was_trained_here(directory) else set()
    return values.pop() if len(values) == 1 else ""


def trained_with_framing(directory: PathLike) -> InputFraming | None:
    """Return the framing of a run's tasks; ``None`` if there is none, they differ, or it was not trained here."""
    if not was_trained_here(directory):
        return None
    names = [field.name for field in fields(InputFraming)]
    values_by_name = {name: _values_of_tasks(directory, rf"framing\.{name}") for name in names}
    if any(len(values) != 1 for values in values_by_name.values()):
        return None
    return InputFraming(**{name: values.pop() for name, values in values_by_name.items()})


def trained_chat(directory: PathLike) -> ChatTask | None:
    """Return a task with the chat template that a run learned; ``None`` without one, or if its tasks differ."""
    if not was_trained_here(directory):
        return None
    described = read_json(as_path(directory) / "config.json", dict)
    tasks: list[ChatTask] = []
    for name, kind in described.items():
        if re.fullmatch(r"tasks\.\d+\.is", name) and kind in _CHATS:
            fields = _below(described, name.removesuffix("is"))
            template = fields.get("template") or ChatTemplate(
                turns=_below(fields, "template.turns."),
                special=tuple(_below(fields, "template.special.").values()),
                **{field: fields[f"template.{field}"] for field in ("start", "answering_role", "strip")},
            )
            special_ids = _below(fields, "special_ids.")
            tasks.append(
                ChatTask(
                    name="chat",
                    vocabulary=BYTES,
                    files={"train": ""},
                    template=template,
                    special_ids=special_ids,
                )
            )
    return tasks[0] if tasks and tasks == tasks[:1] * len(tasks) else None


def _below(described: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in described.items() if name.startswith(prefix)}


def _values_of_tasks(directory: PathLike, field: str) -> set[Any]:
    described = read_json(as_path(directory) / "config.json", dict)
    return {value for name, value in described.items() if re.fullmatch(rf"tasks\.\d+\.{field}", name)}
