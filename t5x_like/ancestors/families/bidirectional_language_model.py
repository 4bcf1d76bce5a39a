"""Language models of both directions over words made of characters (Peters et al. 2018, §3.1).

ELMo, https://arxiv.org/abs/1802.05365. A forward and a backward stack share the character encoder and the softmax.
"""

from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.ancestors.directions import DIRECTION_MEASURES, BidirectionalLogits
from t5x_like.ancestors.layers.character_cnn import CharacterCNNConfig, CharacterEmbedding
from t5x_like.ancestors.layers.rnn_stack import RNNStack, RNNStackConfig
from t5x_like.ancestors.layers.sampled_softmax import SampledLogits, SampledSoftmax
from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import FamilyName, Predictions
from t5x_like.model.heads import HEADS_SITE, DeferredLogits, Heads, HeadsConfig, LMHead, LMHeadConfig
from t5x_like.model.layers.adaptive_softmax import AdaptiveConfig, AdaptiveSoftmax
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.embedding import EmbeddingsConfig

# Dropout sites: of each direction, whose stack and output follow as sites of their own; HEADS_SITE follows.
_FORWARD_SITE, _BACKWARD_SITE = range(2)
_INPUTS_SITE, _STACK_SITE, _OUTPUTS_SITE, _SAMPLE_SITE = range(4)


@config_class
class FullSoftmax:
    """A softmax over all words, in training, too."""


SoftmaxConfig: TypeAlias = FullSoftmax | SampledSoftmax | AdaptiveConfig


@config_class
class BidirectionalLanguageModelConfig:
    """A character encoder, two stacks, and a softmax that both share.

    Attributes:
      characters: Word embeddings from characters.
      stack: Layers of the forward direction; the backward direction has as many of its own.
      embeddings: Sizes of the vocabulary; words have no table.
      softmax: Output layer over the vocabulary; ``None`` for none.
      heads: Heads on both directions' outputs.
      dropout_rate: Dropout of the first layer's inputs and of the last one's outputs, in each direction.
      compute_dtype: Type of activations. Weights, sums and states are float32.
    """

    characters: CharacterCNNConfig
    stack: RNNStackConfig
    embeddings: EmbeddingsConfig
    softmax: SoftmaxConfig | None = FullSoftmax()
    heads: HeadsConfig = HeadsConfig()
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        check_rate("dropout_rate", self.dropout_rate)
        if self.stack.direction != "forward":
            raise ValueError(
                f"direction is {self.stack.direction!r}; give a stack that reads 'forward', as which the backward one "
                "is built"
            )
        widths = {self.stack.input_dim, self.characters.output_dim, *self.stack.output_dims}
        if len(widths) > 1:
            raise ValueError(
                f"words, and outputs of layers, have the widths {sorted(widths)}; give all one width, because hidden "
                "states are stacked"
            )
        if self.num_samples > self.embeddings.vocab_size:
            raise ValueError(
                f"num_samples is {self.num_samples}, and there are {self.embeddings.vocab_size} words; sample "
                "fewer, or take FullSoftmax()"
            )

    @property
    def num_samples(self) -> int:
        """Words that a training step samples for a direction's softmax; 0 for a softmax over all words."""
        return self.softmax.num_samples if isinstance(self.softmax, SampledSoftmax) else 0

    def build(self, key: Key[Array, ""]) -> "BidirectionalLanguageModel":
        """Build the model with fresh weights drawn from ``key``."""
        return BidirectionalLanguageModel(self, key=key)


class DirectionHeads(Heads):
    """Heads on both directions' outputs, and the softmax that each direction has for itself.

    The softmax is among the heads because fine-tuning replaces it, as it replaces them.
    """

    def __init__(self, config: BidirectionalLanguageModelConfig, *, key: Key[Array, ""]):
        heads_key, softmax_key = jax.random.split(key)
        width = config.stack.output_dims[-1]
        super().__init__(config.heads, None, 2 * width, key=heads_key, init=config.stack.init)
        if config.softmax is None:
            self.softmax = None
        elif isinstance(config.softmax, AdaptiveConfig):
            self.softmax = AdaptiveSoftmax(config.softmax, width, key=softmax_key)
        else:
            words = LMHeadConfig(tie_word_embeddings=False, bias=True)
            self.softmax = LMHead(words, config.embeddings, width, key=softmax_key)


