"""SpeechT5 by its files: arguments, generation of speech, and exports."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import t5x_like
from benchmarks.references.models import ModelFolder
from benchmarks.references.speech import keeping_all_units
from t5x_like.model.zoo.architectures import by_model_type
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.initial_weights import initial_checkpoint
from t5x_like.pretrained.safetensors_files import SafetensorsReader
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from tests.references import FIXTURES

SPEECH = FIXTURES / "speech"
TO_TEXT, TO_SPEECH, VOICE = (
    SPEECH / f"{name}" for name in ("speech_to_text", "text_to_speech", "speech_to_speech")
)


@pytest.fixture(scope="module")
def asr() -> Pretrained:
    return t5x_like.from_pretrained(TO_TEXT)


@pytest.fixture(scope="module")
def tts() -> Pretrained:
    return t5x_like.from_pretrained(TO_SPEECH)


def inputs_of(folder: Path) -> dict[str, Any]:
    inputs = ModelFolder(folder).inputs
    inputs.pop("labels")
    return inputs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_values": None}, "give input_values"),
        ({"input_values": np.zeros((2, 5)), "attention_mask": None}, "has 5 samples, and a frame needs 25"),
        ({"attention_mask": np.ones((2, 3))}, "a mask of shape"),
        ({"input_values": np.full((1, 300), np.nan), "attention_mask": None}, "give finite numbers"),
        ({"input_ids": [[1]]}, "reads no input_ids"),
        ({"decoder_input_ids": None}, "give decoder_input_ids, or labels"),
        ({"decoder_input_values": np.zeros((2, 4, 5))}, "reads no decoder_input_values"),
        ({"speaker_embeddings": np.zeros((2, 4))}, "has no speakers"),
        ({"decoder_input_ids": [[2]]}, "1 rows|has 2 rows"),
    ],
)
def test_arguments_of_speech_to_text_that_make_no_sense_are_refused(
    asr: Pretrained, changes: dict[str, Any], message: str
) -> None:
    arguments = {**inputs_of(TO_TEXT), "decoder_input_ids": [[2], [2]], **changes}
    present = {name: each for name, each in arguments.items() if each is not None}
    with pytest.raises(ValueError, match=message):
        asr(**present)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_values": np.zeros((2, 40))}, "reads no input_values"),
        ({"labels": np.zeros((2, 3, 5))}, "labels has 3 frames; a step of the decoder predicts 2"),
        ({"labels": np.full((2, 4, 5), -100.0)}, "leave some to learn from"),
        ({"decoder_input_values": np.zeros((2, 4, 3))}, r"give numbers of shape \[any, any, 5\]"),
        ({"speaker_embeddings": np.zeros((3, 4))}, "has 3 rows for 2 inputs"),
        ({"speaker_embeddings": np.zeros((2, 3))}, r"shape \[any, 4\]"),
    ],
)
def test_arguments_of_text_to_speech_that_make_no_sense_are_refused(
    tts: Pretrained, changes: dict[str, Any], message: str
) -> None:
    frames = {} if "labels" in changes else {"decoder_input_values": np.zeros((2, 2, 5))}
    with pytest.raises(ValueError, match=message):
        tts(**{**inputs_of(TO_SPEECH), **frames, **changes})


def test_the_first_argument_of_a_model_that_reads_speech_may_be_waveforms(asr: Pretrained) -> None:
    inputs = inputs_of(TO_TEXT)
    named = asr(**inputs, decoder_input_ids=[[2], [2]])
    values = inputs.pop("input_values")
    first = asr(values, **inputs, decoder_input_ids=[[2], [2]])
    np.testing.assert_array_equal(first.logits, named.logits)
    again = asr(encoder_outputs=named, attention_mask=inputs["attention_mask"], decoder_input_ids=[[2], [2]])
    np.testing.assert_allclose(again.logits, named.logits, rtol=1e-5, atol=1e-5)
    ids = asr.generate(values, inputs["attention_mask"], max_new_tokens=3)
    np.testing.assert_array_equal(
        ids, asr.generate(input_values=values, attention_mask=inputs["attention_mask"], max_new_tokens=3)
    )


def test_speech_ends_between_its_shortest_and_longest_length(tts: Pretrained) -> None:
    inputs, num_inputs, factor = inputs_of(TO_SPEECH), 9, 2
    options: dict[str, Any] = {"minlenratio": 1.0, "maxlenratio": 2.0, "return_output_lengths": True}
    frames, at_once = tts.generate_speech(**inputs, threshold=0.0, **options)
    assert at_once == [int(num_inputs / factor) * factor] * 2
    assert frames.shape == (2, at_once[0], 5)
    _, never = tts.generate_speech(**inputs, threshold=9.0, **options)
    assert never == [int(2 * num_inputs / factor) * factor] * 2


def test_a_seed_draws_other_units_and_the_same_ones_again(tts: Pretrained) -> None:
    inputs = {name: each[:1] for name, each in inputs_of(TO_SPEECH).items()}
    options: dict[str, Any] = {"threshold": 9.0, "maxlenratio": 1.0}
    first, again, other = (tts.generate_speech(**inputs, **options, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_a_row_is_what_it_would_be_alone(tts: Pretrained) -> None:
    folder = ModelFolder(TO_SPEECH)
    inputs, settings = inputs_of(TO_SPEECH), folder.meta["generation"]
    with keeping_all_units():
        own = t5x_like.from_pretrained(TO_SPEECH)
        frames, lengths = own.generate_speech(**inputs, **settings, return_output_lengths=True)
        # One that is as long has the same limits.
        alone = own.generate_speech(**{name: each[:1] for name, each in inputs.items()}, **settings)
    assert alone.shape == (lengths[0], 5)
    np.testing.assert_allclose(alone, frames[0, : lengths[0]], atol=1e-4)


def test_a_vocoder_turns_spectrograms_into_waveforms(tts: Pretrained) -> None:
    inputs = inputs_of(TO_SPEECH)
    options: dict[str, Any] = {"threshold": 0.0, "minlenratio": 1.0}

    def vocoder(frames: np.ndarray) -> np.ndarray:
        return np.repeat(frames.mean(axis=-1), 3, axis=-1)

    spectrograms = tts.generate_speech(**inputs, **options)
    waveforms, lengths = tts.generate_speech(**inputs, **options, vocoder=vocoder, return_output_lengths=True)
    np.testing.assert_allclose(waveforms, vocoder(spectrograms))
    assert lengths == [3 * spectrograms.shape[1]] * 2


def test_one_speaker_speaks_all_rows_and_text_needs_one(tts: Pretrained) -> None:
    inputs = inputs_of(TO_SPEECH)
    options: dict[str, Any] = {"threshold": 0.0, "minlenratio": 1.0}
    speaker = inputs.pop("speaker_embeddings")[:1]
    one = tts.generate_speech(**inputs, speaker_embeddings=speaker, **options)
    each = tts.generate_speech(**inputs, speaker_embeddings=np.repeat(speaker, 2, axis=0), **options)
    np.testing.assert_array_equal(one, each)
    with pytest.raises(ValueError, match=r"give speaker_embeddings, \[batch, 4\]"):
        tts.generate_speech(**inputs)


def test_speech_without_a_speaker_has_zeros() -> None:
    voice, inputs = t5x_like.from_pretrained(VOICE), inputs_of(VOICE)
    inputs.pop("speaker_embeddings")
    options: dict[str, Any] = {"threshold": 0.0, "minlenratio": 0.1}
    without = voice.generate_speech(**inputs, **options)
    zeros = voice.generate_speech(**inputs, speaker_embeddings=np.zeros((1, 4)), **options)
    np.testing.assert_array_equal(without, zeros)


def test_each_way_to_generate_names_the_other(asr: Pretrained, tts: Pretrained) -> None:
    with pytest.raises(ValueError, match="it generates no text; call generate_speech"):
        tts.generate([[3, 4]])
    with pytest.raises(ValueError, match="it generates no speech"):
        asr.generate_speech(np.zeros((1, 100)))
    with pytest.raises(ValueError, match="minlenratio=-1 and maxlenratio=20: give 0 or more"):
        tts.generate_speech([[3, 4]], np.ones((1, 4)), minlenratio=-1.0)


@pytest.mark.parametrize("folder", [TO_TEXT, TO_SPEECH, VOICE], ids=lambda folder: folder.name)
def test_an_export_has_the_same_fields_and_weights(folder: Path, tmp_path: Path) -> None:
    pretrained = t5x_like.from_pretrained(folder)
    t5x_like.export_hugging_face(pretrained, tmp_path / "out")
    written, wanted = SafetensorsReader(tmp_path / "out"), SafetensorsReader(folder)
    assert set(wanted.names()) == set(written.names()) - {"text_decoder_postnet.lm_head.weight"}
    for name in wanted.names():
        if name.endswith("num_batches_tracked"):  # a count, which is no weight
            continue
        np.testing.assert_array_equal(written.read(name), wanted.read(name))
    before, after = (json.loads((home / "config.json").read_text()) for home in (folder, tmp_path / "out"))
    architecture = by_model_type()["speecht5"]
    assert architecture.from_hugging_face(before) == architecture.from_hugging_face(after)
    assert before["architectures"] == after["architectures"]


def test_older_names_of_normalized_weights_are_read(asr: Pretrained, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    shutil.copytree(TO_TEXT, tmp_path / "old")
    file = tmp_path / "old/model.safetensors"
    older = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    arrays = {}
    for name, array in load_file(file).items():
        for new, old in older.items():
            name = name.replace(new, old)
        arrays[name] = array
    assert any(name.endswith("weight_g") for name in arrays)
    save_file(arrays, file)
    inputs = inputs_of(TO_TEXT)
    older_model = t5x_like.from_pretrained(tmp_path / "old")(**inputs, decoder_input_ids=[[2], [2]])
    np.testing.assert_array_equal(older_model.logits, asr(**inputs, decoder_input_ids=[[2], [2]]).logits)


def test_a_model_without_nets_is_refused_by_name(tmp_path: Path) -> None:
    fields = json.loads((TO_TEXT / "config.json").read_text()) | {"architectures": ["SpeechT5Model"]}
    with pytest.raises(ValueError, match="no head for SpeechT5Model"):
        by_model_type()["speecht5"].from_hugging_face(fields)


def test_benchmarks_of_texts_and_other_programs_refuse_speech(asr: Pretrained, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="can't be evaluated on benchmarks yet"):
        _ = asr.checkpoint.kind
    with pytest.raises(ValueError, match="can't be exported as StableHLO"):
        t5x_like.export_stablehlo(asr, tmp_path / "out", length=8)


def test_speech_is_computed_in_bfloat16_too(asr: Pretrained) -> None:
    inputs = {**inputs_of(TO_TEXT), "decoder_input_ids": [[2, 5], [2, 5]]}
    wanted = asr(**inputs)
    half = t5x_like.from_pretrained(TO_TEXT, dtype="bfloat16")(**inputs)
    np.testing.assert_allclose(half.encoder_last_hidden_state, wanted.encoder_last_hidden_state, atol=0.2)
    frames = {**inputs_of(TO_SPEECH), "decoder_input_values": np.zeros((2, 2, 5))}
    coarse = t5x_like.from_pretrained(TO_SPEECH, dtype="bfloat16")(**frames)
    np.testing.assert_allclose(
        coarse.spectrogram, t5x_like.from_pretrained(TO_SPEECH)(**frames).spectrogram, atol=0.3
    )


def test_a_head_for_ctc_is_drawn_where_the_files_have_none_and_read_where_they_have_one(
    asr: Pretrained, tmp_path: Path
) -> None:
    config, mesh = replace(asr.config, has_ctc_head=True), MeshConfig(data=1).build(jax.local_devices()[:1])
    drawn = initial_checkpoint(TO_TEXT, config, mesh=mesh, seed=0)
    kernel = drawn.model.heads.scores["ctc"].projection.kernel[...]
    assert kernel.shape == (12, 29)
    np.testing.assert_array_equal(drawn.model.encoder_norm.scale[...], asr.model.encoder_norm.scale[...])
    write_hugging_face(config, drawn.params, tmp_path / "out")
    again = initial_checkpoint(tmp_path / "out", config, mesh=mesh, seed=1)
    np.testing.assert_array_equal(again.model.heads.scores["ctc"].projection.kernel[...], kernel)
    opened = t5x_like.from_pretrained(tmp_path / "out")
    np.testing.assert_array_equal(opened.model.heads.scores["ctc"].projection.kernel[...], kernel)


def test_texts_are_searched_for_with_ctc_where_the_model_has_its_head(
    asr: Pretrained, tmp_path: Path
) -> None:
    config, mesh = replace(asr.config, has_ctc_head=True), MeshConfig(data=1).build(jax.local_devices()[:1])
    drawn = initial_checkpoint(TO_TEXT, config, mesh=mesh, seed=0)
    write_hugging_face(config, drawn.params, tmp_path / "out")
    opened, inputs = t5x_like.from_pretrained(tmp_path / "out"), inputs_of(TO_TEXT)
    options: dict[str, Any] = {"max_new_tokens": 6, "num_beams": 3, "return_dict_in_generate": True}
    plain = opened.generate(**inputs, **options)
    without, joint = (opened.generate(**inputs, **options, ctc_weight=weight) for weight in (0.0, 0.5))
    np.testing.assert_array_equal(without.sequences, plain.sequences)
    np.testing.assert_allclose(without.sequences_scores, plain.sequences_scores, rtol=1e-5, atol=1e-5)
    assert joint.sequences.tolist() != plain.sequences.tolist()
    assert opened.config.vocab_size - 1 not in joint.sequences  # the blank
    assert opened.generate(**inputs, max_new_tokens=6, ctc_weight=0.5).shape[0] == 2
    with pytest.raises(ValueError, match="ctc_weight has no effect on sampling"):
        opened.generate(**inputs, ctc_weight=0.5, do_sample=True)
    with pytest.raises(ValueError, match=r"the weight of CTC is -0\.1"):
        opened.generate(**inputs, ctc_weight=-0.1)


def test_ctc_is_refused_without_its_head(asr: Pretrained) -> None:
    with pytest.raises(ValueError, match="no head for CTC, which ctc_weight needs"):
        asr.generate(**inputs_of(TO_TEXT), ctc_weight=0.3)
    with pytest.raises(ValueError, match="no head for CTC, which ctc_weight needs"):
        t5x_like.from_pretrained(FIXTURES / "models/bart").generate([[3, 4]], ctc_weight=0.3)


def test_folders_with_a_tokenizer_read_and_write_texts(tmp_path: Path) -> None:
    for folder in (TO_TEXT, TO_SPEECH):
        shutil.copytree(folder, tmp_path / folder.name)
        shutil.copytree(SPEECH / "tokenizer", tmp_path / folder.name, dirs_exist_ok=True)
    asr, tts = (t5x_like.from_pretrained(tmp_path / folder.name) for folder in (TO_TEXT, TO_SPEECH))
    ids = asr.generate(**inputs_of(TO_TEXT), max_new_tokens=4)
    texts = asr.decode(ids)
    assert len(texts) == 2
    assert all(isinstance(text, str) for text in texts)
    encoded = tts.encode(["the king", "a"])
    assert encoded["input_ids"].tolist() == [[4, 22, 12, 9, 4, 14, 13, 17, 11, 2], [4, 5, 2, *[1] * 7]]
    options: dict[str, Any] = {"speaker_embeddings": np.ones((1, 4)), "maxlenratio": 1.0}
    np.testing.assert_array_equal(
        tts.generate_speech(["the king", "a"], **options), tts.generate_speech(**encoded, **options)
    )
    t5x_like.export_hugging_face(tts, tmp_path / "out")
    assert t5x_like.from_pretrained(tmp_path / "out").vocabulary == tts.vocabulary
    assert (tmp_path / "out/spm_char.model").is_file()


def test_models_of_text_refuse_waveforms() -> None:
    t5 = t5x_like.from_pretrained(FIXTURES / "models/bart")
    with pytest.raises(ValueError, match="reads no input_values"):
        t5.generate([[3, 4]], input_values=np.zeros((1, 100)))
