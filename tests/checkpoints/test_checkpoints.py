import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath

from t5x_like.checkpoints.checkpoints import Checkpoints, lazy_params, restore_step
from t5x_like.checkpoints.manifest import MANIFEST
from t5x_like.checkpoints.step_differences import compare_steps
from t5x_like.checkpoints.steps import list_steps, prune
from t5x_like.io.files import read_json
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import tree_shardings


class Moments(NamedTuple):
    count: jax.Array
    rows: dict


AXES = {
    "params": {"encoder": {"wi": ("embed", "mlp")}, "table": ("vocab", "embed")},
    "optimizer": (Moments((), {"wi": ("embed",), "absent": ("mlp",), "unused": None}), ()),
    "step": (),
}


def _state(seed: int = 0):
    numbers = np.random.default_rng(seed)
    return {
        "params": {
            "encoder": {"wi": jnp.asarray(numbers.normal(size=(8, 16)), jnp.float32)},
            "table": jnp.asarray(numbers.normal(size=(32, 8)), jnp.bfloat16),
        },
        "optimizer": (
            Moments(jnp.int32(seed), {"wi": jnp.ones(8), "absent": jnp.zeros((0,)), "unused": None}),
            (),
        ),
        "step": jnp.int32(seed),
    }


def _like(state, mesh=None):
    shapes = jax.eval_shape(lambda: state)
    if mesh is None:
        return shapes
    shardings = tree_shardings(AXES, shapes, mesh)
    return jax.tree.map(
        lambda s, where: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=where), shapes, shardings
    )


def _assert_equal(result, expected):
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    for left, right in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def _saved(directory, *steps, keep=3):
    with Checkpoints(directory, keep=keep) as checkpoints:
        for step in steps:
            checkpoints.save(step, _state(step), loader_state={"index": step}, config_text=f"step {step}")


def test_everything_saved_comes_back(tmp_path):
    _saved(tmp_path, 1, 2)
    with Checkpoints(tmp_path) as checkpoints:
        restored = checkpoints.restore(_like(_state()))
    _assert_equal(restored.state, _state(2))
    assert restored[0::2] == (2, {"index": 2}, ())
    assert restored.config_text == "step 2"


def test_an_older_step_can_be_asked_for(tmp_path):
    _saved(tmp_path, 1, 2)
    with Checkpoints(tmp_path) as checkpoints:
        _assert_equal(checkpoints.restore(_like(_state()), step=1).state, _state(1))


@pytest.mark.parametrize("num_devices", [1, 4, 8])
def test_a_state_saved_on_eight_devices_restores_on_any_number(tmp_path, num_devices):
    eight = MeshConfig(data=2, fsdp=2, model=2).build()
    like = _like(_state(3), eight)
    placed = jax.tree.map(lambda leaf, shape: jax.device_put(leaf, shape.sharding), _state(3), like)
    mesh = MeshConfig(data=1, fsdp=-1).build(jax.devices()[:num_devices])
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(3, placed)
        state = checkpoints.restore(_like(_state(3), mesh)).state
    _assert_equal(state, _state(3))
    assert state["params"]["encoder"]["wi"].sharding.mesh == mesh
    assert len(state["params"]["encoder"]["wi"].sharding.device_set) == num_devices


def test_only_the_newest_steps_are_kept(tmp_path):
    _saved(tmp_path, 1, 2, 3, 4, keep=2)
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.all_steps() == [3, 4]
        assert checkpoints.latest_step() == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4", "newest_step.json"]


def test_saving_is_not_disturbed_by_steps_that_reuse_the_memory(tmp_path):
    step = jax.jit(lambda state: jax.tree.map(lambda leaf: leaf * 0 - 7, state), donate_argnums=0)
    state = {"weights": jnp.arange(1_000_000, dtype=jnp.float32)}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state)
        for _ in range(5):
            state = step(state)
        restored = checkpoints.restore(jax.eval_shape(lambda: state)).state
    np.testing.assert_array_equal(restored["weights"], np.arange(1_000_000, dtype=np.float32))


def test_saving_the_current_step_again_does_nothing(tmp_path):
    _saved(tmp_path, 1)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.restore(_like(_state()))
        checkpoints.save(1, _state(9))
        _assert_equal(checkpoints.restore(_like(_state())).state, _state(1))
    assert not list(tmp_path.glob("*.set-aside"))


def test_a_run_that_went_back_sets_its_later_steps_aside(tmp_path):
    _saved(tmp_path, 10, 20)
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.restore(_like(_state()), step=10)
        checkpoints.save(15, _state(15))
        checkpoints.wait()
        assert checkpoints.all_steps() == [15]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["15", "20.set-aside", "newest_step.json"]


def test_closing_leaves_no_thread_behind(tmp_path):
    _saved(tmp_path, 1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("save-")]


