"""Settings that are "auto": what is chosen for each backend, and that programs are those of the choice."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax._src.cudnn import fused_attention_stablehlo
from jax.sharding import AbstractDevice, AbstractMesh, AxisType

from t5x_like.model import parameters
from t5x_like.model.adapters import PrefixTuning
from t5x_like.model.automatic_choices import any_platform, noted_choices, shown_choices
from t5x_like.model.families.family import predict
from t5x_like.model.layers import attention_implementations
from t5x_like.model.layers.cudnn_attention import FORWARD_PRIMITIVE
from t5x_like.partitioning.mesh import MeshConfig
from tests.model.zoo.tiny_models import TINY
from tests.training.test_every_architecture import batch_for

WIDE: dict[str, Any] = {"compute_dtype": "bfloat16", "dropout_rate": 0.0}
CONFIGS: dict[str, Any] = {"llama": TINY["llama"], "t5": replace(TINY["t5_1_0"], head_dim=8)}


def program(config: Any, platform: str, batch: Any = None) -> tuple[str, str]:
    """Trace a forward pass for one device of a backend; return what was chosen, and the program."""
    mesh = MeshConfig().build(jax.devices()[:1])
    absent = AbstractMesh(
        tuple(mesh.shape.values()),
        tuple(mesh.shape),
        axis_types=(AxisType.Auto,) * len(mesh.shape),
        abstract_device=AbstractDevice(device_kind=platform, num_cores=None, platform=platform),
    )
    graphdef, params = parameters.split(jax.eval_shape(config.build, jax.random.key(0)))

    def outputs(params: Any, batch: Any) -> Any:
        return predict(parameters.merge(graphdef, params), batch).decoder_output

    with noted_choices() as choices, jax.sharding.use_abstract_mesh(absent):
        text = str(jax.make_jaxpr(outputs)(params, batch_for(config, 0) if batch is None else batch))
    return shown_choices(choices), text


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_gpus_get_kernels_of_cudnn_and_no_loop(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(fused_attention_stablehlo, "check_cudnn_version", lambda: 91300)  # traced, not run
    chosen, text = program(replace(CONFIGS[name], **WIDE), "gpu")
    assert "attention_implementation='cudnn' (kernels for GPUs)" in chosen
    assert "scan_layers=False (on a GPU)" in chosen
    assert FORWARD_PRIMITIVE in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"compute_dtype": "float32"}, "cudnn can't compute compute_dtype='float32' (cuDNN needs bfloat16)"),
        ({"head_dim": 12}, "cudnn can't compute head_dim=12 (cuDNN needs a multiple of 8, at most 128)"),
    ],
)
def test_what_cudnn_can_not_compute_is_computed_plainly(changes: dict[str, Any], reason: str) -> None:
    chosen, text = program(replace(CONFIGS["t5"], **(WIDE | changes)), "gpu")
    assert f"attention_implementation='plain' ({reason})" in chosen
    assert FORWARD_PRIMITIVE not in text


@pytest.mark.parametrize("name", ["llama", "t5_1_0"])
def test_tpus_get_kernels_of_pallas_in_a_loop(name: str) -> None:
    chosen, text = program(replace(TINY[name], **WIDE), "tpu")
    assert "attention_implementation='pallas' (kernels for TPUs), scan_layers=True (on a TPU)" in chosen
    assert "pallas_call" in text


def test_cpus_compute_plainly_in_a_loop_unless_scores_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, plain = program(TINY["t5_1_0"], "cpu")
    assert chosen == "chosen: attention_implementation='plain' (on a CPU), scan_layers=True (on a CPU)"
    explicit = replace(TINY["t5_1_0"], attention_implementation="plain", scan_layers=True)
    assert program(explicit, "cpu")[1] == plain
    monkeypatch.setattr(attention_implementations, "_device_memory", lambda: 1000)
    chosen, in_blocks = program(TINY["t5_1_0"], "cpu")
    assert "attention_implementation='blockwise' (on a CPU; scores would need" in chosen
    assert program(replace(TINY["t5_1_0"], attention_implementation="blockwise"), "cpu")[1] == in_blocks


def test_programs_for_any_platform_have_no_kernels_of_one() -> None:
    with any_platform():
        chosen, text = program(replace(CONFIGS["t5"], **WIDE), "gpu")
    assert "attention_implementation='plain'" in chosen
    assert "scan_layers=True" in chosen
    assert FORWARD_PRIMITIVE not in text


def test_what_is_set_is_not_chosen() -> None:
    explicit = replace(TINY["llama"], attention_implementation="blockwise", scan_layers=False)
    assert program(explicit, "gpu")[0] == "chosen: "


def test_odd_lengths_and_prefixes_which_cudnn_does_not_train_are_computed_plainly() -> None:
    odd = {"batch": jax.tree.map(lambda rows: rows[:, :7], batch_for(CONFIGS["llama"], 0))}
    chosen, text = program(replace(CONFIGS["llama"], **WIDE), "gpu", **odd)
    assert "'plain' (cudnn can't compute 7 x 7 scores (cuDNN needs even lengths))" in chosen
    assert FORWARD_PRIMITIVE not in text
    chosen, _ = program(replace(CONFIGS["llama"], **WIDE, adapter=PrefixTuning(length=3)), "gpu")
    assert "'plain' (cudnn can't compute keys of a prefix)" in chosen


def test_kernels_of_tpus_need_a_mesh_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = attention_implementations.AttentionShape(64, None, jnp.dtype(jnp.bfloat16), 0.0, lengths=(8, 8))
    monkeypatch.setattr(attention_implementations, "platform", lambda: "tpu")
    assert attention_implementations.choose_attention([shape], num_scores=64)[0] == "plain"
    with jax.set_mesh(MeshConfig().build(jax.devices()[:2])):
        assert attention_implementations.choose_attention([shape], num_scores=64)[0] == "pallas"
