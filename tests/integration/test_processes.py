"""Several processes train as one."""

import numpy as np
import pytest

from t5x_like.io.files import read_jsonl
from tests.integration.programs import finish, losses, start, start_several

STEPS = 6


def train_both_ways(directory, count, mesh):
    """Returns the directory of the run of several processes, after a run of one with as many devices."""
    name = "_".join([str(count), *mesh])
    for process in start_several(directory / name, STEPS, count, mesh=mesh):
        finish(process)
    alone = directory / f"alone_{name}"
    finish(start(alone, STEPS, num_devices=count, mesh=mesh))
    several, one = losses(directory / name), losses(alone)
    assert several.keys() == one.keys() == set(range(1, STEPS + 1))
    np.testing.assert_allclose(list(several.values()), list(one.values()), rtol=1e-5)
    return directory / name


def test_two_processes_give_the_losses_of_one(directory):
    home = train_both_ways(directory, 2, [])
    assert (home / str(STEPS)).is_dir(), "they saved together"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "mesh"),
    [
        (2, ["data=1", "fsdp=2"]),
        (2, ["data=1", "model=2"]),
        (4, ["data=2", "fsdp=2"]),
        (4, ["data=1", "fsdp=4"]),
        (4, ["data=1", "fsdp=2", "model=2"]),
        (4, ["data=1", "model=4"]),
    ],
)
def test_weights_may_be_split_over_processes(directory, count, mesh):
    home = train_both_ways(directory, count, mesh)
    arrays = home / str(STEPS) / "state"
    sizes = [
        sum(file.stat().st_size for file in (arrays / f"ocdbt.process_{index}").rglob("*"))
        for index in range(count)
    ]
    assert min(sizes) > sum(sizes) / count / 2, f"every process writes its part: {sizes}"


@pytest.mark.slow
def test_processes_write_one_log_and_one_evaluation(directory):
    home = train_both_ways(directory, 2, ["fsdp=2", "evaluate"])
    lines = [(line["step"], line["split"]) for line in read_jsonl(home / "metrics.jsonl")]
    assert sorted(set(lines)) == sorted(lines)
    assert (STEPS, "evaluation/capitals") in lines
    [evaluation] = (home / "evaluations").iterdir()
    ours, alone = (
        list(read_jsonl(folder / "evaluations" / evaluation.name / "capitals" / "predictions.jsonl"))
        for folder in (home, directory / "alone_2_fsdp=2_evaluate")
    )
    assert len({row["number"] for row in ours}) == len(ours) == len(alone) > 0
    assert [row["prediction"] for row in ours] == [row["prediction"] for row in alone]


@pytest.mark.slow
def test_a_run_continues_with_another_number_of_processes(directory):
    def train(name, steps, count):
        for process in start_several(directory / name, steps, count, mesh=["fsdp=2"]):
            finish(process)
        return losses(directory / name)

    whole = train("uninterrupted_pair", STEPS, 2)
    for count in (2, 4):
        train(f"then_{count}", STEPS // 2, 2)
        resumed = train(f"then_{count}", STEPS, count)
        assert resumed.keys() == whole.keys()
        if count == 2:
            assert resumed == whole, "to the bit"
        np.testing.assert_allclose(list(resumed.values()), list(whole.values()), rtol=1e-5)
