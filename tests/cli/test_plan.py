"""``t5x-like plan``: real train steps, compiled for simulated devices; bad input."""

import importlib.util
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from t5x_like.cli.main import main
from t5x_like.gin_config.configuration import load
from t5x_like.model.zoo.switch_transformer import SwitchTransformerConfig
from t5x_like.partitioning.mesh import MESH_AXES
from t5x_like.planning import gpu_compiler
from t5x_like.planning.chips import CHIPS
from t5x_like.planning.search import meshes, search
from t5x_like.planning.topology import Topology
from t5x_like.training.experiment import Experiment

KING_JAMES = "gin/recipes/objectives/king_james.gin"
T5 = ("--gin_file", KING_JAMES, "--set", "OBJECTIVE_NAME=span_corruption")
GPT = ("--gin_file", KING_JAMES, "--set", "OBJECTIVE_NAME=causal_lm")
BERT = ("--gin_file", "gin/recipes/objectives/masked_lm.gin")
QUICKSTART = "gin/recipes/t5_1_1/pretrain_base.gin"


def own_task(arguments: Sequence[str]) -> list[str]:
    """Flags that name a recipe's task after it: recipes of one process must not share a name."""
    names = re.findall(r"OBJECTIVE_NAME=(\w+)|objectives/(masked_lm)\.gin", " ".join(arguments))
    return ["--set", f"MIXTURE=plan_{''.join(names[0])}"] if names else []


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    flags = own_task(arguments)
    assert main(["plan", "--topology", "cpu:8", "--json", *arguments, *flags]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    flags = own_task(arguments)
    assert main(["plan", *arguments, *flags]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert "Traceback" not in shown.err
    return shown.err


def test_a_t5_on_a_mesh_of_two_axes_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, *T5, "--mesh", "fsdp=4,model=2")
    assert plan["mesh"] == {"data": 1, "fsdp": 4, "expert": 1, "context": 1, "model": 2}
    assert plan["positions_per_step"] == 8 * (64 + 24)
    assert plan["memory"]["fits"]
    sizes = plan["memory"]["bytes"]
    # AdamW keeps two moments of every weight.
    assert sizes["optimizer state"] == pytest.approx(2 * sizes["parameters"], rel=0.01)
    assert plan["memory"]["peak_bytes"] > sum(sizes.values())
    axes = {axis for each in plan["program"]["collectives"] for axis in each["axes"]}
    assert axes == {"fsdp", "model"}
    assert plan["program"]["loops_without_trip_count"] == 0
    assert plan["program"]["origin"] == "compiled"
    # Without remat the program multiplies what the model needs, and nothing twice.
    assert plan["program"]["flops"] * 8 == pytest.approx(plan["model_flops"]["all_devices"], rel=1e-4)
    assert "time" not in plan, "a CPU has no data sheet"


@pytest.mark.slow
def test_rows_that_devices_share_send_keys_and_values_around(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, *GPT, "--mesh", "data=2,context=4", "--search", "--max_programs", "1")
    assert plan["mesh"] == {"data": 2, "fsdp": 1, "expert": 1, "context": 4, "model": 1}
    assert plan["program"]["loops_without_trip_count"] == 0
    along = {(each["kind"], *each["axes"]) for each in plan["program"]["collectives"]}
    assert ("collective-permute", "context") in along
    assert not any("?" in kind for kind in along)
    # 64 positions of 8 rows, 4 bytes in each of six streams, and as much on each device.
    assert plan["memory"]["bytes"]["batch"] * 8 == 6 * 4 * 8 * 64
    # No recipe's rows of 64 tokens are cut but by itself.
    waiting = plan["search"]["not_compiled"]
    assert any("context=2" in setting for setting in waiting)
    assert not any("context=8" in setting for setting in waiting)


def test_a_length_that_the_mesh_does_not_divide_is_refused_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ("--mesh", "data=2,context=4", "--set", "TARGETS_LENGTH=62")
    message = refusal(capsys, *GPT, "--topology", "cpu:8", *flags)
    assert "rows of 62 tokens can't be split evenly into context 4 parts; use 60 or 64 tokens" in message
    assert "The nearest that do: --mesh=data=2,fsdp=2,context=2,model=1" in message


@pytest.mark.parametrize("recipe", [pytest.param(GPT, marks=pytest.mark.slow), BERT])
def test_a_decoder_and_an_encoder_are_counted(
    capsys: pytest.CaptureFixture[str], recipe: tuple[str, ...]
) -> None:
    plan = planned(capsys, *recipe)
    assert plan["mesh"] == {"data": 8, "fsdp": 1, "expert": 1, "context": 1, "model": 1}
    assert plan["positions_per_step"] == 8 * 64
    # The backward pass computes the encoder's logits again.
    assert plan["program"]["flops"] * 8 == pytest.approx(plan["model_flops"]["all_devices"], rel=0.07)
    (gradients,) = [each for each in plan["program"]["collectives"] if each["payload_bytes"] > 1e5]
    assert gradients["kind"] == "all-reduce"
    assert gradients["axes"] == ["data"]
    # All gradients, and those of the table twice: of the lookup and of the head that shares it.
    table = 384 * 64 * 4
    weights = plan["memory"]["bytes"]["parameters"]
    assert gradients["payload_bytes"] == pytest.approx(weights + table, rel=0.001)


@pytest.mark.slow
def test_gpus_without_their_compiler_are_planned_from_counts_and_say_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_compiler, "is_installed", lambda: False)
    assert main(["plan", *T5, "--topology", "h100:8", *own_task(T5)]) == 0
    table = capsys.readouterr().out
    assert "from counts, not compiled" in table
    assert "pip install 't5x-like[gpu]'" in table
    assert "h100: https://www.nvidia.com" in table
    assert "it fits" in table
    assert re.search(
        r"if communication overlaps: [\d.]+ m?s a step, [\d,]+ tokens/s, \d+% utilization", table
    )
    assert "300 steps in" in table
    for line in table.splitlines():
        if re.match(r"  (parameters|optimizer state|batch) ", line):
            assert line.endswith("[shapes]")


