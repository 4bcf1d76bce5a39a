"""Recurrent encoder-decoders (Sutskever et al. 2014; Bahdanau et al. 2015; Luong et al. 2015)."""

from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.ancestors.layers.rnn_attention import AttendedInput, RNNAttention, RNNAttentionConfig
from t5x_like.ancestors.layers.rnn_stack import (
    RNNOutput,
    RNNStack,
    RNNStackConfig,
    RNNStates,
    with_gathered_weights,
)
from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import FamilyName, Predictions, with_decoder_stream
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig, whole_logits
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.kv_cache import beam_rows, input_rows
from t5x_like.model.layers.linear import Linear
from t5x_like.partitioning.activations import constrain_state

_ENCODER_SITE, _DECODER_SITE, _OUTPUTS_SITE = range(3)  # dropout sites; HEADS_SITE follows
_WORDS_SITE, _STACK_SITE = range(2)  # of a stack's site


@config_class
class RNNEncoderDecoderConfig:
    """Embeddings of one vocabulary, two recurrent stacks, and heads on the decoder's output.

    Attributes:
      embeddings: Input embeddings of both stacks.
      encoder: Layers of the encoder. ``direction="backward"`` reads inputs reversed (Sutskever et al. 2014, §3.3).
      decoder: Layers of the decoder.
      attention: Attention of the decoder over the encoder's outputs; ``None`` for none.
      heads: Heads on the decoder's output.
      dropout_rate: Dropout of embedded tokens and of the decoder's output.
      decoder_start_token_id: First id that the decoder reads where a head reads the input.
      compute_dtype: Type of activations. Weights, sums and states are float32.
    """

    embeddings: EmbeddingsConfig
    encoder: RNNStackConfig
    decoder: RNNStackConfig
    heads: HeadsConfig
    attention: RNNAttentionConfig | None = None
    dropout_rate: float = 0.0
    decoder_start_token_id: int = 0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        check_rate("dropout_rate", self.dropout_rate)
        if self.decoder.direction != "forward":
            raise ValueError(
                f"direction of the decoder is {self.decoder.direction!r}; its layers read 'forward', or they would see "
                "the words to predict"
            )
        if len(self.encoder.hidden_dims) != len(self.decoder.hidden_dims):
            raise ValueError(
                f"the encoder has {len(self.encoder.hidden_dims)} layers and the decoder "
                f"{len(self.decoder.hidden_dims)}; give both as many, because each layer begins with a state of the "
                "encoder's"
            )

    @property
    def output_dim(self) -> int:
        """Width of the decoder's output."""
        return self.decoder.output_dims[-1] if self.attention is None else self.attention.output_dim

    def build(self, key: Key[Array, ""]) -> "RNNEncoderDecoder":
        """Build the model with fresh weights drawn from ``key``."""
        return RNNEncoderDecoder(self, key=key)


class RNNDecoderCache(NamedTuple):
    """State of a decoder after some tokens.

    Attributes:
      states: State of each layer, of inputs or of the beams of one input after another.
      joined: Output of the position before, where it is fed.
      attended: The encoder's outputs, shared by all beams of an input; ``None`` without attention.
    """

    states: RNNStates
    joined: Float[Array, "R D"] | None
    attended: AttendedInput | None


