"""Pretraining of speech and text with shared stacks: its losses, their gradients, and what starts from it."""

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import (
    CLUSTERS,
    SPEAKERS,
    SPECTROGRAM_LENGTHS,
    SPECTROGRAMS,
    WAVEFORM_LENGTHS,
    WAVEFORMS,
    Batch,
)
from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.model import parameters
from t5x_like.model.families.speech_and_text import ClusterHeadConfig, SpeechPretrainingModel
from t5x_like.model.families.speech_encoder_decoder import (
    COARSE_SPECTROGRAM,
    SPECTROGRAM,
    STOP,
    EncodedSpeech,
    speech_batch,
)
from t5x_like.model.layers.spec_augment import SpecAugmentConfig
from t5x_like.model.layers.vector_quantizer import VectorQuantizerConfig
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.method import LossContext
from t5x_like.training.methods.speech_pretraining import SpeechPretraining, cluster_losses
from t5x_like.training.methods.speech_recognition import SpeechRecognition
from t5x_like.training.methods.speech_synthesis import with_frames
from t5x_like.training.microbatches import Microbatch
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.state import new_state, plan_state
from t5x_like.training.step import train_step
from tests.training.test_speech_methods import SMALL

NUM_CLUSTERS, NUM_FRAMES = 5, 13
MODEL = replace(
    SMALL,
    task="speech_pretraining",
    dropout_rate=0.0,
    postnet_dropout_rate=0.0,
    clusters=ClusterHeadConfig(num_clusters=NUM_CLUSTERS, dim=4),
    quantizer=VectorQuantizerConfig(num_entries=4),
)
METHOD = SpeechPretraining(span_start_rate=0.15, span_length=2, loss=LossConfig(z_loss=0.0))
Params = parameters.Parameters


def rows() -> Batch:
    random = np.random.default_rng(0)
    tokens = random.integers(3, 12, (4, 6))
    streams: dict[str, Any] = {
        WAVEFORMS: random.normal(size=(4, 120)).astype(np.float32),
        WAVEFORM_LENGTHS: np.array([120, 120, 90, 80]),
        SPECTROGRAMS: random.normal(size=(4, 6, 3)).astype(np.float32),
        SPECTROGRAM_LENGTHS: np.array([6, 6, 4, 2]),
        SPEAKERS: random.normal(size=(4, 2)).astype(np.float32),
        CLUSTERS: random.integers(0, NUM_CLUSTERS, (4, NUM_FRAMES)),
    }
    others: dict[str, Any] = {
        "encoder_input_tokens": tokens[:, :5],
        "encoder_segment_ids": np.array([[1] * 5, [1] * 5, [1] * 4 + [0], [1] * 3 + [0] * 2]),
        "decoder_input_tokens": np.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=2),
        "decoder_segment_ids": np.ones((4, 6), np.int32),
        "target_tokens": tokens,
        "loss_weights": np.array([[1] * 6, [1] * 5 + [0], [1] * 3 + [0] * 3, [1] * 6], np.float32),
    }
    return jax.tree.map(jnp.asarray, speech_batch(streams, **others))


def with_stream(batch: Batch, name: str, array: Any) -> Batch:
    assert batch.declared is not None
    example = {**batch.declared.example, name: jnp.asarray(array)}
    return batch._replace(declared=batch.declared._replace(example=example))


def example_of(batch: Batch) -> dict[str, jax.Array]:
    assert batch.declared is not None
    return dict(batch.declared.example)


@pytest.fixture(scope="module")
def model() -> SpeechPretrainingModel:
    return jax.jit(MODEL.build)(jax.random.key(0))


