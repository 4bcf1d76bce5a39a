"""T5X's checkpoints, written here as its checkpoints.py writes them: whole, per weight, per layer and scanned."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import tensorstore
from flax import serialization, traverse_util

from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5Config, t5x_weights
from t5x_like.model.zoo.weights import read_weights, write_weights
from t5x_like.pretrained.t5x_files import is_t5x, read_t5x, t5_config_of
from tests.references import read_arrays

CONFIG = T5Config(
    vocab_size=512,
    model_dim=128,
    mlp_dim=256,
    num_heads=4,
    head_dim=32,
    num_encoder_layers=2,
    num_decoder_layers=2,
)


@pytest.fixture(scope="module")
def weights(golden: Path) -> dict[str, np.ndarray]:
    """A small T5 that T5X initialised, by its own names."""
    arrays = read_arrays(golden / "training" / "t5x_small.npz")
    return {name.removeprefix("init/"): arrays[name] for name in arrays if name.startswith("init/")}


def scanned(weights: dict[str, np.ndarray], scope: Callable[[str], str]) -> dict[str, np.ndarray]:
    """Each weight of the layers as one array, the layers along axis 1."""
    together: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        stack, layer, rest = (*name.split("/", 2), "")[:3]
        if layer.startswith("layers_0"):
            layers = [weights[f"{stack}/layers_{index}/{rest}"] for index in range(2)]
            together[f"{stack}/{scope(stack)}/{rest}"] = np.stack(layers, axis=1)
        elif not layer.startswith("layers_"):
            together[name] = array
    return together


def write(
    directory: Path,
    weights: dict[str, np.ndarray],
    *,
    step: int = 1000,
    leaf: str = "spec",
    dtype: Any = None,
) -> Path:
    """Cut weights, which are all with more than one dimension, go to folders of their own."""
    folder = directory / f"checkpoint_{step}"
    folder.mkdir(parents=True)
    leaves: dict[str, Any] = {}
    for name, array in weights.items():
        array = array if dtype is None else array.astype(dtype)
        cut = array.ndim > 1
        leaves[name] = write_zarr(folder, f"target.{name.replace('/', '.')}", array, leaf) if cut else array
    target = traverse_util.unflatten_dict(leaves, sep="/")
    state = {"target": target, "state": {"step": np.int32(step), "param_states": {"v": None}}}
    content = serialization.to_bytes({"version": 3, "optimizer": state} if leaf != "orbax" else state)
    (folder / "checkpoint").write_bytes(content)
    return folder


def write_zarr(folder: Path, name: str, array: np.ndarray, leaf: str) -> Any:
    spec = {
        "driver": "zarr",
        "dtype": array.dtype.name,
        "kvstore": {"driver": "file", "path": str(folder / name)},
        "metadata": {
            "compressor": {"id": "gzip"},
            "shape": array.shape,
            "chunks": [array.shape[0] // 2, *array.shape[1:]],
        },
    }
    tensorstore.open(spec, create=True).result().write(array).result()
    if leaf == "orbax":
        return f"PLACEHOLDER://{name}"
    kvstore = {"driver": "gcs", "bucket": "t5x-dummy-bucket"} if leaf == "gcs" else {"driver": "file"}
    return tensorstore.Spec(spec | {"kvstore": kvstore | {"path": name}}).to_json()


def assert_same(directory: Path, weights: dict[str, np.ndarray]) -> None:
    source = read_t5x(directory)
    assert source.shapes == {name: array.shape for name, array in weights.items()}
    for name, array in weights.items():
        np.testing.assert_array_equal(source.read(name), array)


@pytest.mark.parametrize("leaf", ["spec", "gcs", "orbax"])
def test_a_checkpoint_of_single_layers_is_read(weights: Any, tmp_path: Path, leaf: str) -> None:
    assert_same(write(tmp_path, weights, leaf=leaf), weights)


def test_a_checkpoint_without_folders_is_read(weights: Any, tmp_path: Path) -> None:
    tree = traverse_util.unflatten_dict(weights, sep="/")
    (tmp_path / "checkpoint").write_bytes(
        serialization.to_bytes({"version": 3, "optimizer": {"target": tree}})
    )
    assert_same(tmp_path, weights)


@pytest.mark.parametrize("scope", [lambda stack: stack, lambda _: "layers"], ids=["newer", "older"])
def test_scanned_layers_are_told_apart(weights: Any, tmp_path: Path, scope: Callable[[str], str]) -> None:
    together = scanned(weights, scope)
    assert together[f"encoder/{scope('encoder')}/mlp/wo/kernel"].shape == (256, 2, 128)
    assert_same(write(tmp_path, together), weights)


def test_layers_may_be_read_in_any_order(weights: Any, tmp_path: Path) -> None:
    source = read_t5x(write(tmp_path, scanned(weights, lambda stack: stack)))
    for layer in (1, 0, 0, 1, 1):
        name = f"encoder/layers_{layer}/mlp/wo/kernel"
        np.testing.assert_array_equal(source.read(name), weights[name])


def test_heads_that_are_kept_apart_are_joined(weights: Any, tmp_path: Path) -> None:
    apart = dict(weights)
    for name, array in weights.items():
        if "attention/" in name and name.endswith("kernel"):
            apart[name] = array.reshape((4, 32, 128) if "/out/" in name else (128, 4, 32))
    assert_same(write(tmp_path / "layers", apart), weights)
    assert_same(write(tmp_path / "scanned", scanned(apart, lambda stack: stack)), weights)


def test_bfloat16_is_read_as_float32(weights: Any, tmp_path: Path) -> None:
    folder = write(tmp_path, weights, dtype=ml_dtypes.bfloat16)
    rounded = {name: array.astype(ml_dtypes.bfloat16).astype(np.float32) for name, array in weights.items()}
    assert_same(folder, rounded)


def test_a_run_gives_its_newest_step(weights: Any, tmp_path: Path) -> None:
    write(tmp_path, {"old": np.ones(2)}, step=900)
    write(tmp_path, {"new": np.ones(3)}, step=1000)
    (tmp_path / "checkpoint_2000.tmp-1").mkdir()
    assert is_t5x(tmp_path)
    assert read_t5x(tmp_path).shapes == {"new": (3,)}


def test_sizes_are_read_off_the_shapes(weights: Any, tmp_path: Path) -> None:
    source = read_t5x(write(tmp_path, weights))
    assert t5_config_of(source) == CONFIG
    assert t5_config_of(source, dropout_rate=0.1).dropout_rate == 0.1
    tied = {name: array for name, array in weights.items() if "logits_dense" not in name}
    relu = {name.replace("wi_0", "wi"): array for name, array in tied.items() if "wi_1" not in name}
    config = t5_config_of(read_t5x(write(tmp_path, relu, step=2)))
    assert (config.tie_word_embeddings, config.feed_forward) == (True, "relu")


def test_our_weights_become_theirs_and_return(weights: Any, tmp_path: Path) -> None:
    source = read_t5x(write(tmp_path, scanned(weights, lambda stack: stack)))
    _, shapes, _ = parameters.abstract(CONFIG)
    params = read_weights(
        t5x_weights(CONFIG), shapes, source, place=lambda _, array: jax.numpy.asarray(array)
    )
    for name, array in write_weights(t5x_weights(CONFIG), params):
        np.testing.assert_array_equal(array, weights[name])


def test_another_model_is_refused(weights: Any, tmp_path: Path) -> None:
    each = weights | {
        f"encoder/layers_{layer}/relpos_bias/rel_embedding": np.ones((4, 32)) for layer in (0, 1)
    }
    with pytest.raises(ValueError, match=r"relative positions of its own, as in UMT5"):
        t5_config_of(read_t5x(write(tmp_path / "umt5", scanned(each, lambda stack: stack))))
    with pytest.raises(ValueError, match=r"lacks token_embedder/embedding, .* it is not a T5 of T5X"):
        t5_config_of(read_t5x(write(tmp_path / "other", {"a": np.ones(2)})))


@pytest.mark.parametrize("place", ["../elsewhere", "/etc", "a/b", "..", ".", "a\\b", ""])
def test_weights_are_read_from_beside_the_checkpoint_only(tmp_path: Path, place: str) -> None:
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": place}}
    tree = {"version": 3, "optimizer": {"target": {"a": spec}}}
    (tmp_path / "checkpoint").write_bytes(serialization.to_bytes(tree))
    with pytest.raises(ValueError, match=r"a is said to be in .*; weights lie in folders next to it"):
        read_t5x(tmp_path)


def test_what_was_not_copied_is_named_and_never_zero(weights: Any, tmp_path: Path) -> None:
    folder = write(tmp_path, weights)
    name = "target.encoder.layers_0.mlp.wo.kernel"
    (folder / name / "0.0").unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing or damaged; copy the whole checkpoint again"):
        read_t5x(folder).read("encoder/layers_0/mlp/wo/kernel")
    (folder / name / ".zarray").unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing or damaged"):
        read_t5x(folder)


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_damaged_file_is_named(weights: Any, tmp_path: Path, kept: int) -> None:
    path = write(tmp_path, weights) / "checkpoint"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="checkpoint is damaged or cut short"):
        read_t5x(path.parent)


def test_other_files_of_that_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no T5X checkpoint"):
        read_t5x(tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1000"\n')
    with pytest.raises(ValueError, match="TensorFlow checkpoint"):
        read_t5x(tmp_path)
    (tmp_path / "checkpoint").write_bytes(serialization.to_bytes({"params": {"a": np.ones(2)}}))
    with pytest.raises(ValueError, match="no T5X checkpoint"):
        read_t5x(tmp_path)
