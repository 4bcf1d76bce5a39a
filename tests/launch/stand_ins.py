"""Small programs that stand for a scheduler's: they start the processes of a job here, as the scheduler does there."""

import itertools
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

# Runs tasks of one node. Real srun sets more, but these are all that we and JAX read.
SRUN = """#!/usr/bin/env bash
shift # --kill-on-bad-exit=1
tasks=()
for ((task = 0; task < SLURM_NTASKS; task++)); do
  SLURM_STEP_NODELIST=${SLURM_JOB_NODELIST} SLURM_PROCID=${task} SLURM_LOCALID=${task} "$@" &
  tasks+=($!)
done
status=0
for task in "${tasks[@]}"; do wait "${task}" || status=$?; done
exit ${status}
"""

SCONTROL = """#!/usr/bin/env bash
if [[ $1 == requeue ]]; then echo "$@"; exit 1; fi
[[ $1 == show && $2 == hostnames ]] && tr , '\\n' <<<"$3"
"""

# Each worker is a folder; WORKER is its number.
GCLOUD = """#!/usr/bin/env bash
for argument; do
  case ${argument} in
    --command=*) command=${argument#--command=} ;;
    *.tar.gz) archive=${argument} ;;
  esac
done
workers=()
for ((worker = 0; worker < WORKERS; worker++)); do
  export HOME=${ALL_WORKERS}/${worker} WORKER=${worker}
  mkdir -p "${HOME}"
  cd "${HOME}"
  if [[ -n ${command:-} ]]; then bash -c "${command}" & workers+=($!); else cp "${archive}" .; fi
done
for worker in "${workers[@]}"; do wait "${worker}" || exit; done
"""

# The TPU's metadata server.
CURL = """#!/usr/bin/env bash
case ${*: -1} in
  */instance/attributes/agent-worker-number) echo "${WORKER}" ;;
  */instance/attributes/worker-network-endpoints) echo "${ENDPOINTS}" ;;
  *) exit 22 ;;
esac
"""

# `git archive`, of a folder that is no repository.
GIT = """#!/usr/bin/env bash
[[ $1 == -C && $3 == archive ]] || exit 1
tar -czf "${6}" -C "$2" --transform 's,^,t5x_like/,' launch
"""

NOTHING = "#!/bin/sh\n"

PROGRAMS = {
    "srun": SRUN,
    "scontrol": SCONTROL,
    "scancel": NOTHING,
    "gcloud": GCLOUD,
    "curl": CURL,
    "git": GIT,
    "python3": NOTHING,
}


def run_pods(manifest: str, repository: Path, environment: dict[str, str]) -> list[str]:
    """Run the pods of a Kubernetes job on this machine, as an indexed Job does; returns what each wrote.

    Those of a JobSet are the pods of its Jobs, one after another.
    """
    *services, job = yaml.safe_load_all(manifest)
    spec, slices, prefix = job["spec"], 1, job["metadata"]["name"]
    if job["kind"] == "JobSet":
        [jobs] = spec["replicatedJobs"]
        spec, slices, prefix = jobs["template"]["spec"], jobs["replicas"], f"{prefix}-{jobs['name']}-0"
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    # Names of pods are found by this service, which a JobSet makes itself.
    assert pod["subdomain"] == job["metadata"]["name"] == next(iter(services), job)["metadata"]["name"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]

    def run(slice_and_index: tuple[int, int]) -> str:
        fields = {
            "metadata.labels['jobset.sigs.k8s.io/job-index']": str(slice_and_index[0]),
            "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(slice_and_index[1]),
        }
        variables = {
            entry["name"]: entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            for entry in container["env"]
        }
        variables = {
            key: value.replace(f"{prefix}-0.{pod['subdomain']}", "localhost")  # the cluster's DNS
            for key, value in variables.items()
        }
        done = subprocess.run(
            container["command"],
            cwd=repository,
            env=environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return done.stdout

    indices = [*itertools.product(range(slices), range(spec["completions"]))]
    with ThreadPoolExecutor(len(indices)) as pods:
        return list(pods.map(run, indices))


def install(programs: Path) -> None:
    """Write the stand-ins into a folder of programs."""
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
