"""What every model family is: a function from a batch to scores."""

from typing import NamedTuple, Protocol

from jaxtyping import Array, Float, Key

from t5x_like.batch import Batch


class Predictions(NamedTuple):
    """``logits`` are float32. Hidden states, if collected: every block's input, then the stack's normed output."""

    logits: Float[Array, "B L V"]
    encoder_output: Float[Array, "B M D"] | None = None
    decoder_output: Float[Array, "B L D"] | None = None
    encoder_hidden: Float[Array, "N1 B M D"] | None = None
    decoder_hidden: Float[Array, "N1 B L D"] | None = None


class Family(Protocol):
    """A model. Without a dropout key it is deterministic."""

    def __call__(
        self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None, collect_hidden: bool = False
    ) -> Predictions: ...
