"""HiFi-GAN in transformers' files: its waveforms, and files that are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from t5x_like.pretrained.hifi_gan import HifiGanConfig, read_hifi_gan
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained
from tests.references import FIXTURES, read_arrays

VOCODERS = FIXTURES / "vocoders"
PLAIN, WEIGHT_NORM = VOCODERS / "plain", VOCODERS / "weight_norm"


@pytest.mark.parametrize("folder", [PLAIN, WEIGHT_NORM], ids=lambda folder: folder.name)
def test_waveforms_are_those_of_transformers_for_one_spectrogram_and_for_several(folder: Path) -> None:
    recorded, vocoder = read_arrays(folder / "io.npz"), read_hifi_gan(folder)
    assert vocoder.sampling_rate == 16_000
    for frames, wanted in (
        (recorded["frames"], recorded["batch"]),
        (recorded["frames"][0], recorded["one"]),
    ):
        waveform = vocoder(frames)
        assert waveform.shape == wanted.shape
        np.testing.assert_allclose(waveform, wanted, rtol=1e-5, atol=1e-5)


def changed(folder: Path, to: Path, **fields: Any) -> Path:
    shutil.copytree(folder, to)
    path = to / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return to


@pytest.mark.parametrize(
    "fields",
    [
        {"normalize_before": False},
        {"leaky_relu_slope": 0.3},
        {"resblock_dilation_sizes": [[1, 1], [1, 1]]},
        {"upsample_rates": [4, 2]},
    ],
    ids=str,
)
def test_each_field_matters(fields: dict[str, Any], tmp_path: Path) -> None:
    frames = read_arrays(PLAIN / "io.npz")["frames"]
    wanted, other = (
        read_hifi_gan(PLAIN)(frames),
        read_hifi_gan(changed(PLAIN, tmp_path / "a", **fields))(frames),
    )
    assert wanted.shape != other.shape or np.abs(wanted - other).max() > 1e-3


def test_older_names_are_read(tmp_path: Path) -> None:
    folder = changed(WEIGHT_NORM, tmp_path / "old", model_type="hifigan")
    older = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    arrays = load_file(folder / "model.safetensors")
    for new, old in older.items():
        arrays = {name.replace(new, old): array for name, array in arrays.items()}
    assert any(name.endswith("weight_g") for name in arrays)
    save_file(arrays, folder / "model.safetensors")
    recorded = read_arrays(WEIGHT_NORM / "io.npz")
    np.testing.assert_allclose(
        read_hifi_gan(folder)(recorded["frames"]), recorded["batch"], rtol=1e-5, atol=1e-5
    )


def test_published_files_are_of_the_default_sizes() -> None:
    assert HifiGanConfig.from_hugging_face({"model_type": "hifigan"}) == HifiGanConfig()
    assert len(HifiGanConfig().shapes()) == 2 + 4 + 4 * 3 * 3 * 2


def without_bias(arrays: dict[str, np.ndarray]) -> None:
    del arrays["conv_post.bias"]


def of_another_shape(arrays: dict[str, np.ndarray]) -> None:
    arrays["mean"] = np.zeros(6, np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_bias, r"have no conv_post\.bias"),
        (of_another_shape, r"mean has shape \(6,\); by config\.json it has \(5,\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    change: Callable[[dict[str, np.ndarray]], None], message: str, tmp_path: Path
) -> None:
    shutil.copytree(PLAIN, tmp_path / "a")
    arrays = dict(load_file(PLAIN / "model.safetensors"))
    change(arrays)
    save_file(arrays, tmp_path / "a/model.safetensors")
    with pytest.raises(ValueError, match=message):
        read_hifi_gan(tmp_path / "a")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "speecht5"}, "model_type is 'speecht5'; a vocoder for SpeechT5 has 'hifigan'"),
        ({"upsample_rates": [2]}, "upsample_rates and upsample_kernel_sizes differ in length"),
        ({"resblock_kernel_sizes": [3, 4]}, "residual blocks need odd sizes"),
        ({"noise": 0.5}, r"noise = 0\.5 is not known"),
        ({"upsample_initial_channel": "many"}, "upsample_initial_channel is 'many', of type str"),
    ],
)
def test_fields_that_make_no_vocoder_are_refused(
    fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        read_hifi_gan(changed(PLAIN, tmp_path / "a", **fields))


def test_folders_and_spectrograms_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no config\.json; give the folder of a SpeechT5HifiGan"):
        read_hifi_gan(tmp_path)
    for shape in ((7, 4), (0, 5), (5,)):
        with pytest.raises(ValueError, match=r"this vocoder reads \[frames, 5\] or \[batch, frames, 5\]"):
            read_hifi_gan(PLAIN)(np.zeros(shape))


def test_generated_speech_becomes_waveforms() -> None:
    tts, vocoder = from_pretrained(FIXTURES / "speech/text_to_speech"), read_hifi_gan(PLAIN)
    options: dict[str, Any] = {"maxlenratio": 1.0, "threshold": 9.0}
    ids, vector = [[4, 5, 6, 7], [8, 9, 10, 11]], np.ones((1, 4))
    frames, num_frames = tts.generate_speech(ids, vector, **options, return_output_lengths=True)
    waveforms, num_samples = tts.generate_speech(
        ids, vector, **options, vocoder=vocoder, return_output_lengths=True
    )
    assert num_samples == [4 * number for number in num_frames]
    np.testing.assert_array_equal(waveforms, vocoder(frames))
    one = tts.generate_speech(ids[:1], vector, **options, vocoder=vocoder)
    assert one.shape == (4 * num_frames[0],)
