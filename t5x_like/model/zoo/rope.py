"""Rotary positions in a ``config.json``: ``rope_scaling`` of transformers 4, ``rope_parameters`` of transformers 5."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from t5x_like.model.layers.rotary import LinearScaling, Llama3Scaling, RotaryScaling, YarnScaling
from t5x_like.model.zoo.config_fields import ConfigFields


class Rope(NamedTuple):
    """Rotary positions of a ``config.json``.

    Attributes:
      rope_theta: Base of the frequencies.
      rope_scaling: Changes the frequencies for longer texts.
      rotated: Part of each head's dimensions that is rotated.
    """

    rope_theta: float
    rope_scaling: RotaryScaling | None
    rotated: float = 1.0


def take_rope(
    fields: ConfigFields,
    *,
    rope_theta: float = 10_000.0,
    max_position_embeddings: int,
    rotated: float | None = None,
) -> Rope:
    """Read the rotary positions of all layers.

    Args:
      fields: Fields of a ``config.json``.
      rope_theta: Default base.
      max_position_embeddings: Default of YaRN's original length.
      rotated: Default part of each head that is rotated; ``None`` refuses any part but 1.

    Raises:
      ValueError: A kind or a field is not known, or two forms contradict each other.
    """
    names = (
        {"rope_theta": rope_theta}
        if rotated is None
        else {"rope_theta": rope_theta, "partial_rotary_factor": rotated}
    )
    scaling = fields.take("rope_scaling", {})
    older = {**scaling, **{name: fields.take(name, default) for name, default in names.items()}}
    newer = fields.take("rope_parameters", {})
    read = rope_of({**older, **newer}, max_position_embeddings=max_position_embeddings)
    if newer and scaling and rope_of(older, max_position_embeddings=max_position_embeddings) != read:
        raise ValueError(f"config.json: rope_scaling {scaling} contradicts rope_parameters {newer}")
    if rotated is None and read.rotated != 1.0:
        raise ValueError(f"config.json: partial_rotary_factor is {read.rotated}; only 1.0 is supported")
    return read


def ropes_by_type(
    parameters: Mapping[str, Mapping[str, object]],
    older: Mapping[str, Mapping[str, object]],
    *,
    max_position_embeddings: int,
) -> dict[str, Rope]:
    """Read ``rope_parameters`` that have an entry for each type of layers.

    Args:
      parameters: Published entries by type.
      older: For each type, what fields of transformers 4 say; ``parameters`` overrule it.
      max_position_embeddings: Default of YaRN's original length.

    Raises:
      ValueError: A type, a kind or a field is not known, or only a part of each head is rotated.
    """
    unknown = [each for each in parameters if each not in older]
    if unknown:
        raise ValueError(
            f"config.json: rope_parameters of {unknown[0]} are not known; {', '.join(older)} are"
        )
    ropes = {
        kind: rope_of(
            {**fields, **(parameters.get(kind) or {})}, max_position_embeddings=max_position_embeddings
        )
        for kind, fields in older.items()
    }
    for kind, rope in ropes.items():
        if rope.rotated != 1.0:
            raise ValueError(
                f"config.json: partial_rotary_factor of {kind} is {rope.rotated}; only 1.0 is supported"
            )
    return ropes


def rope_of(parameters: Mapping[str, object], *, max_position_embeddings: int) -> Rope:
    """Read ``rope_parameters``.

    Args:
      parameters: Published fields.
      max_position_embeddings: Default of YaRN's original length.

    Raises:
      ValueError: A kind or a field is not known.
    """
    fields = ConfigFields(parameters)
    rope_theta, rotated = fields.take("rope_theta", 10_000.0), fields.take("partial_rotary_factor", 1.0)
    kind = fields.take("rope_type", fields.take("type", "default"))
    scaling = _scaling_of(kind, fields, max_position_embeddings)
    fields.finish()
    return Rope(rope_theta, scaling, rotated)


def _scaling_of(kind: str, fields: ConfigFields, max_position_embeddings: int) -> RotaryScaling | None:
    original = "original_max_position_embeddings"
    match kind:
        case "default":
            return None
        case "linear":
            return LinearScaling(factor=_positive(fields, "factor"))
        case "llama3":
            return Llama3Scaling(
                factor=_positive(fields, "factor"),
                low_freq_factor=_positive(fields, "low_freq_factor"),
                high_freq_factor=_positive(fields, "high_freq_factor"),
                original_max_position_embeddings=fields.take(original),
            )
        case "yarn":
            fields.must_be("truncate", True)
            length = fields.take(original, max_position_embeddings)
            # DeepSeek's code: null is how much longer texts are than those of pretraining.
            is_null = "factor" in fields.config and fields.config["factor"] is None
            longer = max_position_embeddings / length
            return YarnScaling(
                factor=fields.take("factor", longer) if is_null else _positive(fields, "factor"),
                original_max_position_embeddings=length,
                beta_fast=_positive(fields, "beta_fast", 32.0),
                beta_slow=_positive(fields, "beta_slow", 1.0),
                attention_factor=fields.take("attention_factor", 0.0) or None,
                mscale=fields.take("mscale", 0.0),
                mscale_all_dim=fields.take("mscale_all_dim", 0.0),
            )
    raise ValueError(f"config.json: rope_type is {kind!r}; default, linear, llama3, yarn are supported")


def _positive(fields: ConfigFields, name: str, default: float = 0.0) -> float:
    value = fields.take(name, default)
    if value > 0:
        return value
    raise ValueError(
        f"config.json: {name} of rotary positions is absent or not positive; give a positive number"
    )


def rope_fields(rope_theta: float, rope_scaling: RotaryScaling | None) -> dict[str, object]:
    """Return the fields in the older form, which all versions of transformers read.

    Args:
      rope_theta: Base of the frequencies.
      rope_scaling: Scaling for longer texts; None for none.
    """
    return {
        "rope_theta": rope_theta,
        "rope_scaling": None if rope_scaling is None else _scaling_fields(rope_scaling),
    }


def rope_parameters(rope_theta: float, rope_scaling: RotaryScaling | None) -> dict[str, object]:
    """Return an entry of ``rope_parameters``, the form of transformers 5.

    Args:
      rope_theta: Base of the frequencies.
      rope_scaling: Scaling for longer texts; None for none.
    """
    scaling: dict[str, Any] = (
        {"rope_type": "default"} if rope_scaling is None else _scaling_fields(rope_scaling)
    )
    kind = scaling.pop("type", None) or scaling.pop("rope_type")
    return {"rope_theta": rope_theta, "rope_type": kind, **scaling}


def _scaling_fields(scaling: RotaryScaling) -> dict[str, Any]:
    match scaling:
        case LinearScaling():
            return {"type": "linear", "factor": scaling.factor}
        case Llama3Scaling():
            return {
                "rope_type": "llama3",
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": scaling.original_max_position_embeddings,
            }
        case YarnScaling():
            fields = {
                "rope_type": "yarn",
                "factor": scaling.factor,
                "beta_fast": scaling.beta_fast,
                "beta_slow": scaling.beta_slow,
                "original_max_position_embeddings": scaling.original_max_position_embeddings,
            }
            optional = ("attention_factor", "mscale", "mscale_all_dim")
            return {**fields, **{name: value for name in optional if (value := getattr(scaling, name))}}
