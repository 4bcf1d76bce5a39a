"""Safetensors as they are found: in shards, in other precisions, damaged, or not safetensors at all."""

import json
import re
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import t5x_like
from t5x_like.pretrained.safetensors_files import SafetensorsReader, StoredDtype, write_safetensors

ARRAYS = {"a": np.arange(16, dtype=np.float32).reshape(4, 4), "b": np.ones(2, np.float32)}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_file(ARRAYS, tmp_path / "model.safetensors")
    return tmp_path


def write_index(directory: Path, weight_map: object) -> None:
    """The index of a directory whose only file becomes a shard."""
    if (directory / "model.safetensors").exists():
        (directory / "model.safetensors").rename(directory / "first.safetensors")
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16])
def test_every_floating_point_number_is_read_as_float32(tmp_path: Path, dtype: type) -> None:
    save_file({"a": ARRAYS["a"].astype(dtype)}, tmp_path / "model.safetensors")
    read = SafetensorsReader(tmp_path).read("a")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, ARRAYS["a"])


def test_buffers_have_a_shape_but_are_no_weights(tmp_path: Path) -> None:
    save_file({"position_ids": np.arange(3)}, tmp_path / "model.safetensors")
    reader = SafetensorsReader(tmp_path)
    assert reader.shapes() == {"position_ids": (3,)}
    with pytest.raises(ValueError, match=r"position_ids is stored as I64; F64, F32, F16, BF16 can be read"):
        reader.read("position_ids")


def test_shards_give_what_one_file_would(golden: Path) -> None:
    reader = SafetensorsReader(golden / "models" / "variants" / "llama_sharded")
    whole = load_file(golden / "models" / "llama" / "model.safetensors")
    shapes = {name: array.shape for name, array in whole.items()}
    assert reader.shapes() == shapes | {"model.layers.0.self_attn.rotary_emb.inv_freq": (4,)}
    for name, array in whole.items():
        np.testing.assert_array_equal(reader.read(name), array)


def test_tensors_that_the_index_leaves_out_are_left_alone(directory: Path) -> None:
    write_index(directory, {"b": "first.safetensors"})
    assert SafetensorsReader(directory).shapes() == {"b": (2,)}


@pytest.mark.parametrize("name", ["llama_bf16", "t5_v11_f16"])
def test_low_precision_files_are_read(golden: Path, name: str) -> None:
    directory = golden / "models" / "variants" / name
    reader = SafetensorsReader(directory)
    for weight, array in load_file(directory / "model.safetensors").items():
        np.testing.assert_array_equal(reader.read(weight), array.astype(np.float32))


@pytest.mark.parametrize("name", ["bert_legacy_bin", "t5_v10_bin"])
def test_pickled_weights_are_refused_with_a_way_out(golden: Path, name: str) -> None:
    with pytest.raises(
        ValueError, match=r"pytorch_model.bin\), which can run code .* safe_serialization=True"
    ):
        SafetensorsReader(golden / "models" / "variants" / name)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth"]
)
def test_no_pickle_is_ever_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR.")
    with pytest.raises(ValueError, match="were not opened"):
        SafetensorsReader(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "file",
    [
        *("../model.safetensors", "/etc/passwd", "sub/model.safetensors", "..\\model.safetensors"),
        *("C:model.safetensors", "pytorch_model.bin", "..", "", ".safetensors/", 3, None),
    ],
)
def test_an_index_can_only_name_safetensors_beside_it(directory: Path, file: object) -> None:
    write_index(directory, {"a": file})
    with pytest.raises(ValueError, match=r"index\.json names .*; only \.safetensors files next to the index"):
        SafetensorsReader(directory)


def test_an_index_that_names_what_is_not_there_is_refused(directory: Path) -> None:
    write_index(directory, {"a": "first.safetensors", "c": "first.safetensors"})
    with pytest.raises(ValueError, match=r"says that first.safetensors holds c, but it doesn't"):
        SafetensorsReader(directory).shapes()
    write_index(directory, {"a": "other.safetensors"})
    with pytest.raises(ValueError, match=r"names other.safetensors, which is not there"):
        SafetensorsReader(directory)


