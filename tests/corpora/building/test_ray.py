"""Builds on a Ray cluster of several nodes on this machine. Needs the extra ``ray``."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from t5x_like.cli.main import main
from t5x_like.corpora.building.recipe import UniqueUrls
from t5x_like.corpora.duplicates.near_duplicates import NearDuplicates
from t5x_like.io import ray_engine
from t5x_like.io.engines import cluster_engine
from tests.corpora.building.tiny import STEPS, MinChars, build, contents, page, write_files

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # Ray's own
STEPS_WITH_GROUPS = (*STEPS, NearDuplicates())
SHARDS = 40  # with those of validation, three ranges of partitions
SMALL = {"object_store_memory": 80 * 2**20, "memory": 10**9}


@pytest.fixture(scope="module")
def cluster():
    """A head without work, and three nodes of one processor each, with limits of their own."""
    made = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **SMALL}
    )
    for _ in range(3):
        made.add_node(num_cpus=1, **SMALL)
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    files = [
        [
            page(f"http://a.org/{n * k % 50}", f"line {'x' * (n % 7)}\nown {'z' * (n % 20)}", f"{k}")
            for n in range(30)
        ]
        for k in range(1, 9)
    ]
    return write_files(tmp_path_factory.mktemp("ray") / "in", files)


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory):
    """Return the files of a build by one process."""
    output = tmp_path_factory.mktemp("whole") / "out"
    build(inputs, output, *STEPS_WITH_GROUPS, num_shards=SHARDS)
    return contents(output)


def built_by(cluster, inputs, output):
    engine = cluster_engine("ray", ray_address=cluster.address)
    return build(inputs, output, *STEPS_WITH_GROUPS, num_shards=SHARDS, engine=engine)


def test_three_nodes_write_the_bytes_of_one_process(tmp_path, cluster, inputs, whole):
    manifest = built_by(cluster, inputs, tmp_path / "out")
    assert contents(tmp_path / "out") == whole
    tasks = {stage["name"]: stage["tasks"] for stage in manifest["stages"]}
    assert tasks["large-6-1"] == tasks["resolve-6"] == 3


def test_a_node_killed_in_the_middle_changes_nothing(tmp_path, cluster, inputs, whole):
    node = cluster.add_node(
        num_cpus=1, env_vars={"SECONDS_A_PAGE": "0.2"}, **SMALL
    )  # has work when it is killed

    def kill_once_work_is_finished():
        while len(list(tmp_path.rglob("clean/*.json"))) < 3:
            time.sleep(0.01)
        cluster.remove_node(node, allow_graceful=False)  # SIGKILL of all its processes

    killer = threading.Thread(target=kill_once_work_is_finished)
    killer.start()
    built_by(cluster, inputs, tmp_path / "out")
    killer.join()
    assert contents(tmp_path / "out") == whole


def test_a_node_that_hangs_keeps_no_task_for_itself(tmp_path, cluster, inputs, whole, monkeypatch):
    monkeypatch.setattr(ray_engine, "_SLOW_SECONDS", 5.0)
    node = cluster.add_node(num_cpus=1, env_vars={"SECONDS_A_PAGE": "1000"}, **SMALL)
    start = time.monotonic()
    built_by(cluster, inputs, tmp_path / "out")
    assert time.monotonic() - start < 1000
    assert contents(tmp_path / "out") == whole
    cluster.remove_node(node, allow_graceful=False)


def write_number(work):
    """Write a file, except on the node whose disk is full."""
    folder, number = work
    if os.environ.get("DISK") == "full":
        (folder / f"full-{number}").touch()
        raise ValueError("can't be written") from OSError(28, "No space left on device")
    (folder / str(number)).write_text(str(number))


def test_a_node_with_a_full_disk_gets_no_more_work(tmp_path, cluster):
    node = cluster.add_node(num_cpus=1, env_vars={"DISK": "full"}, **SMALL)
    work = [(tmp_path, index) for index in range(30)]
    with cluster_engine("ray", ray_address=cluster.address).start(write_number, num_pieces=30) as run:
        assert sorted(run(work)) == work
    cluster.remove_node(node)
    assert {path.name for path in tmp_path.iterdir() if "full" not in path.name} == set(map(str, range(30)))
    assert (
        1 <= len(list(tmp_path.glob("full-*"))) <= 9
    )  # submitted before the first failed: two a processor, and one


def end_process(work):
    os.kill(os.getpid(), signal.SIGKILL)


def test_work_that_ends_each_worker_is_given_up_with_the_remedy(cluster):
    with (
        pytest.raises(ValueError, match=r"a worker of the Ray cluster ended: .*start the same command again"),
        cluster_engine("ray", ray_address=cluster.address).start(end_process, num_pieces=1) as run,
    ):
        list(run([0]))


RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.corpora.building import recipe
from t5x_like.corpora.rules import size_rules
recipe.CorpusRecipe:
    name = 'tiny'
    steps = (@size_rules.MaxLength(), @recipe.UniqueUrls())
"""


def test_damage_ends_with_a_message_and_the_same_command_continues(tmp_path, cluster, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.gin").write_text(RECIPE)
    (tmp_path / "a.jsonl").write_text('{"url": "http://a.org/1", "text": "one"}\n')
    (tmp_path / "b.jsonl").write_text('{"url"\n')
    command = [
        "corpus",
        "build",
        "--recipe=tiny.gin",
        f"--input={tmp_path}/*.jsonl",
        f"--output={tmp_path}/out",
    ]
    command += ["--runner=ray", f"--ray_address={cluster.address}"]
    assert main(command) == 2
    printed = capsys.readouterr().err
    assert "b.jsonl, line 1: invalid JSON" in printed
    assert "Traceback" not in printed
    (tmp_path / "b.jsonl").write_text('{"url": "http://a.org/2", "text": "two"}\n')
    assert main(command) == 0
    assert "of 2 pages 2 for train" in capsys.readouterr().out


def test_a_command_that_was_killed_continues(tmp_path, cluster, inputs, whole):
    program = (
        "import sys; from pathlib import Path; from t5x_like.io.engines import cluster_engine\n"
        "from tests.corpora.building.test_ray import SHARDS, STEPS_WITH_GROUPS, build\n"
        "build(sys.argv[1], Path(sys.argv[2]), *STEPS_WITH_GROUPS, num_shards=SHARDS,\n"
        "      engine=cluster_engine('ray', ray_address=sys.argv[3]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, inputs, str(tmp_path / "out"), cluster.address]
    )
    while process.poll() is None and len(list(tmp_path.rglob("pages-4/*.json"))) < 5:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    built_by(cluster, inputs, tmp_path / "out")
    assert contents(tmp_path / "out") == whole


def test_an_address_without_a_cluster_is_named(tmp_path):
    inputs = write_files(tmp_path / "in", [[page("http://a.org", "text")]])
    engine = cluster_engine("ray", ray_address="127.0.0.1:9")
    with pytest.raises(ValueError, match=r"runner=ray: no Ray cluster can be used at 127.0.0.1:9"):
        build(inputs, tmp_path / "out", MinChars(), UniqueUrls(), engine=engine)
