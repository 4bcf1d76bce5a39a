"""Encoder-decoders of speech and text: waveforms or tokens in, tokens or spectrograms out (Ao et al. 2022, §2).

https://arxiv.org/abs/2110.07205
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import DECODER_FRAMES, SPEAKERS, WAVEFORM_LENGTHS, WAVEFORMS, Batch, DeclaredStreams
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import FamilyName, Predictions
from t5x_like.model.heads import Heads, HeadsConfig
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embedding, Embeddings, EmbeddingsConfig
from t5x_like.model.layers.kv_cache import DecoderCache, keep_inputs, one_beam, reorder
from t5x_like.model.layers.masks import AttentionMask, real_tokens, segment_mask
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.rolling_cache import step_context
from t5x_like.model.layers.routing_sums import RoutingSums, add_routing
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.spectrogram_nets import (
    SpectrogramPostnet,
    SpectrogramPostnetConfig,
    SpectrogramPrenet,
    SpectrogramPrenetConfig,
)
from t5x_like.model.layers.stack import Stack, StackConfig
from t5x_like.model.layers.waveform_encoder import WaveformEncoder, WaveformEncoderConfig
from t5x_like.partitioning.activations import gather_output

# Names in ``Predictions.heads``.
COARSE_SPECTROGRAM, SPECTROGRAM, STOP = "coarse_spectrogram", "spectrogram", "stop"
CTC = "ctc"  # of the encoder's output

_PRENET_SITE = 10  # of the dropout key; those before it are of stacks and heads


@config_class
class SpeechEncoderDecoderConfig:
    """Two stacks, and a net on each side of them.

    Attributes:
      encoder_input: From waveforms or tokens to the encoder.
      encoder_norm: Norm of the encoder's inputs.
      encoder: Blocks of the encoder.
      decoder_input: From tokens or frames to the decoder.
      decoder: Blocks of the decoder.
      heads: Heads: that over the vocabulary reads the decoder, that for CTC the encoder.
      postnet: Frames from the decoder's outputs; ``None`` for a decoder of tokens.
      compute_dtype: Type of activations. Weights are float32.
    """

    encoder_input: WaveformEncoderConfig | EmbeddingsConfig
    encoder_norm: NormConfig
    encoder: StackConfig
    decoder_input: EmbeddingsConfig | SpectrogramPrenetConfig
    decoder: StackConfig
    heads: HeadsConfig = HeadsConfig()
    postnet: SpectrogramPostnetConfig | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        if (self.postnet is None) != isinstance(self.decoder_input, EmbeddingsConfig):
            raise ValueError(
                "a decoder that reads frames needs a postnet, and one that reads tokens has none"
            )

    def build(self, key: Key[Array, ""]) -> "SpeechEncoderDecoder":
        """Build the model with fresh weights drawn from ``key``."""
        return SpeechEncoderDecoder(self, key=key)


class EncodedSpeech(NamedTuple):
    """The encoder's output.

    Attributes:
      output: Output of the last block.
      segment_ids: 1 where it is real; ``None`` for everywhere.
      routing: Sums over routers of the stack; ``None`` without experts.
    """

    output: Float[Array, "B M D"]
    segment_ids: Int[Array, "B M"] | None
    routing: RoutingSums | None


class SpeechEncoderDecoder(nnx.Module):
    """Two stacks with nets for speech or text.

    A batch has waveforms or the encoder's tokens, and the decoder's tokens or frames. Streams of speech are declared
    (see ``t5x_like.batch``); ``decoder_segment_ids`` are those of the decoder's steps, tokens or frames.
    """

    family_name: ClassVar[FamilyName] = "speech_encoder_decoder"

    def __init__(self, config: SpeechEncoderDecoderConfig, *, key: Key[Array, ""]):
        keys = jax.random.split(key, 6)
        model_dim, init = config.decoder.model_dim, config.decoder.blocks[0].init
        reads, writes = config.encoder_input, config.decoder_input
        self.encoder_input = (
            Embeddings(reads, model_dim, key=keys[0])
            if isinstance(reads, EmbeddingsConfig)
            else WaveformEncoder(reads, model_dim, key=keys[0])
        )
        self.encoder_norm = config.encoder_norm.build(model_dim)
        self.encoder = Stack(config.encoder, key=keys[1])
        self.decoder_input = (
            Embeddings(writes, model_dim, key=keys[2])
            if isinstance(writes, EmbeddingsConfig)
            else SpectrogramPrenet(writes, model_dim, key=keys[2])
        )
        self.decoder = Stack(config.decoder, key=keys[3])
        words = next((each for each in (writes, reads) if isinstance(each, EmbeddingsConfig)), None)
        self.heads = Heads(config.heads, words, model_dim, key=keys[4], init=init)
        self.postnet = config.postnet and SpectrogramPostnet(config.postnet, model_dim, key=keys[5])
        self.config = config

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of the next tokens, or the frames after each step of the decoder with their stop flags.

        Units of the net before a decoder of frames are dropped without a key, too, always the same ones.
        """
        return self.decode(batch, self.encode(batch, fold(dropout_key, 0)), dropout_key=fold(dropout_key, 1))

    def encode(
        self,
        batch: Batch,
        dropout_key: Key[Array, ""] | None = None,
        *,
        is_hidden: Bool[Array, "B M"] | None = None,
    ) -> EncodedSpeech:
        """Return the encoder's output for waveforms or tokens.

        Args:
          batch: Streams of the encoder.
          dropout_key: None for no dropout.
          is_hidden: True for frames of waveforms to hide, in place of spans that are drawn.
        """
        segment_ids, net = batch.encoder_segment_ids, self.encoder_input
        if isinstance(net, WaveformEncoder):
            x, segment_ids = net(
                _declared(batch, WAVEFORMS),
                _optional(batch, WAVEFORM_LENGTHS),
                dtype=self._dtype,
                dropout_key=fold(dropout_key, _PRENET_SITE),
                is_hidden=is_hidden,
            )
        else:
            tokens = batch.encoder_input_tokens
            x = net(tokens, dtype=self._dtype, positions=batch.encoder_positions)
        context = AttentionContext(
            mask=AttentionMask(query_segment_ids=segment_ids, key_segment_ids=segment_ids),
            real=real_tokens(segment_ids),
            bidirectional=True,
        )
        with named_activations.scope("encoder"):
            encoded = self.encoder(self.encoder_norm(x), context, dropout_key=dropout_key)
        return EncodedSpeech(encoded.output, segment_ids, encoded.routing)

    def decode(
        self, batch: Batch, encoded: EncodedSpeech, *, dropout_key: Key[Array, ""] | None = None
    ) -> Predictions:
        """Return the predictions of a call, present the encoder's output.

        Args:
          batch: Streams of the decoder.
          encoded: Encoder's output.
          dropout_key: None for no dropout.
        """
        segment_ids, net = batch.decoder_segment_ids, self.decoder_input
        if isinstance(net, Embeddings):
            x = net(batch.decoder_input_tokens, dtype=self._dtype, positions=batch.decoder_positions)
        else:
            frames = _declared(batch, DECODER_FRAMES)
            x = net(
                frames,
                _optional(batch, SPEAKERS),
                jnp.arange(frames.shape[1])[None],
                dtype=self._dtype,
                key=_key_or_fixed(fold(dropout_key, _PRENET_SITE)),
            )
        context = AttentionContext(
            mask=AttentionMask(query_segment_ids=segment_ids, key_segment_ids=segment_ids, causal=True),
            real=real_tokens(segment_ids),
            positions=batch.decoder_positions,
            encoded=gather_output(encoded.output),
            encoded_mask=AttentionMask(key_segment_ids=encoded.segment_ids),
        )
        with named_activations.scope("decoder"):
            decoded = self.decoder(x, context, dropout_key=dropout_key)
        lm_head, heads = self.heads.lm_head, {}
        if CTC in self.heads.scores:
            heads[CTC] = self.heads.scores[CTC](encoded.output)
        if self.postnet is not None:
            predicted = self.postnet(decoded.output, dropout_key=fold(dropout_key, _PRENET_SITE + 1))
            heads |= {
                COARSE_SPECTROGRAM: predicted.coarse,
                SPECTROGRAM: predicted.refined,
                STOP: predicted.stop_logits,
            }
        return Predictions(
            logits=lm_head and lm_head(decoded.output, self._words),
            encoder_output=encoded.output,
            decoder_output=decoded.output,
            heads=heads,
            routing=add_routing(encoded.routing, decoded.routing),
        )

    def start_cache(self, encoded: EncodedSpeech, *, max_length: int) -> DecoderCache:
        """Return an empty cache with keys and values of the encoder's output.

        Args:
          encoded: Encoder's output.
          max_length: Number of tokens or steps to leave room for.
        """
        num_rows = len(encoded.output)
        return DecoderCache(
            layers=self.decoder.empty_caches(num_rows, max_length, encoded.output, self._dtype),
            index=jnp.zeros((), jnp.int32),
            beam_indices=one_beam(num_rows, max_length),
            encoded_mask=segment_mask(None, encoded.segment_ids),
        )

    def prefill(
        self, prompts: Float[Array, "B S"], mask: Int[Array, "B S"], *, max_new_tokens: int, start_id: int
    ) -> tuple[Int[Array, " B"], DecoderCache]:
        """Encode waveforms for the generation of text; see ``GenerativeModel``."""
        cache = self.start_cache(self.encode(waveform_batch(prompts, mask)), max_length=max_new_tokens)
        return jnp.full(len(prompts), start_id, jnp.int32), cache

    def decode_step(
        self, tokens: Int[Array, " R"], cache: DecoderCache
    ) -> tuple[Float[Array, "R V"], DecoderCache]:
        """Read one token of each row, and return scores of the next one and the updated cache.

        Rows are inputs, or the beams of one input after another.
        """
        net, lm_head = self.decoder_input, self.heads.lm_head
        assert isinstance(net, Embeddings)
        assert lm_head is not None
        context = step_context(cache, len(tokens))
        x = net(tokens[:, None], dtype=self._dtype, positions=context.positions)
        output, cache = self._step(x, cache, context)
        return lm_head.logits(output, self._words)[:, 0], cache

    def frame_step(
        self,
        frames: Float[Array, "B E"],
        speakers: Float[Array, "B S"] | None,
        cache: DecoderCache,
        key: Key[Array, ""],
    ) -> tuple[Float[Array, "B T E"], Float[Array, "B T"], DecoderCache]:
        """Read one frame of each row, and return the next ones, scores of the end, and the updated cache.

        Args:
          frames: Last frame of each row; zeros at first.
          speakers: Vectors of the rows' speakers.
          cache: Cache after the frames before.
          key: Random key of the units that are kept.
        """
        net, postnet = self.decoder_input, self.postnet
        assert isinstance(net, SpectrogramPrenet)
        assert postnet is not None
        context = step_context(cache, len(frames))
        assert context.positions is not None
        x = net(frames[:, None], speakers, context.positions, dtype=self._dtype, key=key)
        output, cache = self._step(x, cache, context)
        return *postnet.predict(output), cache

    def reorder_cache(self, cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
        """Return the cache in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``."""
        return reorder(cache, origins)

    def keep_inputs(self, cache: DecoderCache, inputs: Int[Array, " C"], num_inputs: int) -> DecoderCache:
        """Return the cache of the inputs with the present indices, out of ``num_inputs``."""
        return keep_inputs(cache, inputs, num_inputs)

    def _step(
        self, x: Float[Array, "R 1 D"], cache: DecoderCache, context: AttentionContext
    ) -> tuple[Float[Array, "R 1 D"], DecoderCache]:
        with named_activations.scope("decoder"):
            decoded = self.decoder.step(x, cache.layers, context)
        assert decoded.layer_caches is not None
        return decoded.output, cache._replace(layers=decoded.layer_caches, index=cache.index + 1)

    @property
    def _words(self) -> Embedding | None:
        net = self.decoder_input
        return net.tokens if isinstance(net, Embeddings) else None

    @property
    def _dtype(self) -> jnp.dtype:
        return jnp.dtype(self.config.compute_dtype)


def speech_batch(streams: Mapping[str, Array | None], **others: Array | None) -> Batch:
    """Return a batch with declared streams of speech.

    Args:
      streams: Streams by their names in ``t5x_like.batch``; those that are ``None`` are left out.
      **others: Further fields of the batch.
    """
    present = {name: stream for name, stream in streams.items() if stream is not None}
    return Batch(**others, declared=DeclaredStreams(example=present))


def waveform_batch(waveforms: Float[Array, "B S"], mask: Int[Array, "B S"]) -> Batch:
    """Return a batch of waveforms for an encoder.

    Args:
      waveforms: Samples, padded on the right.
      mask: 1 for real samples.
    """
    return speech_batch({WAVEFORMS: waveforms, WAVEFORM_LENGTHS: jnp.sum(mask, axis=1)})


def _optional(batch: Batch, name: str) -> Array | None:
    return None if batch.declared is None else batch.declared.example.get(name)


def _declared(batch: Batch, name: str) -> Array:
    stream = _optional(batch, name)
    if stream is None:
        raise ValueError(
            f"the batch has no stream {name!r}, which this model reads; declare it for each example"
        )
    return stream


def _key_or_fixed(key: Key[Array, ""] | None) -> Key[Array, ""]:
    return jax.random.key(0) if key is None else key
