"""Ensembles that a recipe's ``Comparison`` names: finished runs of a sweep, evaluated together."""

from collections.abc import Sequence
from pathlib import Path

from t5x_like.gin_config.user_error import UserError
from t5x_like.sweep.comparison import Comparison
from t5x_like.sweep.grid import GridPoint
from t5x_like.sweep.run_pool import RunStage, SweepRun, verb_command

_OWN_EVALUATION = "evaluations.0."  # among the described values of a run


def ensemble_runs(
    compared: Comparison, runs: Sequence[SweepRun], *, output: str, flags: Sequence[str] = ()
) -> list[SweepRun]:
    """Return an evaluation for each ensemble and seed; those that lack a setting (``--only``) are left out.

    Args:
      compared: The recipe's.
      runs: Trainings of the sweep.
      output: Folder of the sweep.
      flags: Further flags of ``t5x-like evaluate``, such as modules to import.

    Raises:
      UserError: The runs score no task.
    """
    ensembles = []
    for name, settings in compared.ensembles.items():
        for first in (one for one in runs if one.point.label == settings[0]):
            joint = _joint_point(first, name)
            by_setting = {one.point.label: one for one in runs if _joint_point(one, name) == joint}
            if all(each in by_setting for each in settings):
                members = tuple(by_setting[each] for each in settings)
                ensembles.append(_ensemble(name, members, output, flags))
    return ensembles


def _joint_point(one: SweepRun, name: str) -> GridPoint:
    return one.point._replace(label=name, additions=())


def _ensemble(name: str, members: tuple[SweepRun, ...], output: str, flags: Sequence[str]) -> SweepRun:
    point = _joint_point(members[0], name)
    directory = Path(output) / "runs" / point.name
    first, *others = (str(one.stages[-1].directory) for one in members)
    prefix = ("then." if len(members[0].stages) > 1 else "") + _OWN_EVALUATION
    split, limit = (members[0].described.get(prefix + field) for field in ("split", "limit"))
    if split is None:
        raise UserError(
            f"the ensemble {name!r} is scored by its runs' own evaluations, and they have none; give the recipe "
            "evaluations"
        )
    command = [f"--checkpoint={first}", f"--output_dir={directory}", f"--split={split}", *flags]
    command += [] if limit is None else [f"--set=LIMIT={limit}"]
    described = {
        f"{one.point.label}: {field}": value for one in members for field, value in one.described.items()
    }
    sizes = [one.num_parameters for one in members]
    return SweepRun(
        point,
        directory,
        (RunStage(directory, verb_command("evaluate", [*command, "--ensemble", *others])),),
        described,
        None if None in sizes else sum(size for size in sizes if size is not None),
        members,
    )
