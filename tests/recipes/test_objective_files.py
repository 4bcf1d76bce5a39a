"""Every file of gin/objectives defines an objective, and its macros turn what they name."""

import pytest

from t5x_like.gin_config.configuration import load_one
from t5x_like.text.objectives.objective import Objective
from t5x_like.text.tasks.pretraining import PretrainingTask
from tests.references import ROOT

FILES = sorted((ROOT / "gin" / "objectives").glob("*.gin"))


def built(name, *overrides):
    return load_one(
        [f"gin/objectives/{name}.gin"],
        overrides,
        root=PretrainingTask,
        parameter="objective",
        macro="OBJECTIVE",
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_defines_an_objective_and_names_its_paper(file):
    assert isinstance(built(file.stem), Objective)
    header = "".join(line for line in file.read_text().splitlines(keepends=True) if line.startswith("#"))
    assert "http" in header


@pytest.mark.parametrize("noise_density", [0.1, 0.15, 0.25, 0.5])
@pytest.mark.parametrize("mean_noise_span_length", [2.0, 3.0, 5.0, 10.0])
def test_span_corruption_takes_the_papers_densities_and_spans(noise_density, mean_noise_span_length):
    objective = built(
        "span_corruption",
        f"NOISE_DENSITY = {noise_density}",
        f"MEAN_NOISE_SPAN_LENGTH = {mean_noise_span_length}",
    )
    assert (objective.noise_density, objective.mean_noise_span_length) == (
        noise_density,
        mean_noise_span_length,
    )


@pytest.mark.parametrize(
    "name", ["iid_denoising", "drop_corrupted_tokens", "bert_style_denoising", "mass_style_denoising"]
)
def test_independent_noise_takes_any_density(name):
    assert built(name).noise.noise_density == 0.15
    assert built(name, "NOISE_DENSITY = 0.5").noise.noise_density == 0.5
