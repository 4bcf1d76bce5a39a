"""Hugging Face weights to a run directory and back: nothing is lost."""

import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from flax import serialization, traverse_util
from safetensors.numpy import load_file

import t5x_like
from t5x_like.cli.main import main
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
from tests.references import read_arrays


@pytest.mark.parametrize("name", ["t5_v10", "t5_v11"])
def test_there_and_back_gives_the_same_weights(golden: Path, tmp_path: Path, name: str) -> None:
    source, run, back = golden / "models" / name, tmp_path / "run", tmp_path / "back"
    assert main(["convert", "--from", str(source), "--to", str(run)]) == 0
    assert main(["convert", "--from", str(run), "--to", str(back), "--export", "hf"]) == 0
    before, after = load_file(source / "model.safetensors"), load_file(back / "model.safetensors")
    assert set(before) >= set(after)
    for weight, values in after.items():
        np.testing.assert_array_equal(values, before[weight])


@pytest.mark.parametrize("name", ["llama", "bart"])
def test_a_conversion_keeps_the_special_ids(golden: Path, tmp_path: Path, name: str) -> None:
    source, run, back = tmp_path / "source", tmp_path / "run", tmp_path / "back"
    shutil.copytree(golden / "models" / name, source)
    ids = {"pad_token_id": 3, "bos_token_id": 4, "eos_token_id": 5, "decoder_start_token_id": 6}
    fields = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(fields | ids))
    assert main(["convert", "--from", str(source), "--to", str(run)]) == 0
    assert main(["convert", "--from", str(run), "--to", str(back), "--export", "hf"]) == 0
    assert (
        SpecialTokenIds(pad=3, eos=5, bos=4, decoder_start=6)
        == open_checkpoint(run).special_ids
        == open_checkpoint(source).special_ids
    )
    assert ids.items() <= json.loads((back / "config.json").read_text()).items()


def test_a_directory_in_use_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine")
    assert main(["convert", "--from", str(tmp_path), "--to", str(tmp_path / "used")]) == 2
    assert "exists already; nothing was written" in capsys.readouterr().err


def test_what_is_no_model_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--from", str(tmp_path / "none"), "--to", str(tmp_path / "new")]) == 2
    assert main(["convert", "--from", str(tmp_path), "--to", str(tmp_path / "new")]) == 2
    assert "holds no model: give a run's directory" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype"), [("bfloat16", ml_dtypes.bfloat16), ("float16", np.float16)]
)
def test_an_export_may_be_in_half_precision(
    golden: Path, tmp_path: Path, dtype: str, numpy_dtype: type
) -> None:
    source, run, back = golden / "models" / "t5_v11", tmp_path / "run", tmp_path / "back"
    assert main(["convert", "--from", str(source), "--to", str(run)]) == 0
    assert main(["convert", "--from", str(run), "--to", str(back), "--export", "hf", "--dtype", dtype]) == 0
    before, after = load_file(source / "model.safetensors"), load_file(back / "model.safetensors")
    assert after
    for weight, values in after.items():
        np.testing.assert_array_equal(values, before[weight].astype(numpy_dtype))
    assert json.loads((back / "config.json").read_text())["torch_dtype"] == dtype


def test_a_t5x_checkpoint_becomes_a_run(golden: Path, tmp_path: Path) -> None:
    arrays = read_arrays(golden / "training" / "t5x_small.npz")
    reference = {name.removeprefix("init/"): arrays[name] for name in arrays if name.startswith("init/")}
    tree = {"version": 3, "optimizer": {"target": traverse_util.unflatten_dict(reference, sep="/")}}
    folder, run, back = tmp_path / "checkpoint_100", tmp_path / "run", tmp_path / "back"
    folder.mkdir()
    (folder / "checkpoint").write_bytes(serialization.to_bytes(tree))
    assert main(["convert", "--from", str(folder), "--to", str(run)]) == 0
    assert main(["convert", "--from", str(run), "--to", str(back), "--export", "hf"]) == 0
    exported = load_file(back / "model.safetensors")
    np.testing.assert_array_equal(exported["shared.weight"], reference["token_embedder/embedding"])
    kernel = reference["decoder/layers_1/encoder_decoder_attention/out/kernel"]
    np.testing.assert_array_equal(exported["decoder.block.1.layer.1.EncDecAttention.o.weight"], kernel.T)
    assert t5x_like.from_pretrained(tmp_path).config == t5x_like.from_pretrained(back).config


def test_a_gguf_file_becomes_a_run(golden: Path, tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    names = {"block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64}
    names |= {"attention.head_count": 2}
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (128, 32),
        "blk.0.ffn_gate": (64, 32),
        "blk.0.ffn_up": (64, 32),
        "blk.0.ffn_down": (32, 64),
    }
    shapes |= {f"blk.0.attn_{name}": (32, 32) for name in ("q", "k", "v", "output")}
    shapes |= {"output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for name, value in names.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.standard_normal(shape, np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    run, back = tmp_path / "run", tmp_path / "back"
    assert main(["convert", "--from", str(tmp_path / "model.gguf"), "--to", str(run)]) == 0
    assert main(["convert", "--from", str(run), "--to", str(back), "--export", "hf"]) == 0
    ids = np.arange(8)[None]
    direct, exported = (t5x_like.from_pretrained(path) for path in (tmp_path / "model.gguf", back))
    np.testing.assert_array_equal(direct(input_ids=ids).logits, exported(input_ids=ids).logits)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--dtype", "bfloat16"], "--dtype is for exports; a run keeps its weights in float32"),
        (["--step", "3"], "--step is for exports"),
    ],
)
def test_flags_of_exports_are_refused_for_imports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert main(["convert", "--from", str(tmp_path), "--to", str(tmp_path / "new"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_damaged_weights_leave_no_run_behind(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cut").mkdir()
    for name, end in (("config.json", None), ("model.safetensors", -50)):
        content = (golden / "models" / "t5_v11" / name).read_bytes()
        (tmp_path / "cut" / name).write_bytes(content[:end])
    assert main(["convert", "--from", str(tmp_path / "cut"), "--to", str(tmp_path / "run")]) == 2
    assert "is damaged or cut short" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