@pytest.fixture(scope="module")
def loss_of(model: SpeechPretrainingModel) -> Callable[..., tuple[float, dict[str, float]]]:
    """Function of a method and a batch; the loss without dropout, and the means that are logged."""
    graphdef, params = parameters.split(model)

    @functools.cache
    def compiled(method: SpeechPretraining) -> Callable[..., Any]:
        @jax.jit
        def compute(params: Params, batch: Batch) -> Any:
            weights, normalizers = losses.normalize(batch, method.loss)
            context = LossContext(normalizers, 1, None, {})
            rows = Microbatch(batch, weights, {})
            total, (totals, _) = method.compute_loss(parameters.merge(graphdef, params), rows, context)
            return total, totals

        return compute

    def call(
        method: SpeechPretraining, batch: Batch, *, entry_scale: float = 1.0
    ) -> tuple[float, dict[str, float]]:
        scaled = jax.tree.map(lambda array: array * entry_scale, params["quantizer"]["entries"])
        changed = {**params, "quantizer": {**params["quantizer"], "entries": scaled}}
        total, totals = compiled(method)(changed, batch)
        means = {name: float(each.total / each.count) for name, each in totals.measures.items()}
        return float(total), {**means, "text": float(totals.cross_entropy / totals.target_tokens)}

    return call


def log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


@jax.jit
def outputs(model: SpeechPretrainingModel, batch: Batch, is_hidden: jax.Array) -> Any:
    """The model's outputs, where nothing is quantized."""
    speech, _, _ = with_frames(Batch(declared=batch.declared), 2)
    encoded = model.speech.encode(speech, is_hidden=is_hidden)
    spoken = model.speech.decode(speech, encoded)
    text = model.text(batch._replace(declared=None))
    return encoded.output, spoken.heads, text.logits


def test_losses_are_those_of_the_paper(model, loss_of) -> None:
    batch = rows()
    example = example_of(batch)
    is_hidden = METHOD.hidden_frames(model, example, None)
    encoded, heads, logits = jax.tree.map(np.asarray, outputs(model, batch, is_hidden))
    total, means = loss_of(replace(METHOD, mix_rate=0.0), batch)

    head = model.clusters
    frames = encoded @ np.asarray(head.projection.kernel[...]) + np.asarray(head.projection.bias[...])
    vectors = np.asarray(head.clusters[...])
    norms = np.linalg.norm(frames, axis=-1)[..., None] * np.linalg.norm(vectors, axis=-1)
    log_probs = log_softmax(frames @ vectors.T / norms / 0.1)
    clusters, hidden = np.asarray(example[CLUSTERS]), np.asarray(is_hidden)
    chosen = np.take_along_axis(log_probs, clusters[..., None], axis=-1)[..., 0]
    assert means["cluster_loss"] == pytest.approx(-chosen[hidden].mean(), rel=1e-4)
    right = log_probs.argmax(axis=-1) == clusters
    assert means["cluster_accuracy"] == pytest.approx(right[hidden].mean(), rel=1e-4)

    wanted, lengths = np.asarray(example[SPECTROGRAMS]), np.asarray(example[SPECTROGRAM_LENGTHS])
    real = np.arange(6)[None] < lengths[:, None]
    for name, key in (("coarse_l1", COARSE_SPECTROGRAM), ("refined_l1", SPECTROGRAM)):
        assert means[name] == pytest.approx(np.abs(heads[key] - wanted)[real].mean(), rel=1e-4)
    is_last = np.arange(6)[None] == lengths[:, None] - 1
    stops = np.where(is_last, 5.0 * softplus(-heads[STOP]), softplus(heads[STOP]))
    assert means["stop"] == pytest.approx(stops[real].mean(), rel=1e-4)

    words = log_softmax(logits)
    chosen = np.take_along_axis(words, np.asarray(batch.target_tokens)[..., None], axis=-1)[..., 0]
    weights = np.asarray(batch.loss_weights)
    assert means["text"] == pytest.approx(-(chosen * weights).sum() / weights.sum(), rel=1e-4)

    diversity = means["speech_diversity_loss"] + means["text_diversity_loss"]
    parts = ("cluster_loss", "coarse_l1", "refined_l1", "stop", "text")
    assert total == pytest.approx(sum(means[name] for name in parts) + 0.1 * diversity, rel=1e-4)


