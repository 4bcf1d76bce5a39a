"""Plans as text; each number says where it comes from."""

from collections.abc import Sequence

from t5x_like.model.automatic_choices import shown_choices
from t5x_like.partitioning.mesh import mesh_text
from t5x_like.planning.decode_plan import DecodePlan
from t5x_like.planning.device_groups import BETWEEN_SLICES
from t5x_like.planning.plan_json import Origin, origin_of_counts, outlook
from t5x_like.planning.program_counts import CollectiveKind, ProgramCounts
from t5x_like.planning.search import SearchResult, StepSettings
from t5x_like.planning.step_plan import StepPlan, gib

_LEGEND = {
    "compiled": "the program that XLA compiled for these chips",
    "counts": "from counts, not compiled: a program for simulated CPU devices",
    "shapes": "shapes, types and shardings",
    "traced": "the step's matrix products as JAX traces them, without what remat computes again",
    "data sheet": "the maker's published figures",
    "recipe": "the recipe",
}


def plan_text(plan: StepPlan, *, title: str) -> str:
    """Return a plan as a table.

    Args:
      plan: The plan.
      title: First words, such as the recipe's name.
    """
    chip, memory = plan.topology.chip, plan.memory
    remat = f", remat {plan.remat}" if plan.remat else ""
    parts = f", {plan.num_microbatches} microbatches" if plan.num_microbatches > 1 else ""
    lines = [
        f"{title} on {plan.topology.text}: {plan.mesh.size} devices, mesh {mesh_text(plan.mesh.shape)}{remat}{parts}",
        f"batch of {plan.batch_size:,} rows, {plan.num_tokens:,} positions; compiled in {plan.compile_seconds:.0f} s",
        *([shown_choices(plan.choices)] if plan.choices else []),
        "",
        "memory of each device",
        *(_row(name, gib(size), "shapes") for name, size in memory.parts.items()),
    ]
    compiled = origin_of_counts(plan.topology)
    if memory.peak:
        lines += [
            _row("activations, gradients and copies", gib(memory.temporaries), compiled),
            _row("peak", gib(memory.peak), compiled),
        ]
    if memory.capacity is not None:
        lines.append(_row("memory of the chip", gib(memory.capacity), "data sheet"))
        used = f", {memory.peak / memory.capacity:.0%} of it" if memory.peak else ""
        lines.append(f"  {'it fits' if memory.fits else 'IT DOES NOT FIT'}{used}")
    if not memory.fits:
        lines += ["", *_what_takes_memory(plan)]
    if plan.counts is not None:
        lines += ["", *_collectives(plan), "", *_flops(plan)]
        lines += ["", *_times(plan)] if plan.roofline else []
        lines += _doubts(plan)
    lines += [f"note: {note}" for note in plan.notes]
    lines += ["", "where the numbers come from"]
    lines += [
        f"  [{name}] {meaning}"
        for name, meaning in _LEGEND.items()
        if any(f"[{name}" in line for line in lines)
    ]
    if chip.source:
        lines.append(f"  {chip.name}: {chip.source}")
    return "\n".join(lines)


def decode_text(plan: DecodePlan, *, title: str) -> str:
    """Return a plan of generation as a table.

    Args:
      plan: Plan of generation.
      title: First words, such as the recipe's name.
    """
    compiled = origin_of_counts(plan.topology)
    capacity = plan.topology.chip.memory_bytes
    fits = "" if not capacity else f", {plan.peak / capacity:.0%} of the chip's {gib(capacity)} [data sheet]"
    lines = [
        f"{title} on {plan.topology.text}: {plan.mesh.size} devices, mesh {mesh_text(plan.mesh.shape)}",
        f"{plan.num_rows:,} prompts of {plan.prompt_length:,} tokens and {plan.max_new_tokens:,} new ones, greedy",
        "",
        "memory of each device",
        _row("weights", gib(plan.weight_bytes), "shapes"),
        _row("cache: keys, values, encoder's output", gib(plan.cache_bytes), "shapes"),
        _row("peak of prefill", gib(plan.prefill.peak), compiled),
        _row("peak of a token", f"{gib(plan.token.peak)}{fits}", compiled),
    ]
    for name, program in (("prefill", plan.prefill), ("one token of each row", plan.token)):
        if program.counts is None:
            lines += ["", f"{name}: the compiler refused it", *program.refusal.splitlines()[:5]]
            continue
        lines += [
            "",
            name,
            _row("FLOPs", f"{program.counts.flops:.4g}", compiled),
            _row("read from and written to memory", gib(program.counts.num_bytes), compiled),
            _row("sent to other devices", gib(program.counts.sent_bytes), compiled),
        ]
        if program.roofline:
            times = (_seconds(program.roofline.overlapped_seconds), _seconds(program.roofline.serial_seconds))
            lines.append(_row("least time", " to ".join(times), compiled, "data sheet"))
    if plan.token.roofline:
        rate = plan.num_rows / plan.token.roofline.serial_seconds
        lines.append(f"  at most {rate:,.0f} new tokens/s without overlap  [{compiled}, data sheet]")
    return "\n".join(lines)