@pytest.mark.slow
def test_attention_by_cudnn_without_a_compiler_for_gpus_is_planned_as_blockwise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_compiler, "is_installed", lambda: False)
    plans = [
        planned(
            capsys,
            *T5,
            "--topology",
            "h200:1",
            "--set",
            f"T5Config.attention_implementation={each}",
        )
        for each in ("cudnn", "blockwise")
    ]
    assert plans[0]["program"]["flops"] == plans[1]["program"]["flops"]
    # Products at the data sheet's rate, or the state: what a CPU's program moves is no bound of a GPU's time.
    time = plans[0]["time"]
    assert time["operation_seconds"] == max(time["compute_seconds"], time["memory_seconds"])
    assert time["memory_seconds"] < plans[0]["program"]["memory_bytes"] / 4.8e12


@pytest.mark.parametrize("recipe", [pytest.param(T5, marks=pytest.mark.slow), GPT])
def test_generation_is_planned_by_its_cache_prefill_and_tokens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, recipe: tuple[str, ...]
) -> None:
    monkeypatch.setattr(gpu_compiler, "is_installed", lambda: False)
    plan = planned(capsys, *recipe, "--decode", "16")
    assert plan["max_new_tokens"] == 16
    # A row on each device; weights are copies.
    prompts, token = plan["prefill"]["flops"], plan["token"]["flops"]
    assert prompts > 20 * token > 0
    assert plan["token"]["peak_bytes"] > plan["weight_bytes"] + plan["cache_bytes"]
    assert main(["plan", *recipe, "--topology", "h200:8", "--decode", "16", *own_task(recipe)]) == 0
    assert re.search(
        r"at most [\d,]+ new tokens/s without overlap  \[counts, data sheet\]", capsys.readouterr().out
    )


def test_generation_by_a_model_that_only_reads_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    electra = ("--gin_file", KING_JAMES, "--set", "OBJECTIVE_NAME=electra_pretraining")
    message = refusal(capsys, *electra, "--topology", "cpu:8", "--decode", "16")
    assert "doesn't generate" in message
    assert "leave --decode out" in refusal(capsys, *T5, "--topology", "cpu:8", "--decode", "4", "--search")


@pytest.mark.slow
def test_a_search_ranks_what_it_compiled_and_names_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, *GPT, "--search", "--max_programs", "2")
    result = plan["search"]
    assert len(result["plans"]) == 2
    assert result["plans"][0]["memory"]["peak_bytes"] <= result["plans"][1]["memory"]["peak_bytes"]
    assert any("model=8" in setting for setting in result["not_compiled"])


