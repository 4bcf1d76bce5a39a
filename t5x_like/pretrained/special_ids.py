"""Ids that pad, begin and end texts: those of a ``config.json``, or those that its model takes by default."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from t5x_like.model.zoo.architecture import T5_SPECIAL_IDS
from t5x_like.model.zoo.architectures import by_model_type

# Written as they were read, where a model was read.
NAMES = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")


class SpecialIds(NamedTuple):
    """Token ids that generation needs. ``bos`` starts a decoder that is given nothing to go on with.

    Where ``knows_padding`` is false, no id means padding, and ``pad`` only fills places that nobody reads.
    """

    decoder_start: int
    pad: int
    eos: int | tuple[int, ...]
    bos: int | None = None
    knows_padding: bool = True


def special_ids_of(fields: Mapping[str, Any]) -> SpecialIds:
    """The ids that a ``config.json`` gives, or those that transformers takes for this model where it gives none.

    Without a start token, decoders start with padding.
    """
    architecture = by_model_type().get(fields.get("model_type", ""))
    defaults = T5_SPECIAL_IDS if architecture is None else architecture.special_ids
    ids = {name: fields.get(name, defaults.get(name)) for name in NAMES}
    pad, eos, start = ids["pad_token_id"], ids["eos_token_id"], ids["decoder_start_token_id"]
    fill = 0 if pad is None else pad
    eos = () if eos is None else tuple(eos) if isinstance(eos, list) else eos
    start = fill if start is None else start
    return SpecialIds(start, fill, eos, ids["bos_token_id"], knows_padding=pad is not None)