def test_each_weight_scales_its_losses(loss_of) -> None:
    method = replace(
        METHOD,
        cluster_weight=2.0,
        spectrogram_weight=3.0,
        stop_weight=5.0,
        text_weight=7.0,
        diversity_weight=11.0,
    )
    total, means = loss_of(method, rows())
    wanted = 2.0 * means["cluster_loss"] + 3.0 * (means["coarse_l1"] + means["refined_l1"])
    wanted += 5.0 * means["stop"] + 7.0 * means["text"]
    wanted += 11.0 * (means["speech_diversity_loss"] + means["text_diversity_loss"])
    assert total == pytest.approx(wanted, rel=1e-4)


def test_clusters_of_hidden_frames_alone_count(model, loss_of) -> None:
    batch = rows()
    clusters = np.asarray(example_of(batch)[CLUSTERS])
    hidden = np.asarray(METHOD.hidden_frames(model, example_of(batch), None))
    assert 0 < hidden.mean() < 0.7
    others = (clusters + 1) % NUM_CLUSTERS
    _, usual = loss_of(METHOD, batch)
    _, same = loss_of(METHOD, with_stream(batch, CLUSTERS, np.where(hidden, clusters, others)))
    _, changed = loss_of(METHOD, with_stream(batch, CLUSTERS, np.where(hidden, others, clusters)))
    assert same["cluster_loss"] == usual["cluster_loss"]
    assert changed["cluster_loss"] != pytest.approx(usual["cluster_loss"], rel=1e-3)


def test_frames_without_a_cluster_do_not_count() -> None:
    scores = jax.random.normal(jax.random.key(0), (2, 6, NUM_CLUSTERS))
    hidden = jnp.ones((2, 6), bool)
    clusters = jnp.array([[0, 1, 2, 3, -1, -1], [4, 3, 2, 1, -1, -1]])
    wanted = cluster_losses(scores[:, :4], clusters[:, :4], hidden[:, :4])
    longer = jnp.pad(clusters, ((0, 0), (0, 3)), constant_values=-1)
    assert float(wanted.loss.count) == 8
    for each in (clusters, clusters[:, :4], longer):
        np.testing.assert_allclose(
            jax.tree.leaves(cluster_losses(scores, each, hidden)), jax.tree.leaves(wanted), rtol=1e-6
        )


def test_a_cluster_that_the_head_lacks_is_not_hidden_by_the_loss() -> None:
    scores, hidden = jnp.zeros((1, 2, NUM_CLUSTERS)), jnp.ones((1, 2), bool)
    assert np.isnan(cluster_losses(scores, jnp.array([[0, NUM_CLUSTERS]]), hidden).loss.total)


def test_hidden_frames_are_spans_that_begin_at_a_share_of_frames(model) -> None:
    streams = {WAVEFORMS: jnp.zeros((200, 4000)), WAVEFORM_LENGTHS: jnp.full(200, 4000)}
    method = SpeechPretraining()
    is_hidden = np.asarray(method.hidden_frames(model, streams, jax.random.key(0)))
    # Spans of 10 at 8 % of frames cover a share of 0.8, less overlaps: 1 - 0.92 ** 10 if they were independent.
    assert is_hidden.mean() == pytest.approx(1 - 0.92**10, abs=0.03)
    lengths = np.diff(np.flatnonzero(np.diff(np.pad(is_hidden, ((0, 0), (1, 1))).ravel().astype(int))))[::2]
    assert lengths.min() >= 10


