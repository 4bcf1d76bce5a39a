"""Compile train steps for TPU topologies ahead of time, each in a process of its own, and keep what they need.

    python -m benchmarks.plans                                all that results/plans.json doesn't hold yet
    python -m benchmarks.plans --only t5_1_1_large            those whose names begin so, again
    python -m benchmarks.plans --programs attention_plans     implementations of attention, side by side

Needs ``pip install 't5x-like[plan]'`` and no TPU; accelerator_plans and gpu_scaling need ``'t5x-like[gpu]'``, no GPU.
A program is saved as soon as it is compiled.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import about
from t5x_like.io.files import write_json

RESULTS = Path(__file__).parent / "results"
_PRETRAIN_T5 = "gin/recipes/t5_1_1/pretrain_base.gin"
_XXL = "gin/recipes/t5_1_1/pretrain_xxl_pod.gin"
_BERT = ("gin/recipes/objectives/masked_lm.gin", "gin/models/bert/large.gin", "gin/hardware/v5e_8.gin")
_BERT_SIZES = (
    "INPUTS_LENGTH=512",
    "TARGETS_LENGTH=512",
    "BATCH_SIZE=256",
    "VOCAB_SIZE=30592",
    "TRAIN_STEPS=1000000",
)


class Program(NamedTuple):
    """A step to compile.

    Attributes:
      files: Gin files of the recipe; a later one overrules.
      topology: The devices.
      mesh: Their arrangement.
      settings: Values of macros.
    """

    files: tuple[str, ...]
    topology: str
    mesh: str
    settings: tuple[str, ...] = ()


def _t5(size: str, topology: str, mesh: str, *settings: str) -> Program:
    return Program((_PRETRAIN_T5, f"gin/models/t5_1_1/{size}.gin"), topology, mesh, settings)


def _xxl(mesh: str, remat: str, *settings: str) -> Program:
    """Return the settings of T5X's published XXL configuration."""
    sizes = ("BATCH_SIZE=512", "TARGETS_LENGTH=128", f"REMAT={remat}")
    return Program((_XXL,), "v5p:4x4x4", mesh, (*sizes, *settings))


PROGRAMS = {
    "t5_1_1_large": _t5("large", "v5e:4x4", "fsdp=16"),
    "bert_large": Program(_BERT, "v5e:4x4", "fsdp=16", _BERT_SIZES),
    "t5_1_1_base": _t5("base", "v5e:4x4", "fsdp=16"),
    "t5_1_1_small": _t5("small", "v5e:4x4", "fsdp=16"),
    "t5_1_1_xxl_v5e": Program((_XXL,), "v5e:16x16", "fsdp=256"),
    "t5_1_1_large_copies": _t5("large", "v5e:4x4", "data=16"),
    "t5_1_1_large_model_axis": _t5("large", "v5e:4x4", "fsdp=4,model=4"),
    "t5_1_1_xxl_v5e_two_groups": Program((_XXL,), "v5e:16x16", "data=2,fsdp=128"),
    "t5_1_1_xxl_v5p": _xxl("fsdp=64", "minimal"),
    "t5_1_1_xxl_v5p_two_groups": _xxl("data=2,fsdp=32", "minimal"),
    "t5_1_1_xxl_v5p_two_groups_offloaded": _xxl("data=2,fsdp=32", "minimal_offloaded"),
    "t5_1_1_xxl_v5p_model_axis": _xxl("fsdp=16,model=4", "minimal"),
    "t5_1_1_xxl_v5p_model_axis_of_2": _xxl("fsdp=32,model=2", "minimal"),
    "t5_1_1_xxl_v5p_model_axis_of_8": _xxl("fsdp=8,model=8", "minimal"),
    "t5_1_1_xxl_v5p_model_axis_offloaded": _xxl("fsdp=16,model=4", "minimal_offloaded"),
    "t5_1_1_xxl_v5p_model_axis_of_2_offloaded": _xxl("fsdp=32,model=2", "minimal_offloaded"),
    "t5_1_1_xxl_v5p_model_axis_save_dot_except_mlp": _xxl("fsdp=16,model=4", "save_dot_except_mlp"),
    "t5_1_1_xxl_v5p_model_axis_in_two_parts": _xxl("fsdp=16,model=4", "minimal", "NUM_MICROBATCHES=2"),
}

