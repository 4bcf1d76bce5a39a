"""Forms of references, recognized by what their files hold."""

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.references.reference import Reference
from t5x_like.model.zoo.architectures import by_model_type

# Files that belong to a folder of another form, or say something about it.
_COMPANIONS = ("meta.json", "results.json", "generation_config.json")

# Values of ``model_type`` of models that read or write speech.
_SPEECH = ("speecht5",)


class Form(NamedTuple):
    """A form of files.

    Attributes:
      function: ``module.function`` that returns the references of a file.
      matches: Returns whether a file holds the form, given its content: a JSON value, or the first row of JSONL.
    """

    function: str
    matches: Callable[[Any], bool]


class NoForm(NamedTuple):
    """A file or folder that is compared with nothing.

    Attributes:
      path: The file or folder.
      reason: What is missing.
    """

    path: Path
    reason: str


def _has(*keys: str) -> Callable[[Any], bool]:
    """Return a test for an object, or the first one of a list, with these keys."""

    def matches(content: Any) -> bool:
        first = content[0] if isinstance(content, list) and content else content
        return isinstance(first, dict) and set(keys) <= first.keys()

    return matches


def _has_columns(*names: str) -> Callable[[Any], bool]:
    def matches(content: Any) -> bool:
        return isinstance(content, dict) and set(names) <= {*content.get("columns", ())}

    return matches


def _has_values(*keys: str) -> Callable[[Any], bool]:
    """Return a test for an object of objects with these keys."""

    def matches(content: Any) -> bool:
        return isinstance(content, dict) and bool(content) and all(map(_has(*keys), content.values()))

    return matches


_JSONL = (
    Form("metrics.scores", _has("metric", "targets", "predictions", "scores")),
    Form("metrics.postprocessors", _has("postprocessor", "args", "kwargs")),
    Form("tasks.rows", _has("t5_task", "raw")),
    Form("pages.tagged_pages", _has("clean_text", "clean_counters", "lines")),
    Form("pages.random_pages", _has("clean_text", "counters", "dropped")),
    Form("pages.sentences", _has("sentences", "text")),
)
_JSON = (
    Form("generation.calls", _has("model", "prompts", "settings", "sequences")),
    Form("metrics.normalized_answers", _has("normalize_squad", "normalize_trivia_qa")),
    Form("metrics.averages", _has("groups", "cases")),
    Form("tasks.super_glue_lines", _has("config", "jsonl", "out")),
    Form("objectives.helper_lengths", _has_columns("inputs_length", "tokens_length", "targets_length")),
    Form("objectives.masks", _has_columns("length", "mask")),
    Form("objective_examples.examples", _has("map_seed", "sequences", "objectives")),
    Form("objective_examples.task_examples", _has("seqio_task_seed", "docs", "tasks")),
    Form("objectives.statistics", _has_values("inputs_len_568")),
    Form("packing.packed_rows", _has("feature_lengths", "in", "packed")),
    Form("packing.converted_rows", _has("converter", "in", "out")),
    Form("packing.shifted_rows", _has("sequence_id", "targets", "out")),
    Form("packing.rates", _has("sizes", "configs")),
    Form("packing.mixtures", _has_values("rates", "normalized")),
    Form("pages.bad_words", _has("badwords", "cases")),
    Form("pages.languages", _has("toy_badwords", "langdetect")),
    Form("pages.urls", _has("url", "normalized", "md5_mod_1000")),
    Form("pages.crawled_urls", _has("url", "normalized_url", "timestamp")),
    Form("corpora.duplicate_lines", _has("in", "hashes", "results")),
    Form("corpora.duplicate_spans", _has("source", "in", "results")),
    Form("corpora.built", _has("toy_badwords_en", "configs")),
)


def find_references(path: Path) -> Iterator[Reference | NoForm]:
    """Yield the references of a file or folder, and of the folders in it, and what has no form."""
    if path.is_file():
        yield from _of_file(path)
        return
    form = _form_of_folder(path)
    if isinstance(form, NoForm):
        yield form
    elif form is not None:
        yield from _load(form)(path)
    else:
        for child in sorted(path.iterdir()):
            is_data = child.suffix in (".json", ".jsonl", ".npz") and child.name not in _COMPANIONS
            if not child.name.startswith((".", "__")) and (child.is_dir() or is_data):
                yield from find_references(child)


def _form_of_folder(folder: Path) -> str | NoForm | None:
    """Return the function for a folder that is one reference; None for one that holds others."""
    has_values = (folder / "io.npz").is_file()
    if has_values and any((home / "adapter_config.json").is_file() for home in (folder, folder / "adapter")):
        return "adapters.adapter"
    if (folder / "config.json").is_file():
        return _form_of_model(folder, has_values=has_values)
    if has_values and (form := _form_of_arrays(folder / "io.npz")):
        return form
    if has_values or (folder / "results.json").is_file():
        return NoForm(
            folder, "its io.npz or results.json belong to no model, adapter or data that we compare"
        )
    return None


def _form_of_arrays(path: Path) -> str | None:
    """Return the function for a folder of several models, or of none, by the names of its recorded arrays."""
    with np.load(path) as arrays:
        names = {*arrays.files}
    if names & {"out_policy_logps", "out_policy_chosen_logps"}:
        return "preferences.direct"
    if "out_grpo_advantages" in names:
        return "policy_gradients.policy_gradients"
    if "out_attribution" in names:
        return "analysis.attribution"
    if "in_vectors" in names:
        return "analysis.vectors"
    return "preferences.reward" if "out_chosen_score" in names else None


def _form_of_model(folder: Path, *, has_values: bool) -> str | NoForm:
    model_type = json.loads((folder / "config.json").read_text()).get("model_type")
    if model_type not in by_model_type():
        return NoForm(folder, f"we have no architecture of model_type {model_type!r}")
    if has_values or (folder / "meta.json").is_file() or any(folder.glob("*.bin")):
        return "speech.model" if model_type in _SPEECH else "models.model"
    return NoForm(folder, "a model without recorded outputs (io.npz)")


def _of_file(path: Path) -> Iterator[Reference | NoForm]:
    form = _form_of_file(path)
    if form is None:
        yield NoForm(path, "its content is of no form that we compare")
    else:
        yield from _load(form)(path)


def _form_of_file(path: Path) -> str | None:
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return "recurrent.layer" if {"in_x", "weight_weight_hh_l0"} <= {*arrays.files} else None
    with path.open(encoding="utf-8") as stream:
        try:
            content = json.loads(stream.readline() if path.suffix == ".jsonl" else stream.read())
        except ValueError:
            return None
    forms = _JSONL if path.suffix == ".jsonl" else _JSON
    return next((form.function for form in forms if form.matches(content)), None)


def _load(function: str) -> Callable[[Path], Iterator[Reference]]:
    """Return a function of one of our modules; seqio's forms import TensorFlow, which models don't need."""
    module, _, name = function.partition(".")
    return getattr(import_module(f"benchmarks.references.{module}"), name)
