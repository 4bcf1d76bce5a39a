"""What a pretrained model answers, in the words of transformers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

# Names of what may be asked for.
_OPTIONAL = (
    "loss",
    "hidden_states",
    "encoder_hidden_states",
    "decoder_hidden_states",
    "pooler_output",
    "mems",
    "sequences_scores",
)


class Outputs(dict[str, Any]):
    """Numpy arrays under Hugging Face's names, as attributes or by key.

    What was not asked for is ``None`` as an attribute and absent as a key, as in transformers.
    """

    def __getattr__(self, name: str) -> Any:
        if name in self or name in _OPTIONAL:
            return self.get(name)
        raise AttributeError(f"no {name!r} here; there are {', '.join(self)}")


def to_outputs(computed: Mapping[str, Any]) -> Outputs:
    """Arrays, or tuples of them, from any device as float32."""
    return Outputs({name: _to_numpy(value) for name, value in computed.items()})


def _to_numpy(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_to_numpy(part) for part in value)
    return np.asarray(value, np.float32)