def test_differences_are_listed_by_name(tmp_path):
    _saved(tmp_path, 1)
    like = _like(_state())
    like["params"]["encoder"] = {
        "w1": jax.ShapeDtypeStruct((8, 16), jnp.float32),
        "scale": jax.ShapeDtypeStruct((8,), jnp.float32),
    }
    like["params"]["table"] = jax.ShapeDtypeStruct((33, 8), jnp.bfloat16)
    like["step"] = jax.ShapeDtypeStruct((), jnp.float32)
    with Checkpoints(tmp_path) as checkpoints, pytest.raises(ValueError, match="doesn't fit") as caught:
        checkpoints.restore(like)
    assert str(caught.value).splitlines()[1:] == [
        "  params/encoder/scale float32(8,) is missing",
        "  params/encoder/w1 float32(8, 16) is missing (there is params/encoder/wi)",
        "  params/table has shape (32, 8), needed (33, 8)",
        "  step has dtype int32, needed float32",
        "  params/encoder/wi float32(8, 16) is not wanted",
    ]


def test_typed_keys_are_refused_by_name(tmp_path):
    with Checkpoints(tmp_path) as checkpoints, pytest.raises(ValueError, match="dropout/key has dtype key"):
        checkpoints.save(1, {"dropout": {"key": jax.random.key(0)}})


@pytest.mark.parametrize("part", ["", "checkpoints", "checkpoints/2"])
def test_another_runs_weights_come_without_its_optimizer(tmp_path, part):
    _saved(tmp_path / "checkpoints", 1, 2)
    params = restore_step(tmp_path / part, _like(_state()["params"]))[1]
    _assert_equal(params, _state(2)["params"])
    assert restore_step(tmp_path, _like(_state()["params"]), step=1)[1]["table"].dtype == jnp.bfloat16


def test_weights_that_do_not_fit_are_listed_together(tmp_path):
    _saved(tmp_path, 1)
    like = {"encoder": {"wi": jax.ShapeDtypeStruct((8, 17), jnp.float32)}, "head": jnp.zeros((8, 32))}
    with pytest.raises(ValueError, match="doesn't fit") as caught:
        restore_step(tmp_path, like)
    assert str(caught.value).splitlines()[1:] == [
        "  params/encoder/wi has shape (8, 16), needed (8, 17)",
        "  params/head float32(8, 32) is missing",
        "  params/table bfloat16(32, 8) is not wanted",
    ]


def _with_output_layer(name):
    """A state whose output layer has a name: weights, and a moment of each."""
    rng = np.random.default_rng(1)
    weights = {"heads": {name: {"bias": jnp.asarray(rng.normal(size=8), jnp.float32)}}, "table": jnp.ones(3)}
    return {"params": weights, "optimizer": (Moments(jnp.int32(1), jax.tree.map(jnp.square, weights)),)}


def test_a_checkpoint_with_the_output_layers_earlier_name_is_read_and_saved_with_the_present_one(tmp_path):
    state = _with_output_layer("lm_head")
    with Checkpoints(tmp_path / "earlier") as checkpoints:
        checkpoints.save(1, _with_output_layer("words"))
    saved = read_json(tmp_path / "earlier/1/leaves.json")
    assert {"params/heads/words/bias", "optimizer/0/rows/heads/words/bias"} <= saved.keys()
    with Checkpoints(tmp_path / "earlier") as checkpoints:
        restored = checkpoints.restore(_like(state))
        _assert_equal(restored.state, state)
        checkpoints.save(2, restored.state)
    assert "params/heads/lm_head/bias" in read_json(tmp_path / "earlier/2/leaves.json")
    _assert_equal(restore_step(tmp_path / "earlier", _like(state["params"]), step=1)[1], state["params"])
    with lazy_params(tmp_path / "earlier", _like(state["params"]), step=1) as params:
        bias = np.asarray(params["heads"]["lm_head"]["bias"])
    np.testing.assert_array_equal(bias, state["params"]["heads"]["lm_head"]["bias"])
    assert all(
        each.is_equal for each in compare_steps(*(epath.Path(tmp_path / "earlier" / step) for step in "12"))
    )


def test_an_output_layer_of_another_size_is_refused_by_its_present_name(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, _with_output_layer("words"))
        other = _with_output_layer("lm_head")
        other["params"]["heads"]["lm_head"]["bias"] = jnp.ones(9)
        with pytest.raises(ValueError, match=r"params/heads/lm_head/bias has shape \(8,\), needed \(9,\)"):
            checkpoints.restore(_like(other))


def test_sums_that_an_earlier_version_did_not_log_begin_at_zero(tmp_path):
    sums = {"loss": jnp.float32(3), "measures": {"router_entropy": {"total": jnp.float32(2)}}}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"totals": {**sums, "measures": {}}})
        restored = checkpoints.restore(_like({"totals": sums})).state
        with pytest.raises(ValueError, match=r"totals/z_loss float32\(\) is missing"):
            checkpoints.restore(_like({"totals": {**sums, "z_loss": jnp.float32(1)}}))
    assert restored["totals"]["measures"] == {"router_entropy": {"total": 0}}
    assert restored["totals"]["loss"] == 3


def test_a_copy_of_a_step_under_another_name_counts_as_none(tmp_path):
    """With 010 as the second step of number 10, pruning to two steps would delete step 9."""
    directory = epath.Path(tmp_path)
    for name in ("9", "10", "010", "١٠"):
        (directory / name).mkdir()
        (directory / name / MANIFEST).write_text("{}")
    assert list_steps(directory) == [9, 10]
    prune(directory, keep=2)
    assert sorted(path.name for path in directory.iterdir()) == ["010", "10", "9", "١٠"]