def test_what_the_encoder_reads_of_hidden_frames_is_not_the_recording(model) -> None:
    batch = rows()
    waves = np.asarray(example_of(batch)[WAVEFORMS])
    speech, _, _ = with_frames(Batch(declared=batch.declared), 2)
    all_hidden = jnp.ones((4, NUM_FRAMES), bool)
    encode = jax.jit(lambda model, batch, hidden: model.speech.encode(batch, is_hidden=hidden).output)
    hidden, other = (
        encode(model, with_stream(speech, WAVEFORMS, each), all_hidden) for each in (waves, waves[::-1])
    )
    np.testing.assert_array_equal(hidden, other)
    assert np.abs(encode(model, speech, ~all_hidden) - hidden).max() > 1e-2


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_a_share_of_the_encoders_output_is_quantized(model, rate: float) -> None:
    x = jax.random.normal(jax.random.key(1), (3, 40, 8))
    real = (jnp.arange(40)[None] < jnp.array([40, 20, 10])[:, None]).astype(jnp.int32)
    encoded = EncodedSpeech(x, real, None)
    mixed, _ = model.mix(encoded, rate=rate, temperature=0.5, key=jax.random.key(2), has_noise=False)
    is_changed = np.any(np.asarray(mixed.output) != np.asarray(x), axis=-1)
    np.testing.assert_array_equal(is_changed.sum(axis=1), np.array([40, 20, 10]) * rate)
    entries = model.quantizer(x).vectors
    np.testing.assert_allclose(
        np.asarray(mixed.output)[is_changed], np.asarray(entries)[is_changed], atol=1e-6
    )


def test_the_decoder_reads_quantized_outputs(loss_of) -> None:
    for rate, is_read in ((0.0, False), (1.0, True)):
        method = replace(METHOD, mix_rate=rate)
        usual, far = (loss_of(method, rows(), entry_scale=scale)[1] for scale in (1.0, 100.0))
        for name in ("refined_l1", "text"):
            assert (usual[name] != pytest.approx(far[name], rel=1e-4)) == is_read, name
        assert usual["cluster_loss"] == far["cluster_loss"]


def gradients_of(
    model: SpeechPretrainingModel, method: SpeechPretraining, batch: Batch, *, num_parts: int
) -> dict[str, np.ndarray]:
    graphdef, params = parameters.split(model)

    @jax.jit
    def compute(params: Params, batch: Batch) -> Params:
        weights, normalizers = losses.normalize(batch, method.loss, num_parts=num_parts)
        context = LossContext(normalizers, 1, None, {}, step=jnp.zeros((), jnp.int32))

        def of_weights(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda params, rows, key: function(
                parameters.merge(graphdef, params), rows, context._replace(dropout_key=key)
            )

        whole = Microbatch(batch, weights, {})
        return method.gradients(of_weights, params, whole, jax.random.key(3), num_parts=num_parts)[0]

    return {path: np.asarray(each) for path, each in parameters.flatten(compute(params, batch)).items()}


def test_every_weight_but_recorded_statistics_learns(model) -> None:
    gradients = gradients_of(model, replace(METHOD, mix_rate=0.5), rows(), num_parts=1)
    idle = {path for path, each in gradients.items() if not np.any(each)}
    frozen = set(gradients) - set(_trained(gradients))
    assert frozen == {
        path for path in gradients if path.rsplit("/")[-1] in ("running_mean", "running_variance")
    }
    # A key's bias adds the same to all scores of a query.
    assert idle - frozen - {path for path in gradients if path.endswith("key/bias")} == set()


def _trained(paths: Any) -> list[str]:
    shapes = parameters.abstract(MODEL)[1]
    selected = parameters.select(shapes, MODEL.trained_by_default(list(paths)))
    return [path for path, rows in selected.items() if rows]


@pytest.mark.slow
def test_microbatches_of_text_have_the_gradients_of_the_whole_batch(model) -> None:
    method = SpeechPretraining(
        cluster_weight=0.0, spectrogram_weight=0.0, stop_weight=0.0, diversity_weight=0.0, mix_rate=0.0
    )
    whole, parts = (gradients_of(model, method, rows(), num_parts=number) for number in (1, 2))
    for path, gradient in whole.items():
        np.testing.assert_allclose(parts[path], gradient, atol=1e-5, err_msg=path)


def test_held_out_rows_are_measured_alike_each_time(model) -> None:
    graphdef, params = parameters.split(model)

    @jax.jit
    def measure(params: Params, batch: Batch) -> Any:
        weights, normalizers = losses.normalize(batch, METHOD.loss)
        rows = Microbatch(batch, weights, {})
        return METHOD.measure(
            parameters.merge(graphdef, params), rows, LossContext(normalizers, 1, None, {})
        )[0]

    first, again = measure(params, rows()), measure(params, rows())
    assert set(first.measures) == set(METHOD.measures)
    assert float(first.measures["cluster_loss"].count) > 0
    assert float(first.target_tokens) > 0
    jax.tree.map(np.testing.assert_array_equal, first, again)


def trained(num_steps: int) -> tuple[Any, list[dict[str, float]]]:
    """The state after some steps on the same rows, and the means of each."""
    batch, mesh = rows(), MeshConfig().build(jax.devices()[:1])
    paths = parameters.flatten(parameters.abstract(MODEL)[1])
    plan = plan_state(
        MODEL,
        AdamW(learning_rate=Constant(value=0.01)),
        mesh,
        num_tasks=1,
        trainable=MODEL.trained_by_default(paths),
        measures=METHOD.measures,
    )
    step = jax.jit(train_step(plan, METHOD, seed=0))
    state, logged = new_state(plan, MODEL, seed=0), []
    with jax.set_mesh(mesh):
        for _ in range(num_steps):
            before = state["totals"]
            state = step(state, batch)
            difference = jax.tree.map(jnp.subtract, state["totals"], before)
            means = {name: float(each.total / each.count) for name, each in difference.measures.items()}
            logged.append({**means, "text": float(difference.loss / difference.target_tokens)})
    params = plan.weights(state)
    return params, logged


@pytest.mark.slow
def test_a_hundred_steps_lower_every_loss() -> None:
    _, logged = trained(100)
    for name in ("cluster_loss", "coarse_l1", "refined_l1", "stop", "text"):
        first, last = (np.mean([each[name] for each in part]) for part in (logged[:5], logged[-5:]))
        assert last < 0.9 * first, name
    for name in ("speech_diversity_loss", "text_diversity_loss"):
        first, last = (np.mean([each[name] for each in part]) for part in (logged[:5], logged[-5:]))
        assert last < first, name


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Params]:
    """A run of two steps, and its weights."""
    directory = tmp_path_factory.mktemp("pretraining") / "run"
    params, _ = trained(2)
    write_model_config(directory, MODEL)
    with Checkpoints(directory / "checkpoints") as checkpoints:
        checkpoints.save(2, {"params": params})
    return directory, params