def test_an_unknown_topology_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(capsys, *T5, "--topology", "v9:4x4")
    assert "there is no topology 'v9:4x4'" in message
    assert "v5p:4x4x4" in message
    assert "cpu:N" in message
    message = refusal(capsys, *T5, "--topology", "v5e:4x5")
    assert "v5e has no topology '4x5'" in message
    assert "v5e:4x8" in message
    assert "write cpu:8" in refusal(capsys, *T5, "--topology", "cpu:many")


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ("2xv4:4x4x4", "the network between slices of v4 is not published; plan one slice"),
        ("2xh100:8", "names slices, which TPUs have; write h100:16"),
        ("99xv5e:4x4", "has 1,584 devices; give 2 to 64 slices"),
        ("64xv5e:16x16", "at most 8,192 devices"),
        ("2xv5e:9x9", "v5e has no topology '9x9'"),
    ],
)
def test_slices_that_there_are_not_are_refused(capsys, slices, message) -> None:
    assert message in refusal(capsys, *T5, "--topology", slices)


def test_a_mesh_for_other_devices_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(capsys, *T5, "--topology", "cpu:8", "--mesh", "fsdp=3")
    assert "there are 8" in message
    assert "--mesh=data=1,fsdp=4,model=2" in message


def test_a_batch_that_the_mesh_does_not_divide_is_refused_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = refusal(capsys, *T5, "--topology", "cpu:8", "--set", "BATCH_SIZE=6")
    assert "6 rows of a batch can't be shared out evenly" in message
    assert "--mesh=data=2,fsdp=1,model=4" in message


def test_experts_that_the_mesh_does_not_divide_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(capsys, *T5, "--topology", "cpu:8", "--mesh", "expert=8", "--set", "BATCH_SIZE=8")
    assert "the mesh has expert=8, and the model has no experts; use fsdp=8 instead" in message


@pytest.mark.parametrize(
    ("num_experts", "with_axis"),
    [(4, {2, 4}), (16, set())],  # fsdp alone shares out 16 on 8 devices
)
def test_the_search_tries_the_expert_axis_where_fsdp_does_not_divide_the_experts(
    num_experts: int, with_axis: set[int]
) -> None:
    size = {
        "model_dim": 8,
        "mlp_dim": 8,
        "num_heads": 2,
        "num_encoder_layers": 2,
        "head_dim": 4,
        "num_decoder_layers": 2,
        "vocab_size": 384,
    }
    experiment = load(
        [KING_JAMES],
        [
            "OBJECTIVE_NAME='span_corruption'",
            "MODEL_DIR='unused'",
            "MIXTURE='experts'",
            "BATCH_SIZE=8",
            "INPUTS_LENGTH=16",
            "TARGETS_LENGTH=16",
        ],
        roots=[Experiment],
    ).value
    model = SwitchTransformerConfig(**size, num_experts=num_experts)
    tasks = experiment.data.resolve().train
    results = {
        sizes[MESH_AXES.index("expert")] for sizes in meshes(replace(experiment, model=model), tasks, 8)
    }
    assert results == {1} | with_axis


def test_heads_and_vocabulary_that_the_mesh_does_not_divide_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ("--set", "VOCAB_SIZE=512", "--set", "T5Config.num_heads=4", "--set", "T5Config.mlp_dim=96")
    message = refusal(capsys, *T5, "--topology", "cpu:6", "--mesh", "data=2,model=3", *flags)
    assert "heads of 4 can't be cut into model=3" in message
    assert "vocab of 512 can't be cut into model=3" in message
    assert "mlp" not in message
    assert "The nearest that do: --mesh=data=2,fsdp=1,model=3" not in message


def test_a_recipe_without_a_needed_macro_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.gin"
    text = f"include '{KING_JAMES}'\nOBJECTIVE_NAME = 'span_corruption'\nTRAIN_STEPS = %gin.REQUIRED\n"
    recipe.write_text(text)
    message = refusal(capsys, "--gin_file", str(recipe), "--topology", "cpu:8")
    assert "--set TRAIN_STEPS=" in message
    assert "--gin_file" in refusal(capsys, "--topology", "cpu:8")


@pytest.mark.slow
def test_files_and_vocabulary_need_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    shrunk = (
        "num_encoder_layers=1",
        "num_decoder_layers=1",
        "model_dim=16",
        "mlp_dim=16",
        "num_heads=2",
        "head_dim=8",
    )
    flags = [text for each in shrunk for text in ("--set", f"T5Config.{each}")]
    sizes = ("--set", "INPUTS_LENGTH=16", "--set", "TARGETS_LENGTH=8", "--set", "BATCH_SIZE=8")
    plan = planned(capsys, "--gin_file", QUICKSTART, *flags, *sizes)
    # The published vocabulary, cut over all devices: embedding and head.
    assert plan["memory"]["bytes"]["parameters"] > 2 * 32128 * 16 * 4 / 8
    assert plan["total_steps"] == 524288


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is not None, reason="libtpu is installed")
def test_without_libtpu_the_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(capsys, *T5, "--topology", "v5e:2x4")
    assert "pip install 't5x-like[plan]'" in message


