"""A run's own folder: what configuration it belongs to, and that it is not another run's."""

import contextlib

import jax

from t5x_like.io.files import PathLike, as_path, read_json, write_bytes, write_json, write_text
from t5x_like.io.writer_lock import exclusive_writer
from t5x_like.pretrained.frozen_weights import FrozenRecord
from t5x_like.pretrained.head_classes import write_classes
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.sentence_transformers import write_sentence_embedding
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.text.vocabularies.opening import contents_of
from t5x_like.training.experiment import Experiment, describe, differences
from t5x_like.training.run_record import read_experiment, write_experiment


def refuse_another_run(experiment: Experiment) -> None:
    """Check that ``experiment.run.model_dir`` is empty or this run's own; writes nothing.

    Raises:
      ValueError: the folder holds a run of another configuration; the message lists what differs.
    """
    home = as_path(experiment.run.model_dir)
    if not (home / "config.json").exists():
        return
    lines = differences(read_json(home / "config.json", dict), experiment)
    if lines and not _is_of_record(home, experiment):
        raise ValueError(
            f"{home} holds a run of another configuration; nothing was changed there:\n  "
            + "\n  ".join(lines)
            + "\nGive another MODEL_DIR, or run with that configuration."
        )


def _is_of_record(home: PathLike, experiment: Experiment) -> bool:
    """Return whether a configuration is that of the run's record, without the options that had no effect."""
    try:
        return not differences(describe(read_experiment(home)), experiment)
    except (ValueError, TypeError):  # no record, or one that this version can't build
        return False


def claim(
    experiment: Experiment,
    *,
    config_text: str,
    vocabulary: object,
    labels: LabelSpace,
    frozen: FrozenRecord | None = None,
) -> None:
    """Make ``experiment.run.model_dir`` the home of this run.

    It then holds ``config.json`` (every value, to compare with), ``experiment.json`` (to build the configuration
    again), ``model.json``, the names of its head's classes and the vocabulary's files. Also ``config.gin`` if gin
    configured it, ``sentence_embedding.json`` if its vectors are compared, and ``frozen.json`` (where frozen weights
    come from) if it has some.

    Args:
      experiment: Resolved configuration.
      config_text: Configuration as gin; empty without one.
      vocabulary: Vocabulary of the training data.
      labels: Meaning of the head's outputs.
      frozen: Origin of frozen weights; None if all are trained.
    """
    if jax.process_index() != 0:
        return
    home = as_path(experiment.run.model_dir)
    write_model_config(
        home, experiment.model
    )  # refuses a model that can't be recorded, before anything is written
    if config_text:
        write_text(home / "config.gin", config_text)
    if frozen is not None:
        frozen.write(home)
    write_classes(home, labels.class_names)
    if (embedding := experiment.method.sentence_embedding) is not None:
        write_sentence_embedding(home, embedding)
    for name, content in contents_of(vocabulary).items():
        write_bytes(home / name, content)
    write_experiment(home, experiment)
    write_json(home / "config.json", describe(experiment))


def only_writer(model_dir: str) -> contextlib.AbstractContextManager[None]:
    """Keep other runs out of the directory; with several processes the first does that for all.

    Raises:
      ValueError: another run is writing there.
    """
    if jax.process_index() != 0:
        return contextlib.nullcontext()
    return exclusive_writer(model_dir, "run", signed=True)


def keep_compiled_programs(model_dir: str) -> None:
    """Keep compiled programs in ``<model_dir>/compilation_cache``, so that a continued run starts at once.

    Does nothing if JAX has a cache already, as with ``JAX_COMPILATION_CACHE_DIR``.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", f"{model_dir}/compilation_cache")
