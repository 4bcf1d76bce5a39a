"""SpeechT5 in Hugging Face's files: fields of ``config.json`` and names of weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from t5x_like.model.families.speech_encoder_decoder import SpeechEncoderDecoderConfig
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.spec_augment import SpecAugmentConfig
from t5x_like.model.layers.spectrogram_nets import SpectrogramPostnetConfig, SpectrogramPrenetConfig
from t5x_like.model.layers.waveform_encoder import WaveformEncoderConfig
from t5x_like.model.spectrogram_loss import GuidedAttention
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field, NameTable
from t5x_like.model.zoo.weights import (
    SAME,
    TRANSPOSED,
    Weight,
    WeightTransform,
    module_rows,
    padded_rows,
    per_layer,
)

_KERNEL = WeightTransform(np.transpose, np.transpose)  # PyTorch's convolutions store [out, in, time]
_COUNT = WeightTransform(lambda _: (), lambda: np.zeros(()))
_LENGTHS = WeightTransform(lambda array: array[0, 0], lambda array: array[None, None])
PREFIX = "speecht5."
_OUTPUT_LAYER = "text_decoder_postnet.lm_head.weight"

# Names of attention and of the norms after residuals in layers of each stack, which follow the path of our residual.
_ENCODER_LAYER = {"self_attention": ("attention", "layer_norm")}
_DECODER_LAYER = {
    "self_attention": ("self_attn", "self_attn_layer_norm"),
    "cross_attention": ("encoder_attn", "encoder_attn_layer_norm"),
}


def speecht5_weights(parts: SpeechEncoderDecoderConfig) -> tuple[Weight, ...]:
    """Return the weight table."""
    encoder, decoder = f"{PREFIX}encoder.", f"{PREFIX}decoder."
    reads, writes, postnet = parts.encoder_input, parts.decoder_input, parts.postnet
    rows = (
        _text_rows(reads, f"{encoder}prenet.")
        if isinstance(reads, EmbeddingsConfig)
        else _waveform_rows(reads, f"{encoder}prenet.")
    )
    rows += _norm_rows("encoder_norm", f"{encoder}wrapped_encoder.layer_norm")
    relative = f"{encoder}wrapped_encoder.embed_positions.pe_k.weight"
    rows.append(Weight("encoder/relative_bias/table", relative))
    rows += _layer_rows("encoder", f"{encoder}wrapped_encoder.", _ENCODER_LAYER, parts.encoder.num_layers)
    rows += _layer_rows("decoder", f"{decoder}wrapped_decoder.", _DECODER_LAYER, parts.decoder.num_layers)
    if isinstance(writes, EmbeddingsConfig):
        return (*rows, *_text_decoder_rows(writes, parts.heads, f"{decoder}prenet."))
    assert postnet is not None, "a decoder of frames has one"
    return (*rows, *_prenet_rows(writes, f"{decoder}prenet."), *_postnet_rows(postnet))


def weights_of_task(weights: Mapping[str, Any], *, reads_speech: bool, writes_speech: bool) -> dict[str, Any]:
    """Return the weights of a pretrained model that a model for one task has, by the paths of that model.

    Args:
      weights: Weights by path of a ``SpeechPretrainingModel``.
      reads_speech: The task's inputs are waveforms.
      writes_speech: The task's outputs are spectrograms.
    """
    own: dict[str, Any] = {}
    for path, weight in weights.items():
        net, _, rest = path.partition("/")
        match net:
            case "speech":
                is_input, is_output = (
                    rest.startswith(nets) for nets in ("encoder_input/", ("decoder_input/", "postnet/"))
                )
                if (reads_speech or not is_input) and (writes_speech or not is_output):
                    own[rest] = weight
            case "encoder_text" if not reads_speech:
                own[f"encoder_input/{rest}"] = weight
            case "decoder_text":
                if not writes_speech:
                    own[f"decoder_input/{rest}"] = weight
                if not reads_speech and rest.startswith("tokens/"):  # words that both nets of text share
                    own[f"encoder_input/{rest}"] = weight
            case "heads" if not writes_speech:
                own[path] = weight
    return own


def _text_rows(config: EmbeddingsConfig, prefix: str) -> list[Weight]:
    return [
        Weight("encoder_input/tokens/table", f"{prefix}embed_tokens.weight", _words(config)),
        Weight("encoder_input/position_scale", f"{prefix}encode_positions.alpha"),
    ]


def _text_decoder_rows(config: EmbeddingsConfig, heads: HeadsConfig, prefix: str) -> list[Weight]:
    assert heads.lm_head is not None, "a decoder of tokens has one"
    words, tied = _words(config), heads.lm_head.tie_word_embeddings
    copies = (_OUTPUT_LAYER,) if tied else ()
    rows = [Weight("decoder_input/tokens/table", f"{prefix}embed_tokens.weight", words, copies=copies)]
    if not tied:
        rows.append(Weight("heads/lm_head/projection/kernel", _OUTPUT_LAYER, words.then(TRANSPOSED)))
    for head in heads.scores:
        rows += module_rows({f"heads/scores/{head.name}/projection": f"{head.name}_head"})
    return rows


def _words(config: EmbeddingsConfig) -> WeightTransform:
    return padded_rows(config.vocab_size, config.padded_vocab_size)


def _waveform_rows(config: WaveformEncoderConfig, prefix: str) -> list[Weight]:
    rows, parts = [], "encoder_input"
    for layer in range(len(config.channels)):
        name = f"{prefix}feature_encoder.conv_layers.{layer}."
        rows.append(Weight(f"{parts}/convolutions/{layer}/kernel", f"{name}conv.weight", _KERNEL))
        if config.bias:
            rows.append(Weight(f"{parts}/convolutions/{layer}/bias", f"{name}conv.bias"))
        if layer == 0 or config.norm == "layer":
            rows += _norm_rows(f"{parts}/norms/{layer}", f"{name}layer_norm")
    names = {f"{parts}/norm": "layer_norm", f"{parts}/projection": "projection"}
    rows += module_rows(names, f"{prefix}feature_projection.")
    kernel = f"{prefix}pos_conv_embed.conv."
    weight = f"{kernel}parametrizations.weight.original"
    rows += [
        # Older files have the other names.
        Weight(f"{parts}/positions/length", f"{weight}0", _LENGTHS, copies=(f"{kernel}weight_g",)),
        Weight(f"{parts}/positions/direction", f"{weight}1", _KERNEL, copies=(f"{kernel}weight_v",)),
        Weight(f"{parts}/positions/bias", f"{kernel}bias"),
    ]
    if config.augment.has_vector:
        rows.append(Weight(f"{parts}/hidden", f"{prefix}masked_spec_embed"))
    return rows


def _norm_rows(path: str, name: str) -> list[Weight]:
    return [Weight(f"{path}/scale", f"{name}.weight"), Weight(f"{path}/bias", f"{name}.bias")]


def _prenet_rows(config: SpectrogramPrenetConfig, prefix: str) -> list[Weight]:
    parts = "decoder_input"
    names = {f"{parts}/hidden/{layer}": f"layers.{layer}" for layer in range(config.num_layers)}
    names |= {f"{parts}/output": "final_layer", f"{parts}/speaker": "speaker_embeds_layer"}
    alpha = Weight(f"{parts}/position_scale", f"{prefix}encode_positions.alpha", SAME)
    return [*module_rows(names, prefix), alpha]


def _postnet_rows(config: SpectrogramPostnetConfig) -> list[Weight]:
    prefix = "speech_decoder_postnet."
    rows = module_rows({"postnet/frames": "feat_out", "postnet/stop": "prob_out"}, prefix)
    for layer in range(config.num_layers):
        name, norm = f"{prefix}layers.{layer}.", f"postnet/norms/{layer}"
        rows.append(Weight(f"postnet/convolutions/{layer}/kernel", f"{name}conv.weight", _KERNEL))
        rows += _norm_rows(norm, f"{name}batch_norm")
        rows += [
            Weight(f"{norm}/running_mean", f"{name}batch_norm.running_mean"),
            Weight(f"{norm}/running_variance", f"{name}batch_norm.running_var"),
            # No weight, but files have it: the number of batches that the statistics are of.
            Weight((), f"{name}batch_norm.num_batches_tracked", _COUNT),
        ]
    return rows


def _layer_rows(
    stack: str, prefix: str, attentions: Mapping[str, tuple[str, str]], num_layers: int
) -> list[Weight]:
    names = {
        "feed_forward/up": "feed_forward.intermediate_dense",
        "feed_forward/down": "feed_forward.output_dense",
        "feed_forward_residual/final": "final_layer_norm",
    }
    for path, (attention, norm) in attentions.items():
        names[f"{path}_residual/final"] = norm
        for projection, name in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "out")):
            names[f"{path}/{projection}"] = f"{attention}.{name}_proj"
    layer = module_rows(names, f"{prefix}layers.{{layer}}.")
    return per_layer(f"{stack}/layers/0", tuple(range(num_layers)), layer)


def read_speecht5(fields: ConfigFields, values: dict[str, Any]) -> Mapping[str, object]:
    """Return options that the file has in several fields.

    Args:
      fields: Fields of the file.
      values: Values of the other options.
    """
    channels = values["conv_channels"]
    fields.must_be("num_feat_extract_layers", len(channels))
    augment = SpecAugmentConfig()
    guided = GuidedAttention(
        sigma=fields.take("guided_attention_loss_sigma", 0.4),
        scale=fields.take("guided_attention_loss_scale", 10.0),
        num_heads=fields.take("guided_attention_loss_num_heads", 2),
    )
    lists = ("conv_channels", "conv_kernel_sizes", "conv_strides")
    return {
        **{name: tuple(values[name]) for name in lists},
        "augment": SpecAugmentConfig(
            **{own: fields.take(name, getattr(augment, own)) for own, name in _AUGMENT.items()}
        ),
        "guided_attention": guided if fields.take("use_guided_attention_loss", True) else None,
    }


def write_speecht5(config: Any) -> Mapping[str, object]:
    """Return the fields of options that the file has in several, from a configuration."""
    guided = config.guided_attention or GuidedAttention()
    return {
        **{name: getattr(config.augment, own) for own, name in _AUGMENT.items()},
        "use_guided_attention_loss": config.guided_attention is not None,
        "guided_attention_loss_sigma": guided.sigma,
        "guided_attention_loss_scale": guided.scale,
        "guided_attention_loss_num_heads": guided.num_heads,
    }


_AUGMENT = {
    "enabled": "apply_spec_augment",
    "time_rate": "mask_time_prob",
    "time_length": "mask_time_length",
    "min_time_spans": "mask_time_min_masks",
    "feature_rate": "mask_feature_prob",
    "feature_length": "mask_feature_length",
    "min_feature_spans": "mask_feature_min_masks",
}
SPEECHT5_FIELDS = {
    "vocab_size": Field("vocab_size", 81),
    "model_dim": Field("hidden_size", 768),
    "encoder_mlp_dim": Field("encoder_ffn_dim", 3072),
    "decoder_mlp_dim": Field("decoder_ffn_dim", 3072),
    "num_encoder_heads": Field("encoder_attention_heads", 12),
    "num_decoder_heads": Field("decoder_attention_heads", 12),
    "num_encoder_layers": Field("encoder_layers", 12),
    "num_decoder_layers": Field("decoder_layers", 6),
    "activation": Field("hidden_act", "gelu", ACTIVATION_NAMES),
    "norm_epsilon": Field("layer_norm_eps", 1e-5),
    "scale_embedding": Field("scale_embedding", False),
    "tie_word_embeddings": Field("tie_word_embeddings", True),
    "max_relative_distance": Field("encoder_max_relative_position", 160),
    "max_text_positions": Field("max_text_positions", 450),
    "max_speech_positions": Field("max_speech_positions", 4000),
    "pad_token_id": Field("pad_token_id", 1),
    "conv_channels": Field("conv_dim", (512,) * 7, kind=list),
    "conv_kernel_sizes": Field("conv_kernel", (10, 3, 3, 3, 3, 2, 2), kind=list),
    "conv_strides": Field("conv_stride", (5, 2, 2, 2, 2, 2, 2), kind=list),
    "conv_bias": Field("conv_bias", False),
    "conv_norm": Field("feat_extract_norm", "group", NameTable({"group": "group", "layer": "layer"})),
    "conv_activation": Field("feat_extract_activation", "gelu", ACTIVATION_NAMES),
    "position_kernel_size": Field("num_conv_pos_embeddings", 128),
    "position_groups": Field("num_conv_pos_embedding_groups", 16),
    "num_mel_bins": Field("num_mel_bins", 80),
    "prenet_layers": Field("speech_decoder_prenet_layers", 2),
    "prenet_units": Field("speech_decoder_prenet_units", 256),
    "prenet_dropout_rate": Field("speech_decoder_prenet_dropout", 0.5),
    "speaker_dim": Field("speaker_embedding_dim", 512),
    "postnet_layers": Field("speech_decoder_postnet_layers", 5),
    "postnet_units": Field("speech_decoder_postnet_units", 256),
    "postnet_kernel_size": Field("speech_decoder_postnet_kernel", 5),
    "postnet_dropout_rate": Field("speech_decoder_postnet_dropout", 0.5),
    "reduction_factor": Field("reduction_factor", 2),
    "dropout_rate": Field("hidden_dropout", 0.1),
}
# Rates of dropout at single places, of which there is one here; and sizes that follow from others.
SPEECHT5_IGNORED = (
    "attention_dropout",
    "activation_dropout",
    "positional_dropout",
    "feat_proj_dropout",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "num_hidden_layers",
    "num_attention_heads",
)