class BidirectionalLanguageModel(nnx.Module):
    """Reads a batch's encoder stream in both directions; neither sees what the other has read."""

    family_name: ClassVar[FamilyName] = "encoder"

    def __init__(self, config: BidirectionalLanguageModelConfig, *, key: Key[Array, ""]):
        embedding_key, forward_key, backward_key, heads_key = jax.random.split(key, 4)
        stack, vocab_size = config.stack, config.embeddings.vocab_size
        self.embedding = CharacterEmbedding(config.characters, vocab_size, key=embedding_key)
        self.forward_rnn = RNNStack(stack, key=forward_key)
        self.backward_rnn = RNNStack(replace(stack, direction="backward"), key=backward_key)
        self.heads = DirectionHeads(config, key=heads_key)
        self.config = config

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the losses of each direction, which are logged."""
        return () if self.heads.softmax is None else DIRECTION_MEASURES

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of each token from those before, and from those after.

        Hidden states are the words' embeddings twice, then every layer's outputs: forward ones, then backward ones.
        They are edited by direction, as ``encoder/forward/hidden_states`` and ``encoder/backward/hidden_states``.
        """
        segment_ids = batch.encoder_segment_ids
        embedded = self.embedding(batch.encoder_input_tokens, jnp.dtype(self.config.compute_dtype))
        forward_key, backward_key = (fold(dropout_key, site) for site in (_FORWARD_SITE, _BACKWARD_SITE))
        with named_activations.scope("encoder"):
            forward = self._read(self.forward_rnn, embedded, segment_ids, forward_key)
            backward = self._read(self.backward_rnn, embedded, segment_ids, backward_key)
            hidden = [jnp.concatenate(both, axis=-1) for both in zip(forward, backward, strict=True)]
            named_activations.keep_hidden(lambda: jnp.stack(hidden))
        _, pooled, scores = self.heads(
            hidden[-1], None, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        from_before = self._logits(forward[-1], forward_key, shift=1)
        from_after = self._logits(backward[-1], backward_key, shift=-1)
        logits = None
        if from_before is not None and from_after is not None:
            logits = BidirectionalLogits(from_before, from_after)
        return Predictions(
            logits=logits,
            encoder_output=hidden[-1],
            pooled=pooled,
            heads=scores,
        )

    def _read(
        self,
        rnn: RNNStack,
        embedded: Float[Array, "B L D"],
        segment_ids: Int[Array, "B L"] | None,
        key: Key[Array, ""] | None,
    ) -> tuple[Float[Array, "B L D"], ...]:
        """Return the hidden states of one direction."""
        with named_activations.scope(rnn.config.direction):
            embedded = named_activations.edited_hidden(embedded, 0, len(rnn.config.hidden_dims))
            x = dropout(embedded, self.config.dropout_rate, fold(key, _INPUTS_SITE))
            read = rnn(x, segment_ids, dropout_key=fold(key, _STACK_SITE))
            named_activations.keep_hidden(lambda: read.hidden_states(embedded))
        return embedded, *read.layers

    def _logits(
        self, output: Float[Array, "B L D"], key: Key[Array, ""] | None, *, shift: int
    ) -> Float[Array, "B L V"] | DeferredLogits | SampledLogits | None:
        """Return scores of every token from the output ``shift`` positions before it."""
        softmax = self.heads.softmax
        if softmax is None:
            return None
        # What enters at the ends predicts no token: see ``join_directions``.
        output = dropout(jnp.roll(output, shift, axis=1), self.config.dropout_rate, fold(key, _OUTPUTS_SITE))
        if isinstance(softmax, AdaptiveSoftmax):
            return softmax(output)
        if key is None or not self.config.num_samples:
            return softmax(output, None)
        assert softmax.projection is not None
        return SampledLogits(
            output,
            softmax.projection,
            jax.random.fold_in(key, _SAMPLE_SITE),
            self.config.num_samples,
            self.config.embeddings.vocab_size,
        )
