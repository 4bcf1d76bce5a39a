"""A SLURM cluster on this machine: a controller and two nodes as ordinary processes, in a folder, without systemd.

    python -m tests.launch.slurm_cluster    # until Ctrl-C; says how other shells reach it

Needs root, Linux and Debian's or Ubuntu's packages: apt-get install slurmctld slurmd slurm-client munge.
Each node is a slurmd with a loopback address as its name, as names must be resolved. It claims CPUs that the
machine lacks, so that only the GPUs in the headers of our jobs need another value: sbatch --gpus-per-node=0.
"""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.references import free_port

NODES = ("127.0.0.1", "127.0.0.2")
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
_MARK = "SCRATCH_CLUSTER"  # in the environment of daemons, and of what they start for jobs
_PATH = f"{os.environ['PATH']}:/usr/sbin"

# A requeued job waits for the end of its credentials' life, which is 120 s by default. KillWait is the default.
_CONFIGURATION = """
ClusterName=scratch
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
SlurmdTimeout=10
ReturnToService=2
KillWait=30
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=usual Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=60 State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=2 State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr={name} Port={port} CPUs=64"


def is_installed() -> bool:
    """Return whether this machine can run such a cluster."""
    return os.geteuid() == 0 and all(shutil.which(program, path=_PATH) for program in _PROGRAMS)


class SlurmCluster(NamedTuple):
    """A cluster that runs.

    Attributes:
      folder: Its configuration, logs and state.
      environment: Variables with which SLURM's commands reach it.
      daemons: Processes that were started for it.
    """

    folder: Path
    environment: dict[str, str]
    daemons: "list[subprocess.Popen[bytes]]"

    def run(self, *command: str | Path) -> str:
        """Run a command of SLURM, and return what it printed."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def jobs(self) -> str:
        """Return the jobs that have not ended, as squeue lists them."""
        return self.run("squeue", "--noheader", "--all")

    def ended(self, job: str) -> str:
        """Wait until a job has ended, and return its state and exit code, such as ``COMPLETED 0:0``."""
        wait_until(lambda: not self.run("squeue", "--noheader", f"--jobs={job}"), 300)
        return _described(self.run("scontrol", "show", "job", job), "JobState", "ExitCode")

    def fail_node(self, name: str) -> None:
        """End everything that runs on a node at once, as if its power had failed."""
        self.end_processes(signal.SIGKILL, name)

    def start_node(self, name: str) -> None:
        """Start a node, for the first time or after it failed."""
        (self.folder / f"spool.{name}").mkdir(exist_ok=True)
        self.start_daemon(name, "slurmd", "-D", "-N", name, "-f", self.folder / "slurm.conf")

    def start_daemon(self, place: str, *command: str | Path) -> None:
        """Start a daemon of a node or of the controller, in a session of its own."""
        marked = self.environment | {_MARK: f"{self.folder}/{place}"}
        with (self.folder / "daemons.log").open("ab") as log:
            daemon = subprocess.Popen(command, env=marked, stdout=log, stderr=log, start_new_session=True)
        self.daemons.append(daemon)

    def end_processes(self, number: signal.Signals, place: str = "") -> None:
        """Send a signal to the daemons of a place, by default of all, and to all processes that they have started."""
        parents = _parents()
        ending = {process for process in parents if f"{_MARK}={self.folder}/{place}" in _environment(process)}
        for process, parent in sorted(parents.items()):
            while parent in parents and parent not in ending:
                parent = parents[parent]
            if process in ending or parent in ending:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)


@contextlib.contextmanager
def slurm_cluster(folder: Path) -> Iterator[SlurmCluster]:
    """Start a cluster in a folder, and end all of its processes afterwards.

    Args:
      folder: An empty folder, with a path short enough for a socket.
    """
    environment = os.environ | {"PATH": _PATH, "SLURM_CONF": f"{folder}/slurm.conf"}
    cluster = SlurmCluster(folder, environment, [])
    _write_configuration(folder)
    try:
        cluster.start_daemon("controller", "munged", "--foreground", "--force", *_munge_files(folder))
        wait_until((folder / "munge.socket").exists, 10)
        cluster.start_daemon("controller", "slurmctld", "-D", "-c", "-f", folder / "slurm.conf")
        for name in NODES:
            cluster.start_node(name)
        wait_until(lambda: _answers(cluster) == ["idle"] * len(NODES), 20)
        yield cluster
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            cluster.end_processes(number)
            time.sleep(1)
        for daemon in cluster.daemons:
            daemon.wait()


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    """Wait for a condition; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s"
        time.sleep(0.2)


def _write_configuration(folder: Path) -> None:
    host = socket.gethostname()
    nodes = "\n".join(_NODE.format(name=name, host=host, port=free_port()) for name in NODES)
    text = _CONFIGURATION.format(
        host=host, port=free_port(), user=getpass.getuser(), folder=folder, nodes=nodes
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    (folder / "state").mkdir()


def _munge_files(folder: Path) -> list[str]:
    names = {"key": "key", "socket": "socket", "pid": "pid", "log": "log", "seed": "seed"}
    return [
        f"--{flag}{'' if flag == 'socket' else '-file'}={folder}/munge.{name}" for flag, name in names.items()
    ]


def _parents() -> dict[int, int]:
    """Return the parent of every process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return parents


def _environment(process: int) -> str:
    try:
        return Path(f"/proc/{process}/environ").read_text(errors="replace")
    except OSError:  # it has ended
        return ""


def _answers(cluster: SlurmCluster) -> list[str]:
    command = ["sinfo", "--noheader", "--Node", "--partition=usual", "--format=%t"]
    return subprocess.run(command, env=cluster.environment, capture_output=True, text=True).stdout.split()


def _described(text: str, *names: str) -> str:
    values = dict(entry.partition("=")[::2] for entry in text.split())
    return " ".join(values[name] for name in names)


def main() -> None:
    """Run a cluster until Ctrl-C."""
    with tempfile.TemporaryDirectory() as folder, slurm_cluster(Path(folder)) as cluster:
        sys.stdout.write(f"{cluster.run('sinfo')}\nexport SLURM_CONF={folder}/slurm.conf\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
