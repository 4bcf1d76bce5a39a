"""Training of models of speech: losses of transformers, CTC, and steps that learn."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.references.models import ModelFolder
from benchmarks.references.speech import keeping_all_units
from t5x_like.batch import (
    SPEAKERS,
    SPECTROGRAM_LENGTHS,
    SPECTROGRAMS,
    WAVEFORM_LENGTHS,
    WAVEFORMS,
    Batch,
)
from t5x_like.model import parameters
from t5x_like.model.families.speech_encoder_decoder import speech_batch
from t5x_like.model.spectrogram_loss import GuidedAttention
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.methods.speech_recognition import SpeechRecognition
from t5x_like.training.methods.speech_synthesis import SpeechSynthesis, with_frames
from t5x_like.training.microbatches import Microbatch
from t5x_like.training.state import new_state, plan_state
from t5x_like.training.step import train_step
from tests.model.zoo.tiny_models import TINY
from tests.references import FIXTURES

NO_TASKS = 1


def text_batch(inputs: dict[str, np.ndarray]) -> Batch:
    labels = inputs["labels"]
    ids = np.where(labels == -100, 1, labels)
    return speech_batch(
        {WAVEFORMS: jnp.array(inputs["input_values"]), WAVEFORM_LENGTHS: inputs["attention_mask"].sum(1)},
        decoder_input_tokens=jnp.array(np.concatenate([np.full((len(ids), 1), 2), ids[:, :-1]], axis=1)),
        target_tokens=jnp.array(ids),
        loss_weights=jnp.array(labels != -100, jnp.float32),
    )


def speech_rows(inputs: dict[str, np.ndarray]) -> Batch:
    labels = inputs["labels"]
    return speech_batch(
        {
            SPECTROGRAMS: jnp.array(labels),
            SPECTROGRAM_LENGTHS: jnp.array((labels[..., 0] != -100).sum(axis=1)),
            SPEAKERS: jnp.array(inputs["speaker_embeddings"]),
        },
        encoder_input_tokens=jnp.array(inputs["input_ids"]),
        encoder_segment_ids=jnp.array(inputs["attention_mask"]),
    )


def loss_of(method: TrainingMethod, model: Any, batch: Batch) -> tuple[float, dict[str, float]]:
    graphdef, params = parameters.split(model)

    @jax.jit
    def compute(params: Any, batch: Batch) -> Any:
        batch = losses.with_targets(batch, method.loss)
        weights, normalizers = losses.normalize(batch, method.loss)
        context = LossContext(normalizers, NO_TASKS, None, {})
        model = parameters.merge(graphdef, params)
        total, (totals, _) = method.compute_loss(model, Microbatch(batch, weights, {}), context)
        return total, totals

    total, totals = compute(params, batch)
    means = {name: float(each.total / each.count) for name, each in totals.measures.items() if each.count > 0}
    return float(total), means


def test_the_loss_of_text_is_that_of_transformers_without_ctc() -> None:
    folder = ModelFolder(FIXTURES / "speech/speech_to_text")
    batch = text_batch(folder.inputs)
    total, _ = loss_of(
        SpeechRecognition(ctc_weight=0.0, loss=LossConfig(z_loss=0.0)), folder.pretrained.model, batch
    )
    assert total == pytest.approx(float(folder.io["out_loss"]), rel=1e-5)


def test_the_loss_of_spectrograms_is_that_of_transformers() -> None:
    folder = ModelFolder(FIXTURES / "speech/text_to_speech")
    with keeping_all_units():
        total, means = loss_of(SpeechSynthesis(), folder.pretrained.model, speech_rows(folder.inputs))
    assert total == pytest.approx(float(folder.io["out_loss"]), rel=1e-5)
    assert total == pytest.approx(sum(means.values()), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"stop_weight": 0.0}, ("coarse_l1", "refined_l1", "guided_attention")),
        ({"guided_attention": None}, ("coarse_l1", "refined_l1", "stop")),
    ],
)
def test_parts_of_the_loss_of_spectrograms_can_be_left_out(
    change: dict[str, Any], parts: tuple[str, ...]
) -> None:
    folder = ModelFolder(FIXTURES / "speech/text_to_speech")
    total, means = loss_of(SpeechSynthesis(**change), folder.pretrained.model, speech_rows(folder.inputs))
    assert total == pytest.approx(sum(means[part] for part in parts), rel=1e-5)


def test_weights_of_last_frames_and_of_the_diagonal_matter() -> None:
    folder = ModelFolder(FIXTURES / "speech/text_to_speech")
    batch = speech_rows(folder.inputs)
    usual = loss_of(SpeechSynthesis(), folder.pretrained.model, batch)[1]
    changed = SpeechSynthesis(
        last_frame_weight=1.0, guided_attention=GuidedAttention(sigma=0.2, scale=1.0, num_heads=1)
    )
    other = loss_of(changed, folder.pretrained.model, batch)[1]
    assert other["stop"] < usual["stop"]
    assert other["guided_attention"] != pytest.approx(usual["guided_attention"], rel=1e-2)
    assert other["refined_l1"] == pytest.approx(usual["refined_l1"])


SMALL = SpeechT5Config(
    vocab_size=12,
    model_dim=8,
    encoder_mlp_dim=12,
    decoder_mlp_dim=12,
    num_encoder_heads=2,
    num_decoder_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    conv_channels=(6, 6),
    conv_kernel_sizes=(8, 4),
    conv_strides=(4, 2),
    position_kernel_size=4,
    position_groups=2,
    num_mel_bins=3,
    prenet_units=6,
    speaker_dim=2,
    postnet_layers=2,
    postnet_units=4,
    dropout_rate=0.1,
    pad_vocab_to_multiple_of=1,
)


def rows_for(model: SpeechT5Config) -> Batch:
    random = np.random.default_rng(0)
    streams: dict[str, Any] = {}
    others: dict[str, Any] = {}
    if model.reads_speech:
        streams[WAVEFORMS] = random.normal(size=(4, 120)).astype(np.float32)
        streams[WAVEFORM_LENGTHS] = np.array([120, 120, 90, 80])
    else:
        others["encoder_input_tokens"] = random.integers(3, 12, (4, 5))
    if model.writes_speech:
        streams[SPECTROGRAMS] = random.normal(size=(4, 6, 3)).astype(np.float32)
        streams[SPECTROGRAM_LENGTHS] = np.array([6, 6, 4, 2])
        streams[SPEAKERS] = random.normal(size=(4, 2)).astype(np.float32)
    else:
        tokens = np.array([[5, 6, 7, 2]] * 4)
        others |= {
            "decoder_input_tokens": np.roll(tokens, 1, axis=1),
            "target_tokens": tokens,
            "loss_weights": np.ones((4, 4), np.float32),
        }
    batch = speech_batch(streams, **others)
    return jax.tree.map(jnp.asarray, batch)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (SMALL, SpeechRecognition(ctc_weight=0.3)),
        (replace(SMALL, task="text_to_speech"), SpeechSynthesis()),
        pytest.param(
            replace(SMALL, task="speech_to_speech"),
            SpeechSynthesis(guided_attention=None),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["speech_to_text", "text_to_speech", "speech_to_speech"],
)
def test_steps_learn_and_leave_statistics_alone(model: SpeechT5Config, method: TrainingMethod) -> None:
    resolved: Any = method.with_heads(model)
    batch, mesh = rows_for(model), MeshConfig().build(jax.devices()[:1])
    paths = parameters.flatten(parameters.abstract(resolved)[1])
    plan = plan_state(
        resolved,
        AdamW(learning_rate=Constant(value=0.01)),
        mesh,
        num_tasks=NO_TASKS,
        trainable=resolved.trained_by_default(paths),
        measures=method.measures,
    )
    step = jax.jit(train_step(plan, method, seed=0, num_microbatches=2))
    state = new_state(plan, resolved, seed=0)
    totals_of_steps = []
    with jax.set_mesh(mesh):
        for _ in range(12):
            before = state["totals"]
            state = step(state, batch)
            mean = {
                name: float(
                    (each.total - before.measures[name].total)
                    / max(float(each.count - before.measures[name].count), 1e-9)
                )
                for name, each in state["totals"].measures.items()
            }
            totals_of_steps.append(sum(mean.values()) + float(state["totals"].loss - before.loss))
    assert totals_of_steps[-1] < 0.9 * totals_of_steps[0]
    frozen = parameters.flatten(state["frozen"])
    assert {path.split("/")[-1] for path in frozen} <= {"running_mean", "running_variance"}
    for path, each in frozen.items():
        np.testing.assert_array_equal(each, 0.0 if path.endswith("mean") else 1.0)


def test_ctc_reads_the_encoder_and_its_weight_shares_the_loss() -> None:
    config = replace(SMALL, has_ctc_head=True, dropout_rate=0.0)
    model, batch = config.build(jax.random.key(0)), rows_for(config)
    alone, means = loss_of(SpeechRecognition(ctc_weight=1.0), model, batch)
    shared, _ = loss_of(SpeechRecognition(ctc_weight=0.25), model, batch)
    words, _ = loss_of(SpeechRecognition(ctc_weight=0.0), model, batch)
    assert shared == pytest.approx(0.25 * alone + 0.75 * words, rel=1e-5)
    # All rows have three labels and an end, by which the loss is divided.
    assert alone == pytest.approx(means["ctc_loss"] * 3 / 4, rel=1e-5)
    with_end, _ = loss_of(SpeechRecognition(ctc_weight=1.0, unaligned_ids=()), model, batch)
    other_blank, _ = loss_of(SpeechRecognition(ctc_weight=1.0, blank_id=0), model, batch)
    assert len({round(each, 4) for each in (alone, with_end, other_blank)}) == 3


def test_methods_of_speech_name_the_streams_that_tasks_declare() -> None:
    assert SpeechRecognition().streams() == (WAVEFORMS, WAVEFORM_LENGTHS)
    assert SpeechSynthesis().streams() == (SPECTROGRAMS, SPECTROGRAM_LENGTHS, SPEAKERS)


def test_another_model_or_task_is_refused() -> None:
    loader: Any = None
    with pytest.raises(ValueError, match="take SpeechT5Config with task='speech_to_text'"):
        SpeechRecognition().check(replace(SMALL, task="text_to_speech"), loader, loader)
    with pytest.raises(ValueError, match="this is a BertConfig"):
        SpeechSynthesis().check(TINY["bert"], loader, loader)
    with pytest.raises(ValueError, match="blank_id is 12"):
        SpeechRecognition(blank_id=12).check(SMALL, loader, loader)


def test_spectrograms_are_padded_to_whole_steps() -> None:
    batch = speech_batch({SPECTROGRAMS: jnp.zeros((1, 5, 3))})
    with pytest.raises(ValueError, match="5 frames, and a step predicts 2; pad them"):
        with_frames(batch, 2)
    with pytest.raises(ValueError, match="no stream 'spectrograms'"):
        with_frames(Batch(), 2)
