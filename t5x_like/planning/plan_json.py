"""Plans as JSON values; ``origin`` names where each section's numbers come from."""

import platform
from typing import Any, Literal

import jax

from t5x_like.planning.decode_plan import DecodePlan
from t5x_like.planning.device_program import DeviceProgram
from t5x_like.planning.program_counts import ProgramCounts
from t5x_like.planning.search import SearchResult
from t5x_like.planning.step_plan import StepPlan
from t5x_like.planning.topology import Topology

Origin = Literal["compiled", "counts", "shapes", "traced", "data sheet", "recipe"]


def plan_json(plan: StepPlan) -> dict[str, object]:
    """Return a plan as JSON values; ``origin`` names where each section's numbers come from."""
    memory, counts, bounds = plan.memory, plan.counts, plan.roofline
    compiled = origin_of_counts(plan.topology)
    described: dict[str, Any] = {
        "topology": plan.topology.text,
        "devices": plan.mesh.size,
        "mesh": {name: int(size) for name, size in plan.mesh.shape.items()},
        "remat": plan.remat,
        "num_microbatches": plan.num_microbatches,
        "batch_size": plan.batch_size,
        "positions_per_step": plan.num_tokens,
        "total_steps": plan.total_steps,
        "compile_seconds": round(plan.compile_seconds, 1),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "memory": {
            "bytes": memory.parts,
            "temporaries_bytes": memory.temporaries if memory.peak else None,
            "peak_bytes": memory.peak or None,
            "capacity_bytes": memory.capacity,
            "fits": memory.fits,
            "largest_arrays": [each._asdict() for each in memory.largest],
            "origin": {"bytes": "shapes", "peak_bytes": compiled, "capacity_bytes": "data sheet"},
        },
        "model_flops": {"all_devices": plan.model_flops, "origin": "traced"},
        "choices": [choice._asdict() for choice in plan.choices],
        "notes": list(plan.notes),
    }
    if counts is not None:
        described["program"] = _counts_json(counts, compiled)
    if bounds is not None:
        described["time"] = bounds._asdict() | {
            "overlapped": outlook(plan, bounds.overlapped_seconds),
            "not_overlapped": outlook(plan, bounds.serial_seconds),
            "origin": f"{compiled}, data sheet",
            "data_sheet": plan.topology.chip._asdict(),
        }
    return described


def search_json(result: SearchResult) -> dict[str, object]:
    """Return the results of a search as JSON values."""
    return {
        "plans": [plan_json(plan) for _, plan in result.plans],
        "not_compiled": [str(setting) for setting in result.not_compiled],
        "state_larger_than_memory": [str(setting) for setting in result.too_large],
        "failed": {str(setting): message for setting, message in result.failed},
    }


def decode_json(plan: DecodePlan) -> dict[str, object]:
    """Return a plan of generation as JSON values."""
    return {
        "topology": plan.topology.text,
        "mesh": {name: int(size) for name, size in plan.mesh.shape.items()},
        "rows": plan.num_rows,
        "prompt_length": plan.prompt_length,
        "max_new_tokens": plan.max_new_tokens,
        "weight_bytes": plan.weight_bytes,
        "cache_bytes": plan.cache_bytes,
        "prefill": _program_json(plan.prefill, plan.topology),
        "token": _program_json(plan.token, plan.topology),
    }


def outlook(plan: StepPlan, seconds: float) -> dict[str, float]:
    """Return rates and cost of the recipe if each step takes some time.

    Args:
      plan: Plan of a training step.
      seconds: Time of a step.
    """
    run = seconds * plan.total_steps
    return {
        "seconds_per_step": seconds,
        "tokens_per_second": plan.num_tokens / seconds,
        "model_flops_utilization": plan.utilization(seconds),
        "days": run / 86400,
        "chip_hours": run / 3600 * plan.mesh.size,
    }


def origin_of_counts(topology: Topology) -> Origin:
    """Return "counts" where programs are compiled for simulated CPU devices in place of the chips."""
    return "compiled" if topology.is_compiled else "counts"


def _program_json(program: DeviceProgram, topology: Topology) -> dict[str, object]:
    described: dict[str, Any] = {
        "peak_bytes": program.peak or None,
        "compile_seconds": round(program.compile_seconds, 1),
    }
    if program.counts is not None:
        described |= _counts_json(program.counts, origin_of_counts(topology))
    if program.roofline is not None:
        described["time"] = program.roofline._asdict()
    return described


def _counts_json(counts: ProgramCounts, origin: str) -> dict[str, object]:
    return {
        "flops": counts.flops,
        "memory_bytes": counts.num_bytes,
        "sent_bytes": counts.sent_bytes,
        "host_bytes": counts.host_bytes,
        "collectives": [
            {"kind": kind.kind, "axes": list(kind.axes)} | vars(each)
            for kind, each in sorted(counts.collectives.items())
        ],
        "uncounted_custom_calls": dict(counts.custom_calls),
        "loops_without_trip_count": counts.num_open_loops,
        "origin": origin,
    }
