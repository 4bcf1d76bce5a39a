"""Records of runs and names of fields that earlier versions wrote, in the form of this one."""

from collections.abc import Mapping
from typing import Any

from t5x_like.config_class import renamed_fields

_CLASS = "$class"
_DISTILLATION = "distillation."
_PACKAGE = "t5x_like.training"

# Classes that have another module now.
_MOVED_CLASSES = {
    f"{_PACKAGE}.experiment:Intervals": f"{_PACKAGE}.run_config:Intervals",
    f"{_PACKAGE}.losses.distillation:Distillation": f"{_PACKAGE}.methods.distillation:Distillation",
}

# Packages of modules that are in the ancestors' package now, theirs there, and the modules' names.
_ANCESTORS = (
    ("model.zoo", "zoo", "awd_lstm bcn bilstm elmo rnn_config rnn_seq2seq"),
    (
        "model.families",
        "families",
        "bidirectional_language_model pretrained_features rnn_encoder rnn_encoder_decoder rnn_language_model",
    ),
    (
        "model.layers",
        "layers",
        "biattention character_cnn rnn_attention rnn_cell rnn_stack sampled_softmax scalar_mix",
    ),
    (
        "word_vectors",
        "word_vectors",
        "character_table glove initial_table skip_gram training_batches vector_benchmarks vector_files word_text "
        "word_vectors",
    ),
    ("pretrained", "", "initial_features"),
    ("training.start", "", "pretrained_inputs"),
    ("text.objectives", "", "bidirectional_lm"),
)
_MOVED_MODULES = {
    f"t5x_like.{before}.{name}": ".".join(filter(None, ("t5x_like.ancestors", now, name)))
    for before, now, names in _ANCESTORS
    for name in names.split()
}
_DATA = ("train", "tasks", "validations", "evaluations", "num_microbatches", "batch_size_ramp")
_RUN = (
    "model_dir",
    "total_steps",
    "intervals",
    "hooks",
    "max_skipped_steps",
    "max_failed_saves",
    "loss_spikes",
    "watchdog",
    "seed",
    "allow_compute_dtype_change",
)

# The part that has what a field of earlier versions said, where another class of that part may be in its place.
PART_OF = {
    "start_from": "start=PretrainedWeights(start_from=…)",
    "noisy_tune": "start=PretrainedWeights(start_from=…, noisy_tune=…)",
    "word_vectors": "start=PretrainedInputs(word_vectors=…)",
    "features": "start=PretrainedInputs(features=…)",
    "distillation": "method=Distillation(teacher=…)",
}

_INPUTS = ("word_vectors", "features")

_FIELDS = {
    **dict.fromkeys(_DATA, "training_data.TrainingData"),
    **dict.fromkeys(_RUN, "run_config.RunConfig"),
    "loss": "supervised.Supervised",
    "noisy_tune": "starts.start_from",
    **dict.fromkeys(_INPUTS, "pretrained_inputs.initial_inputs"),
}
_RENAMED = {
    "start_from": "starts.start_from.checkpoint",
    "distillation": "experiment.Experiment.method",
}


def moved_field(owner: Any, name: str) -> str | None:
    """Return what a field is now, such as ``run_config.RunConfig.seed``; ``None`` if it has kept its place and name.

    Args:
      owner: Class or function that lacks the field.
      name: The field.
    """
    if name in (present := renamed_fields(owner)):
        return f"{owner.__module__.rpartition('.')[2]}.{owner.__qualname__}.{present[name]}"
    if (owner.__module__, owner.__qualname__) == (f"{_PACKAGE}.start.starts", "start_from"):
        return f"{_FIELDS[name]}.{name}" if name in _INPUTS else None
    if owner.__module__ != f"{_PACKAGE}.experiment" or owner.__qualname__ != "Experiment":
        return None
    return f"{_FIELDS[name]}.{name}" if name in _FIELDS else _RENAMED.get(name)


def moved_class(module: str, name: str = "") -> str | None:
    """Return the module that a class moved to, such as ``t5x_like.training.run_config``; ``None`` if it didn't move.

    Args:
      module: Module that lacks it, or that is not there any more.
      name: The class; any of the module if not given.
    """
    if module in _MOVED_MODULES:
        return _MOVED_MODULES[module]
    moved = [now for before, now in _MOVED_CLASSES.items() if before.startswith(f"{module}:{name}")]
    return moved[0].partition(":")[0] if moved else None


def current_name(name: str) -> str:
    """Return the present ``module:name`` of a class or function that a record names.

    Args:
      name: Name of this version or of an earlier one.
    """
    module, _, path = name.partition(":")
    return _MOVED_CLASSES.get(name, f"{_MOVED_MODULES.get(module, module)}:{path}")


def described_in_parts(described: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a ``config.json`` of an earlier version as ``experiment.describe`` names them.

    Args:
      described: Values by path, where a distillation had paths of its own and parts had no classes.
    """
    has_inputs = described.get("word_vectors") or "features.is" in described
    start = "PretrainedInputs" if has_inputs else "FreshWeights"
    classes = {
        "method.is": "Distillation" if f"{_DISTILLATION}is" in described else "Supervised",
        "start.is": "PretrainedWeights" if described.get("start_from") else start,
    }
    named = {key.removeprefix(_DISTILLATION): value for key, value in described.items()}
    if not named.get("start_from"):
        named.pop("start_from", None)
    return named | {"is": "Experiment"} | classes


def with_parts(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an ``experiment.json`` in parts.

    Before, an experiment had all fields itself: those of the data, of the run, and one for each method and each way to
    start.

    Args:
      record: Fields by name, as they were read.
    """
    if "model_dir" not in record:
        return record
    rest = dict(record)

    def take(*names: str) -> dict[str, Any]:
        return {name: rest.pop(name) for name in names if name in rest}

    data = {_CLASS: f"{_PACKAGE}.training_data:TrainingData", **take(*_DATA)}
    run = {_CLASS: f"{_PACKAGE}.run_config:RunConfig", **take(*_RUN)}
    loss, distillation = take("loss"), rest.pop("distillation", None)
    method = {_CLASS: f"{_PACKAGE}.methods.supervised:Supervised", **loss}
    if distillation is not None:
        method = {**distillation, **loss}
    pretrained, inputs = take("start_from", "noisy_tune"), take(*_INPUTS)
    start = {_CLASS: f"{_PACKAGE}.start.fresh_weights:FreshWeights"}
    if pretrained.get("start_from"):
        start = {_CLASS: f"{_PACKAGE}.start.pretrained_weights:PretrainedWeights", **pretrained}
    elif any(each is not None for each in inputs.values()):
        start = {_CLASS: "t5x_like.ancestors.pretrained_inputs:PretrainedInputs", **inputs}
    return {**rest, "data": data, "run": run, "start": start, "method": method}