_CAUSAL_LM = "gin/recipes/objectives/king_james.gin"  # with OBJECTIVE_NAME=causal_lm
_LLAMA = (_CAUSAL_LM, "gin/models/llama/7b.gin", "gin/hardware/v5e_8.gin")
_LLAMA_SMALL = (
    "OBJECTIVE_NAME=causal_lm",
    "LlamaConfig.model_dim=1024",
    "LlamaConfig.mlp_dim=2816",
    "LlamaConfig.num_layers=24",
    "LlamaConfig.num_heads=8",
    "LlamaConfig.num_kv_heads=2",
    "VOCAB_SIZE=32000",
    "TRAIN_STEPS=1000000",
    "REMAT=full",
)

_LLAMA_1B = (
    "OBJECTIVE_NAME=causal_lm",
    "LlamaConfig.model_dim=2048",
    "LlamaConfig.mlp_dim=5632",
    "LlamaConfig.num_layers=22",
    "LlamaConfig.num_heads=32",
    "LlamaConfig.num_kv_heads=4",
    "TARGETS_LENGTH=2048",
    "VOCAB_SIZE=32000",
    "TRAIN_STEPS=1000000",
)


def _attention(topology: str) -> dict[str, Program]:
    """Return programs with each implementation of attention, on 4 chips."""
    chip, _, _ = topology.partition(":")
    implementations = ("plain", "blockwise", "pallas")
    t5 = {
        f"T5 1.1 base, 512 tokens, {chip}, {each}": _t5(
            "base", topology, "data=4", "BATCH_SIZE=128", f"T5Config.attention_implementation={each}"
        )
        for each in implementations
    }

    def llama(length: int, rows: int, implementation: str) -> Program:
        sizes = (f"TARGETS_LENGTH={length}", f"LlamaConfig.max_position_embeddings={length}")
        chosen = f"LlamaConfig.attention_implementation={implementation}"
        return Program(_LLAMA, topology, "data=4", (*_LLAMA_SMALL, *sizes, f"BATCH_SIZE={rows}", chosen))

    return t5 | {
        f"LLaMA 0.3B, {length} tokens, {chip}, {each}": llama(length, rows, each)
        for length, rows in ((8192, 4), (2048, 16))
        for each in implementations
    }


_CHIPS = {"v5e:4x4": 16, "v5e:16x16": 256, "v5p:4x4x4": 64, "v5p:8x8x8": 512}
_ROWS_OF_A_CHIP = 8


def _sizes() -> dict[str, Program]:
    """Return every size of T5 1.1 on every topology: weights split along fsdp, 8 rows of 512 + 114 tokens a chip."""
    return {
        f"T5 1.1 {size}, {topology}": _t5(
            size, topology, f"fsdp={chips}", f"BATCH_SIZE={_ROWS_OF_A_CHIP * chips}", "REMAT=full"
        )
        for topology, chips in _CHIPS.items()
        for size in ("small", "base", "large", "xl", "xxl")
    }


def _decoder(model: str, topology: str, mesh: str, length: int, rows: int, vocab_size: int) -> Program:
    files = (_CAUSAL_LM, f"gin/models/{model}.gin", "gin/hardware/v5e_8.gin")
    sizes = (
        "OBJECTIVE_NAME=causal_lm",
        f"TARGETS_LENGTH={length}",
        f"BATCH_SIZE={rows}",
        f"VOCAB_SIZE={vocab_size}",
    )
    return Program(files, topology, mesh, (*sizes, "TRAIN_STEPS=1000000", "REMAT=full"))


