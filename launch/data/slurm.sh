#!/usr/bin/env bash
# Build a corpus, or write caches, on the nodes of a SLURM job: one Ray node on each, which share the tasks.
#
#   sbatch --nodes=8 launch/data/slurm.sh t5x-like corpus build --recipe gin/corpora/c4_en.gin \
#     --input '/shared/crawl/*.wet.gz' --output /shared/c4_en
#
# `--runner ray` and the address are added to the command. Input and output must be on a file system that all nodes see,
# or in a bucket. Submit again after a time limit: the job continues where the one before it ended.
#SBATCH --job-name=t5x-like-data
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -euo pipefail

if (($# < 2)); then
  echo "usage: sbatch --nodes=N launch/data/slurm.sh COMMAND ARGUMENT [ARGUMENT ...]" >&2
  exit 2
fi
export PATH="${VENV:-${SLURM_SUBMIT_DIR:-.}/.venv}/bin:${PATH}"
export RAY_USAGE_STATS_ENABLED=0

# The first node runs the head and the command, and works, too.
first_node=$(scontrol show hostnames "${SLURM_JOB_NODELIST}" | head -n 1)
address=${first_node}:$((20000 + SLURM_JOB_ID % 10000))
srun --kill-on-bad-exit=1 ray symmetric-run --address "${address}" --min-nodes "${SLURM_JOB_NUM_NODES}" -- \
  "$@" --runner ray --ray_address "${address}"