def test_a_step_is_compiled_for_a_tpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("libtpu", reason="libtpu (pip install 't5x-like[plan]') isn't installed")
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    plain = ("--set", "T5Config.attention_implementation=plain")
    assert main(["plan", *T5, "--topology", "v5e:2x4", "--json", *plain, *own_task(T5)]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["program"]["origin"] == "compiled"
    assert plan["program"]["loops_without_trip_count"] == 0
    assert plan["memory"]["capacity_bytes"] == 16 * 2**30
    assert plan["program"]["flops"] * 8 == pytest.approx(plan["model_flops"]["all_devices"], rel=1e-4)
    bounds = plan["time"]
    assert bounds["overlapped"]["seconds_per_step"] <= bounds["not_overlapped"]["seconds_per_step"]
    assert bounds["operation_seconds"] >= max(bounds["compute_seconds"], bounds["memory_seconds"])


def test_attention_kernels_are_compiled_and_counted_for_a_tpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("libtpu", reason="libtpu (pip install 't5x-like[plan]') isn't installed")
    kernels = ("--set", "T5Config.attention_implementation=pallas")
    assert main(["plan", *T5, "--topology", "v5e:2x4", "--json", *kernels, *own_task(T5)]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["program"]["uncounted_custom_calls"] == {}
    # Blocks are padded, and scores are computed again.
    assert plan["program"]["flops"] * 8 > plan["model_flops"]["all_devices"]


def test_the_search_leaves_out_meshes_that_join_no_slices() -> None:
    settings = ["OBJECTIVE_NAME='causal_lm'", "MODEL_DIR='unused'", "MIXTURE='slices'", "BATCH_SIZE=8"]
    experiment = load([KING_JAMES], settings, roots=[Experiment]).value
    for num_slices, has_model_axis_alone in ((1, True), (2, False)):
        slices = Topology("cpu:8", CHIPS["cpu"], (8 // num_slices,), num_slices)
        tasks = experiment.data.resolve().train
        waiting = search(experiment, tasks, slices, jax.devices(), max_programs=0).not_compiled
        assert ((1, 1, 1, 1, 8) in [each.mesh for each in waiting]) == has_model_axis_alone


def test_a_step_is_compiled_for_two_slices(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("libtpu", reason="libtpu (pip install 't5x-like[plan]') isn't installed")
    mesh = ("--mesh", "data=2,fsdp=4", "--set", "T5Config.attention_implementation=plain")
    assert main(["plan", *T5, "--topology", "2xv5e:2x2", *mesh, *own_task(T5)]) == 0
    printed = capsys.readouterr().out
    assert "all-reduce along slices" in printed
    assert "all-gather along fsdp" in printed
    assert "along ?" not in printed
    assert "of it between slices" in printed


@pytest.mark.skipif(gpu_compiler.is_installed(), reason="JAX's CUDA plugin is installed")
def test_a_cuda_plugin_that_jax_cannot_use_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_compiler, "is_installed", lambda: True)
    message = refusal(capsys, *T5, "--topology", "h100:8")
    assert "pip install 't5x-like[gpu]' brings the plugin" in message


NO_CUDA = "JAX's CUDA plugin (pip install 't5x-like[gpu]') isn't installed"


@pytest.mark.skipif(not gpu_compiler.is_installed(), reason=NO_CUDA)
def test_a_step_is_compiled_for_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    mesh = ("--mesh", "fsdp=8")
    assert main(["plan", *T5, "--topology", "h100:8", *mesh, "--json", *own_task(T5)]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["program"]["origin"] == "compiled"
    assert plan["program"]["loops_without_trip_count"] == 0
    assert plan["program"]["flops"] * 8 == pytest.approx(plan["model_flops"]["all_devices"], rel=1e-3)
    kinds = {each["kind"] for each in plan["program"]["collectives"] if each["axes"] == ["fsdp"]}
    assert {"all-gather", "reduce-scatter"} <= kinds
    bounds = plan["time"]
    assert bounds["operation_seconds"] >= max(bounds["compute_seconds"], bounds["memory_seconds"]) > 0


def assert_default_is_fastest(
    capsys: pytest.CaptureFixture[str], topology: str, implementations: Sequence[str], loops: Sequence[bool]
) -> None:
    """Compare the seconds of a step, as the plan bounds them, with those of alternatives."""
    sizes = ("INPUTS_LENGTH=512", "TARGETS_LENGTH=128", "BATCH_SIZE=64", "T5Config.model_dim=512")
    kind = ("T5Config.compute_dtype=bfloat16", "T5Config.num_heads=8", "T5Config.head_dim=64")

    def seconds(*settings: str) -> float:
        flags = [text for setting in (*sizes, *kind, *settings) for text in ("--set", setting)]
        assert main(["plan", *T5, "--topology", topology, "--json", *flags, *own_task(T5)]) == 0
        return json.loads(capsys.readouterr().out)["time"]["overlapped"]["seconds_per_step"]

    chosen = seconds()
    for implementation in implementations:
        for loop in loops:
            settings = f"T5Config.attention_implementation={implementation}", f"T5Config.scan_layers={loop}"
            assert chosen <= seconds(*settings) * 1.001, settings


@pytest.mark.slow
def test_nothing_is_faster_than_the_default_on_a_tpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("libtpu", reason="libtpu (pip install 't5x-like[plan]') isn't installed")
    # Without a loop steps may be faster, and compile for twice the time.
    assert_default_is_fastest(capsys, "v5e:2x2", ("plain", "blockwise", "pallas"), (True,))


@pytest.mark.slow
@pytest.mark.skipif(not gpu_compiler.is_installed(), reason=NO_CUDA)
def test_nothing_is_faster_than_the_default_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert_default_is_fastest(capsys, "h100:1", ("plain", "blockwise", "cudnn"), (True, False))


def test_a_plan_says_what_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    choices = {each["setting"]: each["value"] for each in planned(capsys, *T5, "--mesh", "data=8")["choices"]}
    assert choices == {"attention_implementation": "plain", "scan_layers": True}


@pytest.mark.skipif(not gpu_compiler.is_installed(), reason=NO_CUDA)
def test_attention_by_cudnn_is_compiled_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    plans = []
    for each in ("plain", "cudnn"):
        settings = ("T5Config.compute_dtype=bfloat16", f"T5Config.attention_implementation={each}")
        flags = [text for setting in settings for text in ("--set", setting)]
        assert main(["plan", *T5, "--topology", "a100:1", "--json", *flags, *own_task(T5)]) == 0
        plans.append(json.loads(capsys.readouterr().out))
    plain, cudnn = plans
    assert cudnn["program"]["uncounted_custom_calls"] == {}
    # Scores are computed again in the backward pass, and never written.
    assert cudnn["program"]["flops"] > plain["program"]["flops"]
    assert cudnn["program"]["memory_bytes"] < plain["program"]["memory_bytes"]


def planned_small_xxl(
    capsys: pytest.CaptureFixture[str], topology: str, mesh: str, *settings: str
) -> dict[str, Any]:
    """Return the plan of T5 1.1 XXL's recipe, whose rows have 114 targets, with one narrow layer in each stack."""
    small = (
        "VOCAB_SIZE=512",
        "T5Config.num_encoder_layers=1",
        "T5Config.num_decoder_layers=1",
        "T5Config.model_dim=512",
        "T5Config.mlp_dim=256",
    )
    flags = [text for setting in (*small, *settings) for text in ("--set", setting)]
    files = ("--gin_file", "gin/recipes/t5_1_1/pretrain_xxl_pod.gin")
    assert main(["plan", *files, "--topology", topology, "--mesh", mesh, "--json", *flags]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.skipif(not gpu_compiler.is_installed(), reason=NO_CUDA)
def test_products_for_which_triton_has_no_tiles_are_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned_small_xxl(capsys, "h100:1", "fsdp=1", "BATCH_SIZE=64", "REMAT=minimal")
    assert plan["program"]["flops"] >= plan["model_flops"]["all_devices"]


@pytest.mark.skipif(not gpu_compiler.is_installed(), reason=NO_CUDA)
@pytest.mark.parametrize(("remat", "most"), [("minimal", 1.2), ("full", 1.6)])
def test_devices_compute_only_their_own_attention_again(
    capsys: pytest.CaptureFixture[str], remat: str, most: float
) -> None:
    cudnn = "T5Config.attention_implementation=cudnn"
    plan = planned_small_xxl(capsys, "h100:8", "fsdp=8", "BATCH_SIZE=512", f"REMAT={remat}", cudnn)
    assert 1.0 < plan["program"]["flops"] * 8 / plan["model_flops"]["all_devices"] < most
    gathered = sum(
        each["payload_bytes"] for each in plan["program"]["collectives"] if "all-gather" in each["kind"]
    )
    assert gathered < 2 * plan["memory"]["bytes"]["parameters"] * 8