def search_text(result: SearchResult) -> str:
    """Return the ranked settings of a search, and what was not compiled."""
    lines = [
        "settings, best first (peak of each device; step time if communication overlaps, and if it doesn't)"
    ]
    for number, (setting, plan) in enumerate(result.plans, start=1):
        fits = "" if plan.memory.fits else "  DOES NOT FIT"
        peak = gib(plan.memory.peak) if plan.memory.peak else "?"
        times = ""
        if plan.roofline:
            times = (
                f"  {_seconds(plan.roofline.overlapped_seconds)} to {_seconds(plan.roofline.serial_seconds)}"
            )
        lines.append(f"{number:3}. {setting!s:<66} {peak:>11}{times}{fits}")
    lines += [f"the compiler failed on {setting}: {message}" for setting, message in result.failed]
    if result.too_large:
        lines.append(
            f"not compiled, for their state alone is larger than the memory: {_some(result.too_large)}"
        )
    if result.not_compiled:
        lines.append(f"not compiled (raise max_programs for more): {_some(result.not_compiled)}")
    return "\n".join(lines)


def _row(name: str, value: str, *origins: str) -> str:
    return f"  {name:<40} {value:>14}  [{', '.join(origins)}]"


def _what_takes_memory(plan: StepPlan) -> list[str]:
    parts = sorted(plan.memory.parts.items(), key=lambda item: -item[1])
    lines = ["what takes the memory"]
    lines += [_row(name, gib(size), "shapes") for name, size in parts[:3]]
    for each in plan.memory.largest:
        source = each.source_name.rpartition("/")[2] or "the program"
        lines.append(_row(f"{each.shape} of {source}", gib(each.num_bytes), origin_of_counts(plan.topology)))
    if plan.memory.refusal:
        lines += [f"  {line.strip()}" for line in plan.memory.refusal.splitlines()[:12] if line.strip()]
    return lines


def _collectives(plan: StepPlan) -> list[str]:
    assert plan.counts is not None, "the caller has checked"
    rows = sorted(plan.counts.collectives.items(), key=lambda item: -item[1].sent_bytes)
    if not rows:
        return [f"collectives of each device and step: none  [{origin_of_counts(plan.topology)}]"]
    lines = [
        f"collectives of each device and step: how often, whole arrays, bytes sent  [{origin_of_counts(plan.topology)}]"
    ]
    return lines + [
        f"  {kind.kind + ' along ' + ' and '.join(kind.axes):<36} {each.times:>7,} {gib(each.payload_bytes):>12} "
        f"{gib(each.sent_bytes):>12}"
        for kind, each in rows
    ]


def _flops(plan: StepPlan) -> list[str]:
    assert plan.counts is not None, "the caller has checked"
    of_model = plan.model_flops / plan.mesh.size
    ratio = f" (the program's FLOPs are {plan.counts.flops / of_model:.2f} x the model's)" if of_model else ""
    return [
        f"FLOPs and memory traffic of each device and step{ratio}",
        _row("FLOPs of the program", f"{plan.counts.flops:.4g}", origin_of_counts(plan.topology)),
        _row("FLOPs of the model", f"{of_model:.4g}", "traced"),
        _row("read from and written to memory", gib(plan.counts.num_bytes), origin_of_counts(plan.topology)),
        *_host_traffic(plan.counts, origin_of_counts(plan.topology)),
    ]


