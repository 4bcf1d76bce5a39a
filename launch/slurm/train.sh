#!/usr/bin/env bash
# Train on a SLURM cluster with GPUs: one process for each GPU.
#
#   sbatch --nodes=4 launch/slurm/train.sh [--restarts N] RECIPE.gin --model_dir /shared/run [...]
#
# MODEL_DIR must be a file system that all nodes see. Flags of sbatch win over the lines below; nodes without GPUs need
# `--gpus-per-node=0 --ntasks-per-node=1`. Before its time limit the job saves and goes back into the queue. It does so
# after a node failed, too. docs/guides/clusters.md has more.
#SBATCH --job-name=t5x-like
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -euo pipefail

launch=${SLURM_SUBMIT_DIR:-.}/launch
# shellcheck source=/dev/null
. "${launch}/restarts.sh"
: "${1:?usage: sbatch launch/slurm/train.sh [--restarts N] RECIPE.gin [--set NAME=VALUE ...]}"
# shellcheck source=/dev/null
. "${launch}/slurm/tasks.sh"

# The first node runs process 0. Each process drives the GPU of its number on the node (JAX asks SLURM), so every task
# must see all GPUs of its node: --gpus-per-node, not --gpus-per-task.
first_node=$(scontrol show hostnames "${SLURM_JOB_NODELIST}" | head -n 1)
export T5X_LIKE_COORDINATOR=${first_node}:$((61000 + SLURM_JOB_ID % 4000))
# shellcheck disable=SC2016 # expands in each task
run_job bash -c 'T5X_LIKE_NUM_PROCESSES=${SLURM_NTASKS} T5X_LIKE_PROCESS_ID=${SLURM_PROCID} exec "$@"' \
  bash "${launch}/process.sh" "$@"
