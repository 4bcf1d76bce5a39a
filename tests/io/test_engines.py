"""Engines are chosen by name, and refuse what isn't theirs."""

import importlib.util

import pytest

from t5x_like.cli.main import main
from t5x_like.io.engines import ProcessEngine, cluster_engine

has_ray = importlib.util.find_spec("ray") is not None


def square(number):
    return number**2


@pytest.mark.parametrize("num_processes", [1, 2])
def test_processes_yield_every_piece(num_processes):
    engine = ProcessEngine(num_processes=num_processes, owner="the test", flag="workers", kept="tasks")
    with engine.start(square, num_pieces=3) as run:
        assert sorted(run([3, 1, 2])) == [1, 2, 3]
        assert list(run([5])) == [5]


@pytest.mark.skipif(has_ray, reason="ray is installed")
def test_without_ray_the_runner_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"runner=ray needs the library ray.*pip install 't5x-like\[ray\]'"):
        cluster_engine("ray")


def test_options_of_another_engine_are_refused():
    with pytest.raises(
        ValueError, match="ray_address is for runner=ray; leave it out with runner=DirectRunner"
    ):
        cluster_engine("DirectRunner", ray_address="head:6379")
    with pytest.raises(ValueError, match="beam_option is for runners of Apache Beam"):
        cluster_engine("ray", beam_options=["--region=r"])


def test_an_unknown_runner_is_refused():
    with pytest.raises(ValueError, match="runner=Rya"):
        cluster_engine("Rya")


@pytest.mark.parametrize("flag", ["--ray_address=head:6379", "--beam_option=--region=r"])
def test_a_clusters_flag_needs_a_runner(flag, tmp_path, capsys):
    build = [
        "corpus",
        "build",
        "--recipe=gin/corpora/c4_en.gin",
        f"--input={tmp_path}",
        f"--output={tmp_path}",
    ]
    assert main([*build, flag]) == 2
    assert f"{flag.partition('=')[0]} needs --runner" in capsys.readouterr().err