_OTHER_FAMILIES = {
    "BERT large, v5e:4x4": Program(_BERT, "v5e:4x4", "fsdp=16", _BERT_SIZES),
    "GPT-3 13B, v5p:4x4x4": _decoder("gpt3/13b", "v5p:4x4x4", "data=2,fsdp=4,model=8", 2048, 128, 50304),
    "LLaMA 7B, v5p:4x4x4": _decoder("llama/7b", "v5p:4x4x4", "fsdp=64", 2048, 256, 32000),
    "LLaMA 2 70B, v5p:8x8x8": _decoder("llama2/70b", "v5p:8x8x8", "fsdp=128,model=4", 4096, 256, 32000),
}


def _weak_scaling() -> dict[str, Program]:
    """Return T5 1.1 XL on 8 to 512 chips, each with 16 rows: split over half of the chips, at most over 32, or all."""

    def program(shape: str, chips: int, fsdp: int) -> Program:
        settings = (f"BATCH_SIZE={16 * chips}", "REMAT=full")
        return _t5("xl", f"v5p:{shape}", f"data={chips // fsdp},fsdp={fsdp}", *settings)

    slices = ("2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
    sizes = dict(zip(slices, (8, 16, 32, 64, 128, 256, 512), strict=True))
    halves = {
        f"T5 1.1 XL, {chips} chips": program(shape, chips, min(chips // 2, 32))
        for shape, chips in sizes.items()
    }
    return halves | {
        f"T5 1.1 XL, {chips} chips, over all": program(shape, chips, chips)
        for shape, chips in sizes.items()
        if chips <= 64
    }


def _slice_scaling() -> dict[str, Program]:
    """Return T5 1.1 XL on 1 to 8 slices of 512 chips, each chip with 16 rows."""
    programs = {}
    for num_slices in (1, 2, 4, 8):
        chips = 512 * num_slices
        topology = f"{num_slices}xv5p:8x8x8" if num_slices > 1 else "v5p:8x8x8"
        settings = (f"BATCH_SIZE={16 * chips}", "REMAT=full")
        programs[f"T5 1.1 XL, {chips} chips"] = _t5("xl", topology, f"data={chips // 32},fsdp=32", *settings)
    return programs


def _gpu_scaling() -> dict[str, Program]:
    """Return T5 1.1 XL on 8 to 512 GPUs, each with 16 rows: split over all of them, or over those of a machine."""
    programs = {}
    for number in (8, 64, 512):
        for mesh in dict.fromkeys((f"data={number // 8},fsdp=8", f"data=1,fsdp={number}")):
            settings = (f"BATCH_SIZE={16 * number}", "T5Config.attention_implementation=cudnn")
            programs[f"T5 1.1 XL, {number} H100, {mesh}"] = _t5("xl", f"h100:{number}", mesh, *settings)
    return programs


def _experts() -> dict[str, Program]:
    """Return sparse models whose experts are gathered along fsdp, and shared out along fsdp or expert."""
    switch = ("gin/recipes/switch_transformer/pretrain_base.gin",)
    olmoe = ("gin/recipes/olmoe/pretrain.gin",)
    models = {
        "OLMoE 1B-7B": olmoe,
        "Moonlight 16B-A3B": (*olmoe, "gin/models/deepseek_v3/moonlight_16b.gin"),
    }
    return {
        f"Switch-Base, 8 experts, {mesh}": Program(
            switch, "v5e:8x8", mesh, ("SwitchTransformerConfig.num_experts=8",)
        )
        for mesh in ("fsdp=64", "fsdp=8,expert=8")
    } | {
        f"{name}, {mesh}": Program(files, "v5p:4x4x4", mesh, ("BATCH_SIZE=256",))
        for name, files in models.items()
        for mesh in ("fsdp=64", "fsdp=8,expert=8")
    }


def _accelerator() -> dict[str, Program]:
    """Return the models and rows of ``benchmarks.accelerator`` on one GPU."""
    gpu = ("h200:1", "fsdp=1")

    def fast(config: str) -> tuple[str, ...]:
        return f"{config}.attention_implementation=cudnn", f"{config}.scan_layers=False"

    t5 = ("TARGETS_LENGTH=128", "Experiment.optimizer=@AdamW()", *fast("T5Config"))
    return {
        "t5_1_1_large": _t5("large", *gpu, "BATCH_SIZE=128", *t5),
        "t5_1_1_xl": _t5("xl", *gpu, "BATCH_SIZE=64", *t5),
        "bert_large": Program(
            _BERT, *gpu, (*_BERT_SIZES, "BATCH_SIZE=128", "BertConfig.dropout_rate=0.0", *fast("BertConfig"))
        ),
        "llama_1b": Program(_LLAMA, *gpu, (*_LLAMA_1B, "BATCH_SIZE=16", *fast("LlamaConfig"))),
    }


def _automatic() -> dict[str, Program]:
    """Return what is chosen for T5 1.1 base, and its alternatives."""
    machines = {"v5e:2x2": ("data=4", "BATCH_SIZE=64"), "h100:1": ("data=1", "BATCH_SIZE=128")}
    alternatives = {
        "v5e:2x2": (("auto", "auto"), ("plain", True), ("blockwise", True), ("pallas", False)),
        "h100:1": (("auto", "auto"), ("plain", True), ("plain", False), ("cudnn", True)),
    }
    return {
        f"{topology}, attention_implementation={attention}, scan_layers={loop}": _t5(
            "base",
            topology,
            *machines[topology],
            "COMPUTE_DTYPE=bfloat16",
            f"T5Config.attention_implementation={attention}",
            f"T5Config.scan_layers={loop}",
        )
        for topology, pairs in alternatives.items()
        for attention, loop in pairs
    }


# By the file of their results.
PROGRAM_SETS = {
    "plans": PROGRAMS,
    "accelerator_plans": _accelerator(),
    "automatic_plans": _automatic(),
    "attention_plans": {**_attention("v5e:2x2"), **_attention("v5p:2x2x1")},
    "expert_plans": _experts(),
    "family_plans": {**_OTHER_FAMILIES, **_sizes()},
    "gpu_scaling": _gpu_scaling(),
    "slice_scaling": _slice_scaling(),
    "weak_scaling": _weak_scaling(),
}


def compile_program(program: Program) -> dict[str, Any]:
    """Run ``t5x-like plan`` and return its JSON object, or the error."""
    command = [sys.executable, "-m", "benchmarks.plans", "--", "plan", "--json"]
    command += [f"--gin_file={file}" for file in program.files]
    command += ["--topology", program.topology, "--mesh", program.mesh]
    command += [f"--set={setting}" for setting in program.settings]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout)


def main() -> None:
    """Compile the programs, and save each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAME", help="programs whose names begin so, again")
    parser.add_argument("--programs", default="plans", choices=list(PROGRAM_SETS), help="which to compile")
    parser.add_argument("--output", help="the JSON file to write")
    arguments = parser.parse_args()
    path = Path(arguments.output or RESULTS / f"{arguments.programs}.json")
    results = json.loads(path.read_text()) if path.exists() else {}
    for name, program in PROGRAM_SETS[arguments.programs].items():
        if not name.startswith(arguments.only) or (name in results and not arguments.only):
            continue
        result = compile_program(program)
        results[name] = {
            "settings": program._asdict(),
            **about(),
            "plan": result,
        }
        write_json(path, results)
        print(name, result.get("error") or f"compiled in {result['compile_seconds']} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--"]:  # a program's own process
        from t5x_like.cli.main import main as command_line

        sys.exit(command_line(sys.argv[2:]))
    main()