SHARED = ("encoder_norm/scale", "encoder/layers/0/self_attention/query/kernel", "encoder/relative_bias/table")


@pytest.mark.parametrize(
    ("changes", "sources"),
    [
        (
            {"task": "speech_to_text"},
            {
                "encoder_input/convolutions/0/kernel": "speech/encoder_input/convolutions/0/kernel",
                "encoder_input/hidden": "speech/encoder_input/hidden",
                "decoder_input/tokens/table": "decoder_text/tokens/table",
            },
        ),
        (
            {"task": "text_to_speech"},
            {
                "encoder_input/tokens/table": "decoder_text/tokens/table",
                "encoder_input/position_scale": "encoder_text/position_scale",
                "decoder_input/output/kernel": "speech/decoder_input/output/kernel",
                "postnet/frames/kernel": "speech/postnet/frames/kernel",
                "postnet/norms/0/running_mean": "speech/postnet/norms/0/running_mean",
            },
        ),
        (
            {"task": "speech_to_speech"},
            {
                "encoder_input/projection/kernel": "speech/encoder_input/projection/kernel",
                "decoder_input/speaker/kernel": "speech/decoder_input/speaker/kernel",
            },
        ),
    ],
    ids=["speech_to_text", "text_to_speech", "speech_to_speech"],
)
def test_fine_tuning_starts_with_the_nets_of_its_task(
    run: tuple[Path, Params], changes: dict[str, Any], sources: dict[str, str]
) -> None:
    directory, pretrained = run[0], parameters.flatten(run[1])
    config = replace(MODEL, **changes)
    start, mesh = PretrainedWeights(start_from=str(directory)), MeshConfig().build(jax.devices()[:1])
    assert start.check_weights(config, None) == []
    started = start.weights(config, mesh=mesh, seed=7, labels=LabelSpace(), vocabulary=None)
    flat = parameters.flatten(started.params)
    assert flat.keys() == parameters.flatten(parameters.abstract(config)[1]).keys()
    for path, source in {**{path: f"speech/{path}" for path in SHARED}, **sources}.items():
        np.testing.assert_array_equal(flat[path], pretrained[source], err_msg=path)