def _host_traffic(counts: ProgramCounts, origin: Origin) -> list[str]:
    return (
        [_row("to and from the host's memory", gib(counts.host_bytes), origin)] if counts.host_bytes else []
    )


def _memory_row(plan: StepPlan) -> str:
    return "memory" if plan.topology.is_compiled else "memory, arguments and results alone"


def _times(plan: StepPlan) -> list[str]:
    bounds = plan.roofline
    assert bounds is not None, "the caller has checked"
    both = (origin_of_counts(plan.topology), "data sheet")
    lines = [
        "least time of a step",
        _row("compute", _seconds(bounds.compute_seconds), *both),
        _row(_memory_row(plan), _seconds(bounds.memory_seconds), *both),
        _row("operations, each at its own limit", _seconds(bounds.operation_seconds), *both),
        _row("interconnect", _seconds(bounds.interconnect_seconds), *both),
        *_between_slices(plan, both),
    ]
    for name, seconds in (
        ("communication overlaps", bounds.overlapped_seconds),
        ("communication doesn't overlap", bounds.serial_seconds),
    ):
        rates = outlook(plan, seconds)
        lines.append(
            f"  if {name}: {_seconds(seconds)} a step, {rates['tokens_per_second']:,.0f} tokens/s, "
            f"{rates['model_flops_utilization']:.0%} utilization; {plan.total_steps:,} steps in "
            f"{rates['days']:.3g} days and {rates['chip_hours']:,.0f} chip-hours  [{', '.join(both)}, recipe]"
        )
    return lines


def _between_slices(plan: StepPlan, origins: Sequence[str]) -> list[str]:
    assert plan.counts is not None, "the caller has checked"
    sent = sum(
        each.sent_bytes for kind, each in plan.counts.collectives.items() if kind.axes == BETWEEN_SLICES
    )
    if not sent:
        return []
    seconds = plan.topology.send_seconds(sent, plan.mesh, BETWEEN_SLICES)
    return [_row("  of it between slices", _seconds(seconds), *origins)]


def _doubts(plan: StepPlan) -> list[str]:
    """Return what the counts lack."""
    assert plan.counts is not None, "the caller has checked"
    lines = []
    if plan.counts.num_open_loops:
        lines.append(
            f"note: {plan.counts.num_open_loops} loops have no fixed number of rounds and count as one round"
        )
    if plan.counts.host_bytes:
        lines.append("note: the time to move values to the host's memory and back is not counted")
    if plan.counts.custom_calls:
        calls = ", ".join(f"{name} x {times}" for name, times in plan.counts.custom_calls.items())
        lines.append(f"note: the FLOPs of these kernels are not counted: {calls}")
    lines += _hint_of_groups(plan)
    if origin_of_counts(plan.topology) == "counts":
        lines.append(
            "note: memory and bytes are those of a program for CPUs, which computes some bfloat16 in float32; a GPU's "
            "program takes less. Its time to read and write what it computes itself isn't known. To compile for GPUs, "
            "pip install 't5x-like[gpu]'; no GPU is needed"
        )
    elif plan.topology.chip.kind == "gpu":
        lines.append("note: four steps that were run on an H200 took 1.4 to 1.6 times this least time")
    return lines


def _hint_of_groups(plan: StepPlan) -> list[str]:
    """Return a better mesh where TPU's compiler gathers weights and sums gradients by all-reduce.

    It does so if weights are split over all chips, 64 or more.
    """
    assert plan.counts is not None, "the caller has checked"
    size, chip = plan.mesh.shape["fsdp"], plan.topology.chip
    by_all_reduce = plan.counts.collectives.get(CollectiveKind("all-reduce", ("fsdp",)))
    sent = 0.0 if by_all_reduce is None else by_all_reduce.sent_bytes
    if chip.kind != "tpu" or size != plan.mesh.size or size % 2 or 4 * sent < 3 * plan.counts.sent_bytes:
        return []
    return [
        f"note: {gib(sent)} are sent by all-reduce, twice what gathering and scattering send; TPU's compiler does that "
        f"for weights that are split over all chips: compare mesh data=2,fsdp={size // 2}"
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _some(settings: Sequence[StepSettings]) -> str:
    shown = "; ".join(str(setting) for setting in settings[:5])
    return f"{shown}; and {len(settings) - 5} more" if len(settings) > 5 else shown
