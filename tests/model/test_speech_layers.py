"""Layers of models of speech: what they compute that comparisons with transformers don't show by themselves."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import named_activations, parameters
from t5x_like.model.families.speech_encoder_decoder import SpeechEncoderDecoderConfig
from t5x_like.model.layers.convolution import (
    ChannelNorm,
    Convolution,
    ConvolutionConfig,
    StatisticsNorm,
    WeightNormConvolution,
)
from t5x_like.model.layers.positions import RelativeKeys
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.sinusoids import SinusoidalPositions, sinusoids, sinusoids_of
from t5x_like.model.layers.spec_augment import SpecAugmentConfig, draw_spans, hide_spans
from t5x_like.model.layers.spectrogram_nets import (
    SpectrogramPostnet,
    SpectrogramPostnetConfig,
    SpectrogramPrenet,
    SpectrogramPrenetConfig,
)
from t5x_like.model.layers.stack import Stack, StackConfig
from t5x_like.model.layers.waveform_encoder import WaveformEncoder, WaveformEncoderConfig
from t5x_like.model.zoo.bert_like import post_norm_block
from t5x_like.model.zoo.speecht5 import SpeechT5Config

FLOAT = jnp.dtype(jnp.float32)
KEY = jax.random.key(0)
NOISE = np.random.default_rng(0)


def random(*shape: int) -> jax.Array:
    return jnp.asarray(NOISE.normal(size=shape), jnp.float32)


def test_a_fresh_convolution_with_normalized_weights_has_the_lengths_of_its_kernel() -> None:
    config = ConvolutionConfig(num_outputs=4, kernel_size=3, groups=2, padding=1, bias=True)
    layer, x = WeightNormConvolution(config, 4, key=KEY), random(2, 5, 4)
    plain = Convolution(config, 4, key=KEY)
    plain.kernel[...] = layer.direction[...]
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-6)
    layer.direction[...] = layer.direction[...] * 7.0  # the length alone counts
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-6)
    layer.length[...] = 2.0 * layer.length[...]
    np.testing.assert_allclose(layer(x), 2.0 * plain(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 1, 0), (4, 3, 0), (5, 2, 2)])
def test_convolutions_have_the_number_of_steps_that_they_name(kernel: int, stride: int, padding: int) -> None:
    config = ConvolutionConfig(num_outputs=2, kernel_size=kernel, stride=stride, padding=padding)
    outputs = Convolution(config, 3, key=KEY)(random(1, 17, 3))
    assert outputs.shape[1] == config.num_steps(17)


def test_channels_are_normalized_over_time() -> None:
    normalized = ChannelNorm(3)(4.0 + 2.0 * random(2, 50, 3))
    np.testing.assert_allclose(jnp.mean(normalized, axis=1), 0.0, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jnp.std(normalized, axis=1), 1.0, atol=1e-4)


def test_recorded_statistics_normalize_and_get_no_gradient() -> None:
    norm = StatisticsNorm(2)
    norm.running_mean[...] = jnp.array([1.0, -1.0])
    norm.running_variance[...] = jnp.array([4.0, 0.25])
    result = norm(jnp.array([[[3.0, 0.0]]]))
    np.testing.assert_allclose(result, [[[1.0, 2.0]]], rtol=1e-4)
    graphdef, params = parameters.split(norm)
    gradients = jax.grad(lambda params: jnp.sum(parameters.merge(graphdef, params)(random(1, 4, 2)) ** 2))(
        params
    )
    assert float(jnp.abs(gradients["scale"]).min()) > 0
    for name in ("running_mean", "running_variance"):
        np.testing.assert_array_equal(gradients[name], 0.0)


def test_padding_has_no_sinusoids_and_is_not_counted() -> None:
    config = SinusoidalPositions(offset=2, padding_id=1)
    result = sinusoids_of(jnp.array([[5, 1, 7, 8]]), None, 6, config)
    expected = sinusoids(jnp.array([[0, 1, 2]]), 6, config)
    np.testing.assert_allclose(result[:, [0, 2, 3]], expected)
    np.testing.assert_array_equal(result[:, 1], 0.0)


def test_sines_and_cosines_may_alternate() -> None:
    positions = jnp.array([[3]])
    apart = sinusoids(positions, 5, SinusoidalPositions())[0, 0]
    mixed = sinusoids(positions, 5, SinusoidalPositions(interleaved=True))[0, 0]
    np.testing.assert_allclose(mixed, apart[jnp.array([0, 3, 1, 4, 2])])


def relative_stack(max_distance: int, implementation: str = "auto") -> Stack:
    block = post_norm_block(
        model_dim=8, mlp_dim=8, num_heads=2, activation="gelu", norm_epsilon=1e-5, dropout_rate=0.0
    )
    config = StackConfig(
        blocks=(block,),
        relative_positions=RelativeKeys(max_distance=max_distance),
        attention_implementation=implementation,  # pyright: ignore[reportArgumentType]
    )
    return Stack(config, key=KEY)


def probabilities(stack: Stack, x: jax.Array) -> jax.Array:
    name = "encoder/self_attention/probabilities"
    with named_activations.record((name,)) as captured, named_activations.scope("encoder"):
        stack(x, AttentionContext(bidirectional=True))
    return captured["encoder/self_attention/probabilities"][0]


def test_far_keys_share_a_vector_and_near_ones_have_their_own() -> None:
    stack = relative_stack(2)
    same = jnp.broadcast_to(random(1, 1, 8), (1, 6, 8))  # scores then depend on the distance alone
    stack.relative_bias.table[...] = random(4, 4)  # pyright: ignore[reportOptionalMemberAccess]
    weights = probabilities(stack, same)[0, 0]
    ratios = weights / weights[jnp.arange(6), jnp.arange(6)][:, None]
    # Distances from the query to earlier keys are 1 and more; later keys have two vectors.
    assert float(ratios[5, 4]) == pytest.approx(float(ratios[5, 0]), rel=1e-5)
    assert float(ratios[0, 2]) == pytest.approx(float(ratios[0, 5]), rel=1e-5)
    assert (
        len({round(float(each), 5) for each in (ratios[2, 1], ratios[2, 2], ratios[2, 3], ratios[2, 4])}) == 4
    )


@pytest.mark.parametrize("implementation", ["blockwise", "pallas", "cudnn"])
def test_keys_of_distances_need_plain_attention(implementation: str) -> None:
    stack = relative_stack(2, implementation)
    with pytest.raises(ValueError, match="vectors of distances are only computed plainly"):
        stack(random(1, 4, 8), AttentionContext(bidirectional=True))


def test_keys_of_distances_are_for_stacks_that_read_both_ways() -> None:
    with pytest.raises(ValueError, match="are for stacks that read both ways"):
        relative_stack(2)(random(1, 4, 8), AttentionContext())


def test_spans_begin_inside_of_the_row_and_cover_their_share() -> None:
    lengths = jnp.array([200, 60, 4])
    hidden = draw_spans(KEY, lengths, 200, rate=0.2, length=5, min_spans=2)
    counts = hidden.sum(axis=1)
    assert 10 <= int(counts[0]) <= 40
    assert int(counts[1]) >= 5
    assert int(counts[2]) == 0  # no room
    assert not bool(hidden[1, 60:].any())


def test_hidden_steps_are_a_vector_and_hidden_features_are_zero() -> None:
    x, vector, lengths = 1.0 + jnp.abs(random(2, 40, 8)), -jnp.ones(8), jnp.array([40, 40])
    config = SpecAugmentConfig(time_rate=0.2, time_length=4, feature_rate=0.4, feature_length=2)
    result = hide_spans(x, vector, lengths, config, KEY)
    assert bool((result == -1.0).any())
    assert bool((result == 0.0).all(axis=1).any(axis=1).all())
    off = hide_spans(x, vector, lengths, replace(config, enabled=False), KEY)
    np.testing.assert_array_equal(off, x)


def test_training_hides_frames_and_use_does_not() -> None:
    config = WaveformEncoderConfig(
        channels=(4,),
        kernel_sizes=(4,),
        strides=(2,),
        position_kernel_size=2,
        position_groups=1,
        augment=SpecAugmentConfig(time_rate=0.5, time_length=3),
    )
    net, waveforms = WaveformEncoder(config, 6, key=KEY), random(1, 80)
    plain = net(waveforms, None, dtype=FLOAT).vectors
    np.testing.assert_array_equal(net(waveforms, None, dtype=FLOAT).vectors, plain)
    hidden = net(waveforms, None, dtype=FLOAT, dropout_key=KEY).vectors
    assert int(jnp.any(jnp.abs(hidden - plain) > 1e-4, axis=-1).sum()) > 0


def test_the_shortest_waveform_has_one_frame() -> None:
    config = SpeechT5Config().waveforms
    assert config.num_frames(config.min_samples) == 1
    assert config.num_frames(config.min_samples - 1) == 0
    assert config.num_frames(16_000) == 49


def test_the_net_before_a_decoder_keeps_the_same_units_in_all_rows_and_others_by_another_key() -> None:
    net = SpectrogramPrenet(
        SpectrogramPrenetConfig(num_mel_bins=3, units=16, speaker_dim=2, num_layers=1), 4, key=KEY
    )
    frames = jnp.broadcast_to(random(1, 5, 3), (2, 5, 3))
    positions = jnp.arange(5)[None]
    first = net(frames, None, positions, dtype=FLOAT, key=KEY)
    np.testing.assert_array_equal(first[0], first[1])
    other = net(frames, None, positions, dtype=FLOAT, key=jax.random.key(1))
    assert float(jnp.abs(first - other).max()) > 1e-4


def test_a_dropout_rate_of_zero_leaves_nothing_of_the_frames() -> None:
    config = SpectrogramPrenetConfig(num_mel_bins=3, units=8, speaker_dim=2, dropout_rate=0.0)
    net, positions = SpectrogramPrenet(config, 4, key=KEY), jnp.arange(5)[None]
    first, other = (net(random(1, 5, 3), None, positions, dtype=FLOAT, key=KEY) for _ in range(2))
    np.testing.assert_array_equal(first, other)


def test_the_length_of_a_speakers_vector_does_not_matter() -> None:
    net = SpectrogramPrenet(SpectrogramPrenetConfig(num_mel_bins=3, units=8, speaker_dim=2), 4, key=KEY)
    frames, speakers, positions = random(1, 5, 3), random(1, 2), jnp.arange(5)[None]
    result = [net(frames, each, positions, dtype=FLOAT, key=KEY) for each in (speakers, 3.0 * speakers)]
    np.testing.assert_allclose(*result, rtol=1e-5)
    zeros = net(frames, jnp.zeros((1, 2)), positions, dtype=FLOAT, key=KEY)
    assert bool(jnp.isfinite(zeros).all())


def test_frames_after_the_end_of_a_row_do_not_reach_it() -> None:
    config = SpectrogramPostnetConfig(num_mel_bins=3, num_layers=3, units=4, reduction_factor=2)
    postnet, frames = SpectrogramPostnet(config, 4, key=KEY), random(1, 8, 3)
    for norm in postnet.norms.values():
        norm.bias[...] = random(*norm.bias.shape)  # so that padding would not stay zero
    result = postnet.refine(frames, jnp.arange(8)[None] < 5)
    np.testing.assert_allclose(result[:, :5], postnet.refine(frames[:, :5]), atol=1e-6)
    np.testing.assert_array_equal(result[:, 5:], 0.0)


def test_a_model_names_the_stream_that_a_batch_lacks() -> None:
    config = SpeechT5Config(
        model_dim=16, num_encoder_heads=2, num_decoder_heads=2, num_encoder_layers=1, num_decoder_layers=1
    )
    model = config.build(KEY)
    with pytest.raises(ValueError, match="the batch has no stream 'waveforms'"):
        model(Batch(decoder_input_tokens=jnp.zeros((1, 2), jnp.int32)))


def test_a_decoder_of_frames_needs_a_postnet() -> None:
    parts = SpeechT5Config(task="text_to_speech").parts
    with pytest.raises(ValueError, match="needs a postnet"):
        SpeechEncoderDecoderConfig(**{**vars(parts), "postnet": None})


def test_a_record_inside_of_another_serves_both() -> None:
    stack, x = relative_stack(2), random(1, 4, 8)
    with named_activations.record(("encoder/hidden_states",)) as outer:
        inside = probabilities(stack, x)
    assert inside.shape == (1, 2, 4, 4)
    assert list(outer) == ["encoder/hidden_states"]
