"""Recurrent encoders with heads, and cross-view training (Clark et al. 2018, https://arxiv.org/abs/1809.08370)."""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Predictions, unlabeled_tokens
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig, Scores, ScoresConfig
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.linear import Initializer
from t5x_like.model.layers.rnn_stack import RNNOutput, RNNStack, RNNStackConfig

_INPUTS_SITE, _STACK_SITE, _OUTPUTS_SITE = range(3)  # dropout sites; HEADS_SITE follows

CROSS_VIEW_LOSS = "cross_view_loss"


@config_class
class RNNEncoderConfig:
    """Embeddings, recurrent layers that read both ways, and heads on the outputs of all layers.

    Attributes:
      embeddings: Input embeddings.
      stack: Recurrent layers.
      heads: Heads.
      dropout_rate: Dropout of embedded tokens and of what heads read.
      cross_view_weight: Weight of the loss of cross-view training; see ``CrossViews``. 0 for none.
      compute_dtype: Type of activations. Weights, sums and states are float32.
    """

    embeddings: EmbeddingsConfig
    stack: RNNStackConfig
    heads: HeadsConfig = HeadsConfig()
    dropout_rate: float = 0.0
    cross_view_weight: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        check_rate("dropout_rate", self.dropout_rate)
        if not 0 <= self.cross_view_weight < math.inf:
            raise ValueError(f"cross_view_weight is {self.cross_view_weight}; give 0 or a positive number")
        if self.cross_view_weight == 0:
            return
        if self.scores_of_tokens is None:
            raise ValueError(
                f"cross_view_weight={self.cross_view_weight:g} compares predictions for each token; set "
                "task='token_classification', or cross_view_weight=0"
            )
        if self.stack.direction != "both":
            raise ValueError(
                f"direction is {self.stack.direction!r}, and views of cross-view training are layers of both "
                "directions; set direction='both'"
            )

    @property
    def scores_of_tokens(self) -> ScoresConfig | None:
        """Head that scores each token."""
        return next((head for head in self.heads.scores if head.input == "tokens"), None)

    def build(self, key: Key[Array, ""]) -> "RNNEncoder":
        """Build the model with fresh weights drawn from ``key``."""
        return RNNEncoder(self, key=key)


class CrossViews(nnx.Module):
    """Predictions of each token's class from parts of the sentence, which learn to agree with the whole (§3.2).

    The first layer's forward state sees a token and those before, its state one token earlier only those before; the
    backward states see the following ones.

    Args:
      scores: Head that reads the whole sentence; views have heads of the same form.
      view_dim: Width of the first layer's outputs in one direction.
      key: Random key of fresh weights.
      init: Distribution of fresh kernels.
    """

    def __init__(self, scores: ScoresConfig, view_dim: int, *, key: Key[Array, ""], init: Initializer):
        keys = jax.random.split(key, len(_VIEWS))
        self.scores = nnx.Dict(
            {
                name: Scores(scores, view_dim, key=view_key, init=init)
                for name, view_key in zip(_VIEWS, keys, strict=True)
            }
        )

    def __call__(
        self, first_layer: Float[Array, "B L D2"], *, dropout_key: Key[Array, ""] | None = None
    ) -> dict[str, Float[Array, "B L C"]]:
        """Return scores of each view, from the first layer's outputs in both directions."""
        forward, backward = jnp.split(first_layer, 2, axis=-1)
        read = {
            "forward": forward,
            "backward": backward,
            "future": jnp.pad(forward, ((0, 0), (1, 0), (0, 0)))[:, :-1],
            "past": jnp.pad(backward, ((0, 0), (0, 1), (0, 0)))[:, 1:],
        }
        return {
            name: self.scores[name](read[name], dropout_key=fold(dropout_key, number))
            for number, name in enumerate(_VIEWS)
        }


_VIEWS = ("forward", "backward", "future", "past")


class RNNEncoder(nnx.Module):
    """Reads a batch's encoder stream. Rows hold one example each where cross-view training is on."""

    def __init__(self, config: RNNEncoderConfig, *, key: Key[Array, ""]):
        embedding_key, stack_key, heads_key, views_key = jax.random.split(key, 4)
        stack = config.stack
        self.embedding = Embeddings(config.embeddings, stack.input_dim, key=embedding_key)
        self.rnn = RNNStack(stack, key=stack_key)
        self.heads = Heads(
            config.heads, config.embeddings, sum(stack.output_dims), key=heads_key, init=stack.init
        )
        scores = config.scores_of_tokens if config.cross_view_weight > 0 else None
        self.views = scores and CrossViews(scores, stack.output_dims[0] // 2, key=views_key, init=stack.init)
        self.config = config

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of losses that are logged next to that of the targets."""
        return () if self.views is None else (CROSS_VIEW_LOSS,)

    def __call__(
        self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None, collect_hidden: bool = False
    ) -> Predictions:
        """Return scores of every position, and of pooled sequences."""
        embedded, read, output, (logits, pooled, scores) = self._predict(batch, dropout_key)
        extra = None
        if self.views is not None:
            whole = scores if dropout_key is None else self._predict(batch, None)[3][2]
            extra = {CROSS_VIEW_LOSS: self._cross_view_loss(batch, read, whole, dropout_key)}
        return Predictions(
            logits=logits,
            encoder_output=output,
            encoder_hidden=read.hidden_states(embedded) if collect_hidden else None,
            pooled=pooled,
            heads=scores,
            extra_losses=extra,
        )

    def _predict(
        self, batch: Batch, dropout_key: Key[Array, ""] | None
    ) -> tuple[Float[Array, "B L D"], RNNOutput, Float[Array, "B L E"], Any]:
        """Return embedded tokens, outputs of layers, what heads read, and what they return."""
        rate, segment_ids = self.config.dropout_rate, batch.encoder_segment_ids
        embedded = self.embedding(batch.encoder_input_tokens, dtype=jnp.dtype(self.config.compute_dtype))
        embedded = dropout(embedded, rate, fold(dropout_key, _INPUTS_SITE))
        read = self.rnn(embedded, segment_ids, dropout_key=fold(dropout_key, _STACK_SITE))
        output = jnp.concatenate(read.layers, axis=-1)
        output = dropout(output, rate, fold(dropout_key, _OUTPUTS_SITE))
        scored = self.heads(
            output, self.embedding.tokens, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        return embedded, read, output, scored

    def _cross_view_loss(
        self,
        batch: Batch,
        read: RNNOutput,
        whole: dict[str, Float[Array, "B L C"]],
        dropout_key: Key[Array, ""] | None,
    ) -> ExtraLoss:
        """Return the divergence of the views from the whole, summed over views; its mean is over unlabeled tokens.

        No gradient reaches the prediction of the whole, which is made without dropout (§3.1).
        """
        head = self.config.scores_of_tokens
        assert self.views is not None
        assert head is not None
        target = jax.nn.log_softmax(jax.lax.stop_gradient(whole[head.name]))
        views = self.views(read.layers[0], dropout_key=fold(dropout_key, HEADS_SITE + 1))
        divergence_BL = sum(
            jnp.sum(jnp.exp(target) * (target - jax.nn.log_softmax(scores)), axis=-1)
            for scores in views.values()
        )
        counted_BL = unlabeled_tokens(batch)
        return ExtraLoss(
            jnp.sum(jnp.where(counted_BL, divergence_BL, 0.0)),
            self.config.cross_view_weight,
            count=jnp.sum(counted_BL, dtype=jnp.float32),
            unlabeled=True,
        )
