"""What a plan's text adds to its numbers."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from t5x_like.partitioning.mesh import MESH_AXES
from t5x_like.planning.plan_report import plan_text
from t5x_like.planning.program_counts import CollectiveCounts, CollectiveKind, ProgramCounts
from t5x_like.planning.step_plan import MemoryUse, StepPlan
from t5x_like.planning.topology import topology


def text_of(chips: str, kind: str, fsdp: int) -> str:
    """Return the text of a plan for eight devices that send 3 GiB along fsdp and 0.5 GiB along data."""
    sizes = [fsdp if axis == "fsdp" else 8 // fsdp if axis == "data" else 1 for axis in MESH_AXES]
    sent = CollectiveCounts(times=1, payload_bytes=2.0**31, sent_bytes=3 * 2.0**30)
    others = CollectiveCounts(times=1, payload_bytes=2.0**29, sent_bytes=2.0**29)
    counts = ProgramCounts()
    counts.collectives[CollectiveKind(kind, ("fsdp",))] = sent
    counts.collectives[CollectiveKind("all-reduce", ("data",))] = others
    plan = StepPlan(
        topology=topology(chips),
        mesh=Mesh(np.array(jax.devices()[:8]).reshape(sizes), MESH_AXES),
        remat="full",
        num_microbatches=1,
        batch_size=8,
        num_tokens=64,
        total_steps=1,
        memory=MemoryUse({"parameters": 1}, 2, None),
        counts=counts,
        model_flops=1.0,
        roofline=None,
        compile_seconds=0.0,
    )
    return plan_text(plan, title="a recipe")


def test_weights_gathered_by_all_reduce_get_the_hint_to_form_groups():
    hint = "compare mesh data=2,fsdp=4"
    assert hint in text_of("v5p:2x2x2", "all-reduce", 8)
    assert "3.00 GiB are sent by all-reduce" in text_of("v5p:2x2x2", "all-reduce", 8)


@pytest.mark.parametrize(
    ("chips", "kind", "fsdp"),
    [("v5p:2x2x2", "all-gather", 8), ("v5p:2x2x2", "all-reduce", 4), ("cpu:8", "all-reduce", 8)],
)
def test_other_plans_do_not(chips, kind, fsdp):
    assert "compare mesh" not in text_of(chips, kind, fsdp)