class RNNEncoderDecoder(nnx.Module):
    """Two recurrent stacks with one word table. Rows hold one example each."""

    family_name: ClassVar[FamilyName] = "encoder_decoder"

    def __init__(self, config: RNNEncoderDecoderConfig, *, key: Key[Array, ""]):
        keys = jax.random.split(key, 6)
        encoder, decoder, attention = config.encoder, config.decoder, config.attention
        embed_dim, init = encoder.input_dim, decoder.init
        self.embedding = Embeddings(config.embeddings, embed_dim, key=keys[0])
        self.encoder = RNNStack(encoder, key=keys[1])
        self.decoder = RNNStack(decoder, key=keys[2])
        self.attention = attention and RNNAttention(
            attention,
            query_dim=decoder.output_dims[-1],
            encoded_dim=encoder.output_dims[-1],
            key=keys[3],
            init=init,
        )
        self.heads = Heads(config.heads, config.embeddings, config.output_dim, key=keys[4], init=init)
        # Of a layer that can't begin with the encoder's last state itself.
        self.bridge = (
            None
            if self._starts_with_encoder_states(config)
            else nnx.Dict(
                {
                    str(layer): Linear(*widths, axes=("embed", "mlp"), key=layer_key, init=init, bias=True)
                    for layer, (widths, layer_key) in enumerate(
                        zip(
                            _bridge_widths(config),
                            jax.random.split(keys[5], len(decoder.hidden_dims)),
                            strict=True,
                        )
                    )
                }
            )
        )
        self.config = config

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of the token after every position of the decoder's stream.

        Rows for a head have no decoder's stream: the decoder reads the input again (see ``with_decoder_stream``).
        """
        batch = with_decoder_stream(batch, self.config.decoder_start_token_id)
        encoded = self._encode(
            batch.encoder_input_tokens, batch.encoder_segment_ids, fold(dropout_key, _ENCODER_SITE)
        )
        cache = self._start(encoded, batch.encoder_segment_ids)
        output = self._read(
            batch.decoder_input_tokens, batch.decoder_segment_ids, cache, fold(dropout_key, _DECODER_SITE)
        )
        output = dropout(output, self.config.dropout_rate, fold(dropout_key, _OUTPUTS_SITE))
        logits, pooled, scores = self.heads(
            output,
            self.embedding.tokens,
            batch.decoder_segment_ids,
            dropout_key=fold(dropout_key, HEADS_SITE),
        )
        return Predictions(
            logits=logits,
            encoder_output=encoded.output,
            decoder_output=output,
            pooled=pooled,
            heads=scores,
        )

    def encode(
        self, tokens: Int[Array, "B M"], segment_ids: Int[Array, "B M"] | None = None
    ) -> Float[Array, "B M E"]:
        """Return the encoder's output.

        Args:
          tokens: Input ids.
          segment_ids: 0 for padding; None for rows without padding.
        """
        return self._encode(tokens, segment_ids, None).output

    def prefill(
        self, prompts: Int[Array, "B M"], mask: Int[Array, "B M"], *, max_new_tokens: int, start_id: int
    ) -> tuple[Int[Array, " B"], RNNDecoderCache]:
        """Encode prompts for generation; see ``PromptContinuation``."""
        del max_new_tokens  # a state needs no room for them
        cache = self._start(self._encode(prompts, mask, None), mask)
        return jnp.full(len(prompts), start_id, jnp.int32), cache

    def decode_step(
        self, tokens: Int[Array, " R"], cache: RNNDecoderCache
    ) -> tuple[Float[Array, "R V"], RNNDecoderCache]:
        """Read one token of each row, and return scores of the next one and the updated cache.

        Rows are inputs, or the beams of one input after another.
        """
        with named_activations.scope("decoder"):
            embedded = self._embed_outputs(tokens[:, None], None)
            if self.attention is None:
                read = self.decoder(embedded, None, cache.states)
                output, cache = read.output, cache._replace(states=read.states)
            else:
                output, _, cache = self._attend_step(embedded, None, cache, None)
        logits = self.heads(output, self.embedding.tokens, None)[0]
        assert logits is not None, "a model without a head over the vocabulary can't generate"
        return whole_logits(logits)[:, 0], cache

    def reorder_cache(self, cache: RNNDecoderCache, origins: Int[Array, "B J"]) -> RNNDecoderCache:
        """Return the cache in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``."""
        rows = beam_rows(origins, num_rows=len(cache.states[0].hidden))
        return self._with_rows(cache, rows)

    def keep_inputs(
        self, cache: RNNDecoderCache, inputs: Int[Array, " C"], num_inputs: int
    ) -> RNNDecoderCache:
        """Return the cache of the inputs with the given indices, out of ``num_inputs``."""
        rows = input_rows(inputs, num_rows=len(cache.states[0].hidden), num_inputs=num_inputs)
        attended = jax.tree.map(lambda part: part[inputs], cache.attended)
        return self._with_rows(cache, rows)._replace(attended=attended)

    @staticmethod
    def _with_rows(cache: RNNDecoderCache, rows: Int[Array, " R"]) -> RNNDecoderCache:
        states, joined = jax.tree.map(lambda part: part[rows], (cache.states, cache.joined))
        return cache._replace(states=states, joined=joined)

    @staticmethod
    def _starts_with_encoder_states(config: RNNEncoderDecoderConfig) -> bool:
        encoder, decoder = config.encoder, config.decoder
        return encoder.direction != "both" and (encoder.hidden_dims, encoder.cell) == (
            decoder.hidden_dims,
            decoder.cell,
        )

    def _embed(self, tokens: Int[Array, "R L"], dropout_key: Key[Array, ""] | None) -> Float[Array, "R L D"]:
        embedded = self.embedding(tokens, dtype=jnp.dtype(self.config.compute_dtype))
        return dropout(embedded, self.config.dropout_rate, fold(dropout_key, _WORDS_SITE))

    def _embed_outputs(
        self, tokens: Int[Array, "R L"], dropout_key: Key[Array, ""] | None
    ) -> Float[Array, "R L D"]:
        embedded = self._embed(tokens, dropout_key)
        return named_activations.edited_hidden(embedded, 0, len(self.config.decoder.hidden_dims))

    def _encode(
        self,
        tokens: Int[Array, "B M"],
        segment_ids: Int[Array, "B M"] | None,
        dropout_key: Key[Array, ""] | None,
    ) -> RNNOutput:
        with named_activations.scope("encoder"):
            embedded = self._embed(tokens, dropout_key)
            embedded = named_activations.edited_hidden(embedded, 0, len(self.config.encoder.hidden_dims))
            encoded = self.encoder(embedded, segment_ids, dropout_key=fold(dropout_key, _STACK_SITE))
            named_activations.keep_hidden(lambda: encoded.hidden_states(embedded))
        return encoded

    def _start(self, encoded: RNNOutput, segment_ids: Int[Array, "B M"] | None) -> RNNDecoderCache:
        """Return the cache before the first token: states after the input, and its outputs."""
        states = encoded.states
        if self.bridge is not None:
            # The backward layer has read the whole input when it is at the first word (Bahdanau et al. 2015, §A.2.2).
            last = states[len(self.config.encoder.directions) - 1 :: len(self.config.encoder.directions)]
            zeros = self.decoder.zero_states(len(encoded.output))
            states = tuple(
                zero._replace(hidden=jnp.tanh(self.bridge[str(layer)](state.hidden)))
                for layer, (state, zero) in enumerate(zip(last, zeros, strict=True))
            )
        if self.attention is None:
            return RNNDecoderCache(states, None, None)
        joined = None
        if self.attention.config.input_feeding == "output":
            joined = jnp.zeros((len(encoded.output), self.config.output_dim), encoded.output.dtype)
        real = None if segment_ids is None else segment_ids > 0
        return RNNDecoderCache(states, joined, self.attention.prepare(encoded.output, real))

    def _read(
        self,
        tokens: Int[Array, "B L"],
        segment_ids: Int[Array, "B L"] | None,
        cache: RNNDecoderCache,
        dropout_key: Key[Array, ""] | None,
    ) -> Float[Array, "B L _"]:
        """Return the outputs that heads read."""
        with named_activations.scope("decoder"):
            embedded = self._embed_outputs(tokens, dropout_key)
            read, output = self._decode(embedded, segment_ids, cache, fold(dropout_key, _STACK_SITE))
            named_activations.keep_hidden(lambda: read.hidden_states(embedded))
        return output

    def _decode(
        self,
        embedded: Float[Array, "B L D"],
        segment_ids: Int[Array, "B L"] | None,
        cache: RNNDecoderCache,
        stack_key: Key[Array, ""] | None,
    ) -> tuple[RNNOutput, Float[Array, "B L _"]]:
        """Return the layers' outputs, and those that heads read."""
        if self.attention is None:
            read = self.decoder(embedded, segment_ids, cache.states, dropout_key=stack_key)
            return read, read.output
        if self.attention.config.input_feeding == "none":
            read = self.decoder(embedded, segment_ids, cache.states, dropout_key=stack_key)
            assert cache.attended is not None
            context = self.attention.context(read.output, cache.attended)
            return read, self.attention.join(read.output, context)

        model, cache = with_gathered_weights(self), constrain_state(cache)

        def step(
            carried: tuple[RNNStates, Array | None], position: tuple[Array, Array | None, Array]
        ) -> tuple[tuple[RNNStates, Array | None], tuple[Array, tuple[Array, ...]]]:
            embedded, segment_ids, step_index = position
            key = None if stack_key is None else jax.random.fold_in(stack_key, step_index)
            before = cache._replace(states=carried[0], joined=carried[1])
            output, read, after = model._attend_step(
                embedded[:, None], None if segment_ids is None else segment_ids[:, None], before, key
            )
            layers = tuple(each[:, 0] for each in read.layers)
            return constrain_state((after.states, after.joined)), constrain_state((output[:, 0], layers))

        by_position = (
            jnp.swapaxes(embedded, 0, 1),
            None if segment_ids is None else segment_ids.T,
            jnp.arange(embedded.shape[1]),
        )
        carried, outputs = jax.lax.scan(step, (cache.states, cache.joined), by_position)
        joined, layers = jax.tree.map(lambda each: jnp.swapaxes(each, 0, 1), outputs)
        return RNNOutput(layers[-1], layers, tuple(carried[0])), joined

    def _attend_step(
        self,
        embedded: Float[Array, "R 1 D"],
        segment_ids: Int[Array, "R 1"] | None,
        cache: RNNDecoderCache,
        dropout_key: Key[Array, ""] | None,
    ) -> tuple[Float[Array, "R 1 D"], RNNOutput, RNNDecoderCache]:
        """Read one position; a place of padding changes no state."""
        attention, attended = self.attention, cache.attended
        assert attention is not None
        assert attended is not None
        x, context = embedded, None
        if attention.config.input_feeding == "output":
            assert cache.joined is not None
            x = jnp.concatenate([x, cache.joined[:, None]], axis=-1)
        elif attention.config.input_feeding == "context":
            context = attention.context(cache.states[-1].hidden[:, None].astype(x.dtype), attended)
            x = jnp.concatenate([x, context], axis=-1)
        read = self.decoder(x, segment_ids, cache.states, dropout_key=dropout_key)
        context = attention.context(read.output, attended) if context is None else context
        output = attention.join(read.output, context)
        joined = None if cache.joined is None else output[:, 0]
        return output, read, cache._replace(states=read.states, joined=joined)


def _bridge_widths(config: RNNEncoderDecoderConfig) -> list[tuple[int, int]]:
    """Return the widths of each layer's last state in the encoder and of its first one in the decoder."""
    directions = len(config.encoder.directions)
    widths = [dim // directions for dim in config.encoder.output_dims]
    return list(zip(widths, config.decoder.output_dims, strict=True))


def decoder_input_dim(attention: RNNAttentionConfig | None, *, embed_dim: int, encoded_dim: int) -> int:
    """Return the width of what the decoder's first layer reads: an embedded token and what is fed with it.

    Args:
      attention: Attention to the encoder; None without.
      embed_dim: Width of an embedded token.
      encoded_dim: Width of the encoder's output.
    """
    fed = {"none": 0, "context": encoded_dim}
    if attention is None:
        return embed_dim
    return embed_dim + fed.get(attention.input_feeding, attention.output_dim)
