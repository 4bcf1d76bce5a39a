"""Settings of ``generation_config.json``, which are defaults of ``generate`` as in transformers."""

import logging
from collections.abc import Mapping
from typing import Any

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json
from t5x_like.pretrained.transformers_api.logits_settings import NAMES as LOGITS_SETTINGS

FILE = "generation_config.json"

_log = logging.getLogger(__name__)

# Defaults of transformers. Those of temperature, top_k and top_p matter for sampling only.
_DEFAULTS: dict[str, Any] = {
    "max_new_tokens": None,
    "max_length": None,
    "num_beams": 1,
    "length_penalty": 1.0,
    "early_stopping": False,
    "num_return_sequences": 1,
    "do_sample": False,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": None,
    **dict.fromkeys(LOGITS_SETTINGS),
}

# Settings that change which tokens transformers writes and that generate lacks, with values that change nothing.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "encoder_repetition_penalty": (1.0,),
    "encoder_no_repeat_ngram_size": (0,),
    "sequence_bias": ({},),
    "stop_strings": ([],),
    "min_p": (0.0,),
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0.0,),
    "guidance_scale": (1.0,),
    "exponential_decay_length_penalty": (),
}


def read_generation_file(directory: PathLike, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a model: of ``generation_config.json``, or of an old ``config.json`` without that file.

    Args:
      directory: Directory of the model.
      fields: Fields of its ``config.json``.
    """
    path = as_path(directory) / FILE
    if not path.exists():
        return {name: value for name, value in fields.items() if name in _DEFAULTS or name in _WITHOUT_EFFECT}
    with refusing_damage(path):
        return read_json(path, dict)


def with_defaults(
    arguments: Mapping[str, object], settings: Mapping[str, object], *, where: str
) -> dict[str, Any]:
    """Return the arguments of ``generate``; those that are ``None`` take the model's settings, then transformers'.

    Settings that ``generate`` lacks are named in a warning.

    Args:
      arguments: Arguments of a call.
      settings: Settings from ``read_generation_file``.
      where: Directory of the model, for the warning.
    """
    lacking = {
        name: settings[name]
        for name, neutral in _WITHOUT_EFFECT.items()
        if settings.get(name) is not None and settings[name] not in neutral
    }
    if lacking:
        listed = ", ".join(f"{name}={value!r}" for name, value in lacking.items())
        _log.warning(
            "%s asks for %s, which generate lacks; transformers may write other tokens", where, listed
        )
    known = {name: value for name, value in settings.items() if name in _DEFAULTS and value is not None}
    if arguments["max_new_tokens"] is not None or arguments["max_length"] is not None:
        known = {name: value for name, value in known.items() if not name.startswith("max_")}
    values = {name: known.get(name, default) for name, default in _DEFAULTS.items()}
    if not (arguments["do_sample"] if arguments["do_sample"] is not None else values["do_sample"]):
        # transformers, too, leaves them unused without sampling.
        values |= {name: _DEFAULTS[name] for name in ("temperature", "top_k", "top_p")}
    return values | {name: value for name, value in arguments.items() if value is not None}
