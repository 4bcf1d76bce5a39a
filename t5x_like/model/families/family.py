"""The interface of model families: a function from a batch to scores."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float, Key

from t5x_like.batch import Batch
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.multiple_choice import flatten_choices


class ExtraLoss(NamedTuple):
    """A loss beside that of the targets: summed over the real tokens, whose mean, times ``weight``, is minimised."""

    total: Float[Array, ""]
    weight: float


class Measure(NamedTuple):
    """A logged mean: both numbers are summed over batches, then divided."""

    total: Float[Array, ""]
    count: Float[Array, ""]


class Predictions(NamedTuple):
    """``logits`` are float32, over a vocabulary that may be padded to a round size. Absent parts are ``None``.

    Hidden states, if collected: every block's input, then the stack's output. ``heads`` has the scores of other heads
    by name, ``balance_loss`` what routers of experts are charged with; ``memory`` is for the batch that follows.
    ``extra_losses`` and ``measures`` are those that a ``ModelWithMeasures`` model has besides, by name.
    """

    logits: Float[Array, "B L V"] | None = None
    encoder_output: Float[Array, "B M D"] | None = None
    decoder_output: Float[Array, "B L D"] | None = None
    encoder_hidden: Float[Array, "N1 B M D"] | None = None
    decoder_hidden: Float[Array, "N1 B L D"] | None = None
    pooled: Float[Array, "B D"] | None = None
    heads: dict[str, Array] | None = None
    balance_loss: Float[Array, ""] | None = None
    memory: Memory | None = None
    extra_losses: dict[str, ExtraLoss] | None = None
    measures: dict[str, Measure] | None = None


@runtime_checkable
class Family(Protocol):
    """A model. Without a dropout key it is deterministic."""

    def __call__(
        self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None, collect_hidden: bool = False
    ) -> Predictions: ...


def predict(
    model: Family, batch: Batch, *, dropout_key: Key[Array, ""] | None = None, memory: Memory | None = None
) -> Predictions:
    """Calls a model on any batch: each choice of a question is a row, and ``memory`` is passed to models with one."""
    given: dict[str, Any] = {} if memory is None else {"memory": memory}
    return model(flatten_choices(batch), dropout_key=dropout_key, **given)


@runtime_checkable
class ModelWithMeasures(Protocol):
    """A model with losses or measures of its own; all their names are known before it is called."""

    @property
    def measured(self) -> tuple[str, ...]: ...
