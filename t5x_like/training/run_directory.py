"""A run's own folder: what configuration it belongs to, and that it is not another run's."""

from typing import Any

import jax

from t5x_like.checkpoints.model_config import write_model_config
from t5x_like.files import as_path, read_json, write_json, write_text
from t5x_like.training.experiment import Experiment, describe, differences


def claim(experiment: Experiment, *, config_text: str, vocabulary: Any) -> None:
    """Makes ``experiment.model_dir`` the home of this run, or checks that it already is.

    It then holds ``config.json`` (every value, to compare with), ``config.gin`` (to read and to run again),
    ``model.json`` and, for a SentencePiece vocabulary, ``spiece.model``.

    Raises:
      ValueError: the folder holds a run of another configuration; the message lists what differs.
    """
    directory = as_path(experiment.model_dir)
    described = describe(experiment)
    if (directory / "config.json").exists():
        lines = differences(read_json(directory / "config.json"), described)
        if lines:
            raise ValueError(
                f"{directory} holds a run of another configuration; nothing was changed there:\n  "
                + "\n  ".join(lines)
                + "\nGive another MODEL_DIR, or run with that configuration."
            )
    if jax.process_index() != 0:
        return
    if config_text:
        write_text(directory / "config.gin", config_text)
    write_model_config(directory, experiment.model)
    if getattr(vocabulary, "sentencepiece_file", None):
        (directory / "spiece.model").write_bytes(as_path(vocabulary.sentencepiece_file).read_bytes())
    write_json(directory / "config.json", described)