def test_a_head_that_pretraining_lacks_is_drawn(run: tuple[Path, Params]) -> None:
    config: Any = SpeechRecognition().with_heads(replace(MODEL, task="speech_to_text"))
    mesh = MeshConfig().build(jax.devices()[:1])
    start = PretrainedWeights(start_from=str(run[0]))
    started = start.weights(config, mesh=mesh, seed=7, labels=LabelSpace(), vocabulary=None)
    flat, pretrained = parameters.flatten(started.params), parameters.flatten(run[1])
    path = "encoder/layers/0/feed_forward/up/kernel"
    np.testing.assert_array_equal(flat[path], pretrained[f"speech/{path}"])
    assert np.any(flat["heads/scores/ctc/projection/kernel"])


def test_another_size_is_refused_before_weights_are_read(run: tuple[Path, Params]) -> None:
    config = replace(MODEL, task="speech_to_text", encoder_mlp_dim=20)
    with pytest.raises(ValueError, match="encoder/layers/0/feed_forward/up/kernel"):
        PretrainedWeights(start_from=str(run[0])).check_weights(config, None)


def test_a_part_of_a_pretrained_model_can_be_called_and_the_whole_cannot(run: tuple[Path, Params]) -> None:
    opened = open_checkpoint(run[0], head="speech_to_text")
    batch = rows()
    predictions = opened.model(batch)
    graphdef = parameters.abstract(MODEL)[0]
    text = parameters.merge(graphdef, run[1])
    encoded = text.speech.encode(batch)
    np.testing.assert_allclose(
        predictions.logits, text.text.decode(batch._replace(declared=None), encoded).logits, atol=1e-5
    )
    with pytest.raises(ValueError, match="for speech_pretraining, which isn't called"):
        from_pretrained(run[0])


def test_no_class_of_transformers_has_all_nets(run: tuple[Path, Params], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no class of a SpeechT5 for the task 'speech_pretraining'"):
        write_hugging_face(MODEL, run[1], tmp_path / "exported")


def test_another_model_or_one_without_a_vector_of_hidden_frames_is_refused() -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match="take SpeechT5Config with task='speech_pretraining'"):
        METHOD.check(SMALL, nothing, nothing)
    unhidden = replace(MODEL, augment=SpecAugmentConfig(time_rate=0.0))
    with pytest.raises(ValueError, match="no vector for hidden frames"):
        METHOD.check(unhidden, nothing, nothing)
    METHOD.check(MODEL, nothing, nothing)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster_weight": -1.0}, "cluster_weight is -1.0"),
        ({"mix_rate": 1.5}, "mix_rate is 1.5"),
        ({"span_start_rate": -0.1}, "span_start_rate is -0.1"),
        ({"span_length": 0}, "span_length is 0"),
    ],
)
def test_impossible_options_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpeechPretraining(**changes)


def test_streams_are_named() -> None:
    assert METHOD.streams() == (WAVEFORMS, WAVEFORM_LENGTHS, SPECTROGRAMS, SPECTROGRAM_LENGTHS, CLUSTERS)


def test_published_sizes_have_all_nets() -> None:
    config = SpeechT5Config(task="speech_pretraining")
    flat = parameters.flatten(parameters.abstract(config)[1])
    assert flat["clusters/clusters"].shape == (500, 256)
    assert flat["quantizer/entries"].shape == (2, 100, 384)
    tops = {path.split("/")[0] for path in flat}
    assert tops == {"speech", "encoder_text", "decoder_text", "clusters", "quantizer"}
