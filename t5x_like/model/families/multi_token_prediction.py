"""Prediction of tokens beyond the next one, by a block for each (DeepSeek-V3, §2.2, https://arxiv.org/abs/2412.19437).

The model writes without them. transformers has no such blocks, so exports leave them out.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.linear import Linear
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.routing_sums import RoutingSums, add_routing
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.stack import Stack, StackConfig

# Site of a decoder's dropout key, after those of the stack and the heads.
_SITE = 4


WITHOUT_VIRTUAL_TOKENS = (
    "blocks for further tokens don't read the virtual tokens of prompts and prefixes; set num_nextn_predict_layers=0, "
    "or take another adapter"
)


@config_class
class MultiTokenConfig:
    """Further tokens that each position predicts.

    Attributes:
      num_tokens: Tokens after the next one.
      weight: Weight of the mean of their losses (λ of eq. 25; 0.3, and 0.1 for the last third, in §4.2).
      stack: One block, and the norm before the output layer.
      norm: Norm of hidden states and of embeddings, before they are joined.
    """

    num_tokens: int
    weight: float
    stack: StackConfig
    norm: NormConfig

    def __post_init__(self) -> None:
        if self.num_tokens < 1:
            raise ValueError(f"num_tokens is {self.num_tokens}; give 1 or more")
        if self.weight <= 0:
            raise ValueError(
                f"the weight of further tokens is {self.weight:g}; give a positive number, such as 0.3"
            )

    @property
    def block(self) -> BlockConfig:
        """Configuration of the block."""
        return self.stack.blocks[0]


class FurtherTokens(NamedTuple):
    """Losses of all further tokens by name, and sums over the routers of their blocks."""

    losses: dict[str, ExtraLoss]
    routing: RoutingSums | None


class TokenModule(nnx.Module):
    """Hidden states that predict one token further: ``block(join(norm(states), norm(embeddings)))`` (eq. 21 to 22)."""

    def __init__(self, config: MultiTokenConfig, *, key: Key[Array, ""]):
        join_key, stack_key = jax.random.split(key)
        model_dim = config.block.model_dim
        self.hidden_norm = config.norm.build(model_dim)
        self.embedding_norm = config.norm.build(model_dim)
        self.join = Linear(
            2 * model_dim, model_dim, axes=("mlp", "embed"), key=join_key, init=config.block.init
        )
        self.stack = Stack(config.stack, key=stack_key)


class MultiTokenPrediction(nnx.Module):
    """Blocks for further tokens, one after the other. Embeddings and output layer are the model's own."""

    def __init__(self, config: MultiTokenConfig, *, key: Key[Array, ""]):
        self.modules = nnx.Dict(
            {
                str(distance): TokenModule(config, key=jax.random.fold_in(key, distance))
                for distance in range(1, config.num_tokens + 1)
            }
        )
        self.config = config

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the losses."""
        return tuple(map(_loss_name, self.modules))

    def __call__(
        self,
        hidden: Float[Array, "B L D"],
        batch: Batch,
        context: AttentionContext,
        *,
        embed: Callable[[Int[Array, "B L"]], Float[Array, "B L D"]],
        logits_of: Callable[[Float[Array, "B L D"]], Float[Array, "B L V"]],
        dropout_key: Key[Array, ""] | None = None,
    ) -> FurtherTokens:
        """Return the losses; logits are computed again in the backward pass.

        Args:
          hidden: Outputs of the model's stack.
          batch: Rows with targets. A target further on counts if it is of the same example, by its own weight.
          context: Masks and positions of the rows.
          embed: Embeds tokens.
          logits_of: Output layer.
          dropout_key: ``None`` for no dropout.
        """
        tokens, targets, weights = batch.decoder_input_tokens, batch.target_tokens, batch.loss_weights
        assert tokens is not None, "a decoder reads tokens"
        assert targets is not None, "losses need targets"
        assert weights is not None, "losses need weights"
        segment_ids = (
            jnp.ones_like(tokens) if batch.decoder_segment_ids is None else batch.decoder_segment_ids
        )
        losses: dict[str, ExtraLoss] = {}
        sums: list[RoutingSums | None] = []
        sum_of = jax.checkpoint(
            lambda states, targets, weights: _cross_entropy(logits_of(states), targets, weights)
        )
        for name, module in self.modules.items():
            distance = int(name)
            joined = [module.hidden_norm(hidden), module.embedding_norm(embed(_later(tokens, distance)))]
            key = fold(dropout_key, _SITE + distance)
            output = module.stack(module.join(jnp.concatenate(joined, axis=-1)), context, dropout_key=key)
            hidden = output.output
            is_same = (_later(segment_ids, distance) == segment_ids) & (segment_ids > 0)
            later_weights = _later(weights, distance) * is_same
            total = sum_of(hidden, _later(targets, distance), later_weights)
            count = jnp.sum(later_weights)
            weight = self.config.weight / self.config.num_tokens
            losses[_loss_name(name)] = ExtraLoss(total, weight, count)
            sums.append(output.routing)
        return FurtherTokens(losses, add_routing(*sums))


def _loss_name(distance: str) -> str:
    return f"further_token_{distance}_cross_entropy"


def _later(rows: Array, distance: int) -> Array:
    """Return what is ``distance`` positions later, and 0 beyond the end."""
    return jnp.pad(rows, ((0, 0), (0, distance)))[:, distance:]


def _cross_entropy(logits: Array, targets: Array, weights: Array) -> Array:
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.sum((jax.nn.logsumexp(logits, axis=-1) - chosen) * weights)
