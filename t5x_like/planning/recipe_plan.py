"""The text that ``t5x-like plan`` prints for a recipe."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.planning import plan_json, plan_report
from t5x_like.planning.decode_plan import plan_decoding
from t5x_like.planning.mesh_checks import check_mesh
from t5x_like.planning.search import search
from t5x_like.planning.step_plan import plan_step
from t5x_like.planning.topology import topology
from t5x_like.training.experiment import Experiment

_MAX_WAYS_OUT = 4


def recipe_plan(
    load: Callable[[], Experiment],
    *,
    files: Sequence[str],
    topology_name: str,
    mesh: Mapping[str, int] | None,
    num_new_tokens: int = 0,
    max_programs: int = 0,
    as_json: bool = False,
) -> str:
    """Return the plan of a recipe as text or JSON; where a step doesn't fit, with settings that do.

    Args:
      load: Builds the recipe; called once JAX knows its devices.
      files: Names of the recipe, for the title.
      topology_name: Chips and their arrangement, such as "v5p:4x4x4".
      mesh: Devices along each axis; ``None`` for the recipe's mesh.
      num_new_tokens: Tokens to generate; 0 plans the train step.
      max_programs: Programs of a search; 0 for none.
      as_json: Print JSON.

    Raises:
      ValueError: The recipe, the topology or the mesh can't be used.
    """
    chips = topology(topology_name)
    devices = chips.devices()  # before the recipe's classes start JAX
    experiment = load()
    if mesh is not None:
        experiment = replace(experiment, mesh=MeshConfig(**mesh))
    tasks = experiment.data.tasks_of(experiment.data.train.mixture)
    check_mesh(experiment, tasks, chips.num_devices, is_given=mesh is not None)
    described: dict[str, Any] = {"recipe": list(files)}
    title = ", ".join(files)
    if num_new_tokens:
        decoding = plan_decoding(
            experiment,
            tasks,
            chips,
            devices,
            num_rows=experiment.data.train.batch_size,
            prompt_length=experiment.data.train.inputs_length,
            max_new_tokens=num_new_tokens,
        )
        if as_json:
            return json.dumps(described | plan_json.decode_json(decoding), indent=2)
        return plan_report.decode_text(decoding, title=title)
    plan = plan_step(experiment, tasks, chips, devices)
    search_result = None
    if max_programs:
        search_result = search(experiment, tasks, chips, devices, max_programs=max_programs - 1, known=plan)
    elif not plan.memory.fits:
        search_result = search(
            experiment, tasks, chips, devices, max_programs=_MAX_WAYS_OUT, stop_at_fit=True, known=plan
        )
    if as_json:
        described |= plan_json.plan_json(plan)
        described |= {"search": plan_json.search_json(search_result)} if search_result else {}
        return json.dumps(described, indent=2)
    text = plan_report.plan_text(plan, title=title)
    return f"{text}\n\n{plan_report.search_text(search_result)}" if search_result else text
