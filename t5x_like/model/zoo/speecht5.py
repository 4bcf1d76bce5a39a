"""SpeechT5 (Ao et al. 2022, https://arxiv.org/abs/2110.07205)."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from t5x_like.config_class import config_class
from t5x_like.model.families.speech_and_text import ClusterHeadConfig, SpeechPretrainingConfig
from t5x_like.model.families.speech_encoder_decoder import CTC, SpeechEncoderDecoderConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig, ScoreHeadConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.positions import RelativeKeys
from t5x_like.model.layers.sinusoids import SinusoidalPositions
from t5x_like.model.layers.spec_augment import SpecAugmentConfig
from t5x_like.model.layers.spectrogram_nets import SpectrogramPostnetConfig, SpectrogramPrenetConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.layers.vector_quantizer import VectorQuantizerConfig
from t5x_like.model.layers.waveform_encoder import WaveformEncoderConfig
from t5x_like.model.spectrogram_loss import GuidedAttention
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.bert_like import post_norm_block
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.speecht5_files import (
    PREFIX,
    SPEECHT5_FIELDS,
    SPEECHT5_IGNORED,
    read_speecht5,
    speecht5_weights,
    weights_of_task,
    write_speecht5,
)
from t5x_like.model.zoo.weights import Weight

_PRETRAINING: ModelTask = "speech_pretraining"
_SPEECH_IN: tuple[ModelTask, ...] = ("speech_to_text", "speech_to_speech", _PRETRAINING)
_SPEECH_OUT: tuple[ModelTask, ...] = ("text_to_speech", "speech_to_speech", _PRETRAINING)

# Weights that train together: all of a net, apart from the postnet's norms.
_FOLDER = re.compile(r"(speech/)?(postnet/)?[^/]+")


@config_class
class SpeechT5Config(CommonConfig):
    """A SpeechT5 of any size. ``task`` decides which nets it has; the stacks are the same for all tasks.

    ``task="speech_pretraining"`` has all nets, for ``SpeechPretraining``. A model for another task starts from its
    weights.

    Attributes:
      encoder_mlp_dim: Inner width of the encoder's feed-forward layers.
      decoder_mlp_dim: Inner width of the decoder's feed-forward layers.
      num_encoder_heads: Attention heads of each encoder layer.
      num_decoder_heads: Attention heads of each decoder layer.
      num_encoder_layers: Blocks of the encoder.
      num_decoder_layers: Blocks of the decoder.
      activation: Nonlinearity of the feed-forward layers.
      norm_epsilon: Added to the variance in norms of the stacks, and before the projection of speech features.
      scale_embedding: Multiplies the decoder's word embeddings by the square root of the width.
      tie_word_embeddings: Scores words by their embeddings.
      max_relative_distance: Distance from which on the encoder's relative positions share a vector.
      max_text_positions: Longest text; exported, and no limit here.
      max_speech_positions: Longest speech in frames; exported, and no limit here.
      pad_token_id: Id of padding. Tokens of the text decoder with it have no position, and positions count from it on.
      conv_channels: Channels of each convolution over the waveform.
      conv_kernel_sizes: Samples or frames that an output depends on.
      conv_strides: Samples or frames from one output to the next.
      conv_bias: These convolutions have a bias.
      conv_norm: Norms of the first convolution's channels over time, or of all convolutions' frames.
      conv_activation: Nonlinearity of the convolutions, and of convolved positions.
      position_kernel_size: Frames that a convolved position depends on.
      position_groups: Groups of channels of that convolution.
      augment: Spans of speech that training hides.
      num_mel_bins: Mel filters of a spectrogram.
      prenet_layers: Layers before a decoder of spectrograms.
      prenet_units: Width of these layers.
      prenet_dropout_rate: Probability that a unit of these layers is kept, in use as in training; named as in
        published files, which have 0.5.
      speaker_dim: Numbers of a speaker's vector.
      postnet_layers: Convolutions over predicted spectrograms.
      postnet_units: Channels between them.
      postnet_kernel_size: Frames that each of them sees.
      postnet_dropout_rate: Dropout after each of them.
      reduction_factor: Frames that a step of the decoder predicts.
      guided_attention: Loss of attention far from the diagonal, for text to speech; ``None`` for none.
      has_ctc_head: A model of speech to text scores the vocabulary for each frame of the encoder, too, for
        ``SpeechRecognition``.
      clusters: Head over clusters of frames, in pretraining.
      quantizer: Codebooks between encoder and decoder, in pretraining.
    """

    vocab_size: int = 81
    model_dim: int = 768
    encoder_mlp_dim: int = 3072
    decoder_mlp_dim: int = 3072
    num_encoder_heads: int = 12
    num_decoder_heads: int = 12
    num_encoder_layers: int = 12
    num_decoder_layers: int = 6
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-5
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    max_relative_distance: int = 160
    max_text_positions: int = 450
    max_speech_positions: int = 4000
    pad_token_id: int = 1
    conv_channels: tuple[int, ...] = (512,) * 7
    conv_kernel_sizes: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    conv_strides: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)
    conv_bias: bool = False
    conv_norm: Literal["group", "layer"] = "group"
    conv_activation: Activation = "gelu"
    position_kernel_size: int = 128
    position_groups: int = 16
    augment: SpecAugmentConfig = SpecAugmentConfig()
    num_mel_bins: int = 80
    prenet_layers: int = 2
    prenet_units: int = 256
    prenet_dropout_rate: float = 0.5
    speaker_dim: int = 512
    postnet_layers: int = 5
    postnet_units: int = 256
    postnet_kernel_size: int = 5
    postnet_dropout_rate: float = 0.5
    reduction_factor: int = 2
    guided_attention: GuidedAttention | None = GuidedAttention()
    has_ctc_head: bool = False
    clusters: ClusterHeadConfig = ClusterHeadConfig()
    quantizer: VectorQuantizerConfig = VectorQuantizerConfig()
    task: ModelTask = "speech_to_text"

    can_pack: ClassVar[bool] = False  # a row of speech is one example

    @property
    def reads_speech(self) -> bool:
        """True if inputs are waveforms; in pretraining they are text, too."""
        return self.task in _SPEECH_IN

    @property
    def writes_speech(self) -> bool:
        """True if outputs are spectrograms; in pretraining they are text, too."""
        return self.task in _SPEECH_OUT

    @property
    def parts(self) -> SpeechEncoderDecoderConfig | SpeechPretrainingConfig:
        """Configuration of the family's model.

        Raises:
          ValueError: It has no nets for the task.
        """
        if not (self.reads_speech or self.writes_speech):
            raise ValueError(
                f"a SpeechT5 has no nets for the task {self.task!r}; take speech_to_text, text_to_speech, "
                "speech_to_speech or speech_pretraining"
            )
        if self.task == _PRETRAINING:
            return SpeechPretrainingConfig(
                speech=self.nets,
                encoder_text=self._text("encoder"),
                decoder_text=self._text("decoder"),
                heads=self._heads,
                clusters=self.clusters,
                quantizer=self.quantizer,
            )
        return self.nets

    @property
    def nets(self) -> SpeechEncoderDecoderConfig:
        """Stacks with one net on each side."""
        return SpeechEncoderDecoderConfig(
            encoder_input=self.waveforms if self.reads_speech else self._text("encoder"),
            encoder_norm=LayerNormConfig(epsilon=self.norm_epsilon),
            encoder=self._stack("encoder"),
            decoder_input=self._prenet if self.writes_speech else self._text("decoder"),
            decoder=self._stack("decoder"),
            heads=HeadsConfig() if self.writes_speech else self._heads,
            postnet=self._postnet if self.writes_speech else None,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig | None:
        """Embeddings of the text that is read or written; ``None`` for speech to speech."""
        if self.task == "speech_to_speech":
            return None
        return self._text("encoder" if self.task == "text_to_speech" else "decoder")

    @property
    def waveforms(self) -> WaveformEncoderConfig:
        """Net from waveforms to the encoder."""
        # Real frames are tokens 0 and padding is token 1 there. Published models pad text with id 1, too.
        return WaveformEncoderConfig(
            channels=self.conv_channels,
            kernel_sizes=self.conv_kernel_sizes,
            strides=self.conv_strides,
            bias=self.conv_bias,
            norm=self.conv_norm,
            activation=self.conv_activation,
            norm_epsilon=self.norm_epsilon,
            position_kernel_size=self.position_kernel_size,
            position_groups=self.position_groups,
            sinusoids=self._counted_positions,
            augment=self.augment,
            dropout_rate=self.dropout_rate,
        )

    @property
    def _counted_positions(self) -> SinusoidalPositions:
        pad = self.pad_token_id
        return SinusoidalPositions(offset=pad + 1, wavelengths="tensor2tensor", padding_id=pad)

    def _text(self, stack: Literal["encoder", "decoder"]) -> EmbeddingsConfig:
        if stack == "encoder":
            return self.embeddings_of(sinusoidal_positions=SinusoidalPositions(interleaved=True, scaled=True))
        scale = self.model_dim**0.5 if self.scale_embedding else 1.0
        return self.embeddings_of(sinusoidal_positions=self._counted_positions, scale=scale)

    @property
    def _prenet(self) -> SpectrogramPrenetConfig:
        return SpectrogramPrenetConfig(
            num_mel_bins=self.num_mel_bins,
            num_layers=self.prenet_layers,
            units=self.prenet_units,
            dropout_rate=self.prenet_dropout_rate,
            speaker_dim=self.speaker_dim,
        )

    @property
    def _postnet(self) -> SpectrogramPostnetConfig:
        return SpectrogramPostnetConfig(
            num_mel_bins=self.num_mel_bins,
            reduction_factor=self.reduction_factor,
            num_layers=self.postnet_layers,
            units=self.postnet_units,
            kernel_size=self.postnet_kernel_size,
            dropout_rate=self.postnet_dropout_rate,
        )

    @property
    def _heads(self) -> HeadsConfig:
        ctc = ScoreHeadConfig(name=CTC, input="tokens", num_outputs=self.vocab_size)
        return HeadsConfig(
            lm_head=LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings),
            scores=(ctc,) if self.has_ctc_head else (),
        )

    def _stack(self, stack: Literal["encoder", "decoder"]) -> StackConfig:
        is_encoder = stack == "encoder"
        return StackConfig(
            blocks=(self._block(stack),)
            * (self.num_encoder_layers if is_encoder else self.num_decoder_layers),
            relative_positions=RelativeKeys(max_distance=self.max_relative_distance) if is_encoder else None,
            remat=self.remat,
            scan_layers=self.scan_layers,
            attention_implementation=self.attention_implementation,
        )

    def _block(self, stack: Literal["encoder", "decoder"]) -> BlockConfig:
        is_encoder = stack == "encoder"
        block = post_norm_block(
            model_dim=self.model_dim,
            mlp_dim=self.encoder_mlp_dim if is_encoder else self.decoder_mlp_dim,
            num_heads=self.num_encoder_heads if is_encoder else self.num_decoder_heads,
            activation=self.activation,
            norm_epsilon=self.norm_epsilon,
            dropout_rate=self.dropout_rate,
        )
        return block if is_encoder else replace(block, cross_attention=block.attention)

    def trained_by_default(self, paths: Collection[str]) -> tuple[str, ...]:
        """Return patterns of all weights but the recorded statistics of the postnet's norms."""
        folders = {_FOLDER.match(path)[0] for path in paths}  # pyright: ignore[reportOptionalSubscript]
        norms = {folder for folder in folders if folder.endswith("postnet/norms")}
        parts = (f"{folder}/*" for folder in folders - norms)
        scales = (f"{folder}/*/{name}" for folder in norms for name in ("scale", "bias"))
        return (*sorted(parts), *sorted(scales))

    def taken_from(self, saved: object, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the weights of this model's nets among those of a pretrained model, by this one's paths."""
        if not isinstance(saved, SpeechT5Config) or saved.task != _PRETRAINING or self.task == _PRETRAINING:
            return weights
        return weights_of_task(weights, reads_speech=self.reads_speech, writes_speech=self.writes_speech)


def _with_stored_heads(config: SpeechT5Config, names: Collection[str]) -> SpeechT5Config:
    """Return the configuration with the head for CTC, if the files have it; transformers has no field for it."""
    has_head = any(name.startswith(f"{CTC}_head.") for name in names)
    return replace(config, has_ctc_head=True) if has_head else config


def _weight_table(config: SpeechT5Config) -> tuple[Weight, ...]:
    """Return the weight table of a model for one task.

    Raises:
      ValueError: It has the nets of all tasks.
    """
    if config.task == _PRETRAINING:
        raise ValueError(
            f"transformers has no class of a SpeechT5 for the task {config.task!r}, which has the nets of all tasks; "
            "fine-tune it for one task, and export that model"
        )
    return speecht5_weights(config.nets)


SPEECHT5 = published(
    "speecht5",
    SpeechT5Config,
    {
        "SpeechT5ForSpeechToText": "speech_to_text",
        "SpeechT5ForTextToSpeech": "text_to_speech",
        "SpeechT5ForSpeechToSpeech": "speech_to_speech",
    },
    FieldTable(
        fields=SPEECHT5_FIELDS,
        fixed={"is_encoder_decoder": True},
        ignored=SPEECHT5_IGNORED,
        written={"bos_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 2},
        default_task="speech_to_text",
        read=read_speecht5,
        write=write_speecht5,
    ),
    weights=_weight_table,
    prefix=PREFIX,
    as_stored=_with_stored_heads,
    special_ids={"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2},
)
