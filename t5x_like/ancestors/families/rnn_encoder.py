"""Recurrent encoders with heads, features of pretrained models, and cross-view training (Clark et al. 2018)."""

import math
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.ancestors.families.pretrained_features import Features, FeaturesConfig, PretrainedFeatures
from t5x_like.ancestors.layers.biattention import Biattention, BiattentionConfig
from t5x_like.ancestors.layers.rnn_stack import RNNOutput, RNNStack, RNNStackConfig
from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import ExtraLoss, FamilyName, Predictions, unlabeled_tokens
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig, ScoreHead, ScoreHeadConfig
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.linear import Initializer
from t5x_like.model.layers.transform import Transform, TransformConfig

_INPUTS_SITE, _STACK_SITE, _OUTPUTS_SITE = range(3)  # dropout sites; HEADS_SITE follows
_VIEWS_SITE, _BIATTENTION_SITE, _FEATURES_SITE = range(HEADS_SITE + 1, HEADS_SITE + 4)

CROSS_VIEW_LOSS = "cross_view_loss"
FEATURES_PENALTY = "features_penalty"


@config_class
class RNNEncoderConfig:
    """Embeddings, recurrent layers that read both ways, and heads on the outputs of all layers.

    Attributes:
      embeddings: Input embeddings.
      stack: Recurrent layers.
      heads: Heads.
      features: Features of a pretrained model, next to word embeddings or outputs; ``None`` for none.
      input_transform: Layer before the recurrent ones; ``None`` for none.
      biattention: Attention of the outputs to each other, and its integrator; ``None`` for none.
      dropout_rate: Dropout of embedded tokens and of what heads read.
      cross_view_weight: Weight of the loss of cross-view training; see ``CrossViews``. 0 for none.
      compute_dtype: Type of activations. Weights, sums and states are float32.
    """

    embeddings: EmbeddingsConfig
    stack: RNNStackConfig
    heads: HeadsConfig = HeadsConfig()
    features: FeaturesConfig | None = None
    input_transform: TransformConfig | None = None
    biattention: BiattentionConfig | None = None
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
    def inputs_dim(self) -> int:
        """Width of word embeddings and features together."""
        return self.embeddings.embed_dim + (0 if self.features is None else self.features.dim_at("inputs"))

    @property
    def outputs_dim(self) -> int:
        """Width of what heads read."""
        own = sum(self.stack.output_dims) if self.biattention is None else self.biattention.output_dim
        return own + (0 if self.features is None else self.features.dim_at("outputs"))

    @property
    def scores_of_tokens(self) -> ScoreHeadConfig | None:
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

    def __init__(self, scores: ScoreHeadConfig, view_dim: int, *, key: Key[Array, ""], init: Initializer):
        keys = jax.random.split(key, len(_VIEWS))
        self.scores = nnx.Dict(
            {
                name: ScoreHead(scores, view_dim, key=view_key, init=init)
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
            name: self.scores[name](read[name], dropout_key=fold(dropout_key, index))
            for index, name in enumerate(_VIEWS)
        }


_VIEWS = ("forward", "backward", "future", "past")


class RNNEncoder(nnx.Module):
    """Reads a batch's encoder stream. Rows hold one example each where cross-view training is on."""

    family_name: ClassVar[FamilyName] = "encoder"

    def __init__(self, config: RNNEncoderConfig, *, key: Key[Array, ""]):
        embedding_key, stack_key, heads_key, views_key = jax.random.split(key, 4)
        features_key, transform_key, biattention_key = jax.random.split(jax.random.fold_in(key, 1), 3)
        stack, features, transform = config.stack, config.features, config.input_transform
        self.embedding = Embeddings(config.embeddings, config.embeddings.embed_dim, key=embedding_key)
        self.features = features and PretrainedFeatures(features, key=features_key)
        self.input_transform = transform and Transform(
            transform, config.inputs_dim, key=transform_key, init=stack.init
        )
        self.rnn = RNNStack(stack, key=stack_key)
        self.biattention = config.biattention and Biattention(
            config.biattention, sum(stack.output_dims), key=biattention_key, init=stack.init
        )
        self.heads = Heads(
            config.heads, config.embeddings, config.outputs_dim, key=heads_key, init=stack.init
        )
        scores = config.scores_of_tokens if config.cross_view_weight > 0 else None
        self.views = scores and CrossViews(scores, stack.output_dims[0] // 2, key=views_key, init=stack.init)
        self.config = config

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of losses that are logged next to that of the targets."""
        mix = self.features and self.features.config.mix
        has_penalty = mix is not None and mix.l2_weight > 0
        return (() if self.views is None else (CROSS_VIEW_LOSS,)) + (
            (FEATURES_PENALTY,) if has_penalty else ()
        )

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of every position, and of pooled sequences."""
        features = self._features(batch, dropout_key)
        read, output, (logits, pooled, scores) = self._predict(batch, features, dropout_key)
        extra: dict[str, ExtraLoss] = {}
        if self.views is not None:
            whole = scores
            if dropout_key is not None:
                with named_activations.scope("whole"):
                    whole = self._predict(batch, self._features(batch, None), None)[2][2]
            extra[CROSS_VIEW_LOSS] = self._cross_view_loss(batch, read, whole, dropout_key)
        if features is not None and FEATURES_PENALTY in self.measured:
            extra[FEATURES_PENALTY] = ExtraLoss(features.penalty * _num_real_tokens(batch), 1.0)
        return Predictions(
            logits=logits,
            encoder_output=output,
            pooled=pooled,
            heads=scores,
            extra_losses=extra or None,
        )

    def _features(self, batch: Batch, dropout_key: Key[Array, ""] | None) -> Features | None:
        key = fold(dropout_key, _FEATURES_SITE)
        return None if self.features is None else self.features(batch, dropout_key=key)

    def _predict(
        self, batch: Batch, features: Features | None, dropout_key: Key[Array, ""] | None
    ) -> tuple[RNNOutput, Float[Array, "B L E"], Any]:
        """Return outputs of layers, what heads read, and what they return."""
        rate, segment_ids = self.config.dropout_rate, batch.encoder_segment_ids
        embedded = self.embedding(batch.encoder_input_tokens, dtype=jnp.dtype(self.config.compute_dtype))
        if features is not None:
            embedded = _joined(embedded, features.inputs)
        embedded = dropout(embedded, rate, fold(dropout_key, _INPUTS_SITE))
        with named_activations.scope("encoder"):
            embedded = named_activations.edited_hidden(embedded, 0, len(self.rnn.config.hidden_dims))
            inputs = embedded if self.input_transform is None else self.input_transform(embedded)
            read = self.rnn(inputs, segment_ids, dropout_key=fold(dropout_key, _STACK_SITE))
            named_activations.keep_hidden(lambda: read.hidden_states(embedded))
        output = jnp.concatenate(read.layers, axis=-1)
        if self.biattention is not None:
            key = fold(dropout_key, _BIATTENTION_SITE)
            output = self.biattention(output, segment_ids, dropout_key=key)
        if features is not None:
            output = _joined(output, features.outputs)
        output = dropout(output, rate, fold(dropout_key, _OUTPUTS_SITE))
        scored = self.heads(
            output, self.embedding.tokens, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        return read, output, scored

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
        views = self.views(read.layers[0], dropout_key=fold(dropout_key, _VIEWS_SITE))
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


def _joined(x: Float[Array, "B L D"], features: Float[Array, "B L F"] | None) -> Float[Array, "B L E"]:
    return x if features is None else jnp.concatenate([x, features.astype(x.dtype)], axis=-1)


def _num_real_tokens(batch: Batch) -> Float[Array, ""]:
    """Count the tokens of the encoder's stream that are not padding."""
    ids = batch.encoder_segment_ids
    real = batch.encoder_input_tokens.size if ids is None else jnp.sum(ids > 0)
    return jnp.asarray(real, jnp.float32)