def test_one_file_is_read_before_an_index_as_by_transformers(directory: Path) -> None:
    save_file({"c": ARRAYS["a"]}, directory / "other.safetensors")
    index = {"weight_map": {"c": "other.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert list(SafetensorsReader(directory).shapes()) == ["a", "b"]


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": []}', '{"weight_map": {}}'])
def test_an_index_without_a_map_is_refused(directory: Path, content: str) -> None:
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ValueError, match=r"no weight_map|type list, not an object"):
        SafetensorsReader(directory)


def with_header(header: str, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + data


def lying_headers() -> dict[str, str]:
    def header(**a: object) -> str:
        described = {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]} | a
        return json.dumps({"a": described, "b": {"dtype": "F32", "shape": [2], "data_offsets": [64, 72]}})

    return {
        "no JSON": "{{",
        "no object": "[]",
        "a larger shape": header(shape=[8, 8]),
        "a negative shape": header(shape=[-4, -4]),
        "a shape beyond all memory": header(shape=[2**40, 2**40]),
        "overlapping tensors": header(shape=[17], data_offsets=[0, 68]),
        "tensors beyond the end": header(shape=[1000], data_offsets=[72, 4072]),
        "an unknown dtype": header(dtype="F33"),
        "one name twice": header()[:-1] + ', "a": {"dtype": "F32", "shape": [1], "data_offsets": [72, 76]}}',
    }


@pytest.mark.parametrize("lie", lying_headers())
def test_a_header_that_lies_is_refused(directory: Path, lie: str) -> None:
    (directory / "model.safetensors").write_bytes(with_header(lying_headers()[lie], bytes(72)))
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged or cut short.* fetch it again"):
        SafetensorsReader(directory).shapes()


@pytest.mark.parametrize("kept", [0, 3, 8, 40, -1])
def test_a_file_cut_short_is_refused(directory: Path, kept: int) -> None:
    path = directory / "model.safetensors"
    content = path.read_bytes()[:kept]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"damaged or cut short.* {len(content)} bytes; fetch it again"):
        SafetensorsReader(directory)


def test_a_file_too_long_or_of_another_kind_is_refused(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(ValueError, match="damaged"):
        SafetensorsReader(directory)
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(ValueError, match=r"is a Git LFS pointer.*git lfs pull"):
        SafetensorsReader(directory)


def test_a_damaged_shard_is_named(directory: Path) -> None:
    save_file({"c": ARRAYS["a"]}, directory / "second.safetensors")
    write_index(directory, {"a": "first.safetensors", "c": "second.safetensors"})
    assert list(SafetensorsReader(directory).shapes()) == ["a", "c"]
    (directory / "second.safetensors").write_bytes(b"12345")
    with pytest.raises(ValueError, match=re.escape(f"{directory / 'second.safetensors'} is damaged")):
        SafetensorsReader(directory).shapes()


def test_from_pretrained_says_the_same(golden: Path, tmp_path: Path) -> None:
    source = golden / "models" / "t5_v11"
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged or cut short"):
        t5x_like.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype"), [("float32", np.float32), ("bfloat16", ml_dtypes.bfloat16)]
)
@pytest.mark.parametrize("max_shard_bytes", [10**9, 60])
def test_what_is_written_the_library_reads(
    tmp_path: Path, dtype: StoredDtype, numpy_dtype: type, max_shard_bytes: int
) -> None:
    arrays = ARRAYS | {"scalar": np.float32(3).reshape(()), "turned": ARRAYS["a"].T, "empty": np.ones((0, 2))}
    shapes = {name: array.shape for name, array in arrays.items()}
    write_safetensors(tmp_path, arrays.items(), shapes, dtype=dtype, max_shard_bytes=max_shard_bytes)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert (len(files) > 1) == (max_shard_bytes == 60)
    read = {name: array for file in files for name, array in load_file(file).items()}
    for name, array in arrays.items():
        assert read[name].dtype == numpy_dtype
        np.testing.assert_array_equal(read[name].astype(np.float32), array)
    assert SafetensorsReader(tmp_path).shapes() == shapes
