#!/usr/bin/env bash
# Train on a SLURM cluster with GPUs: one process for each GPU.
#
#   sbatch --nodes=4 launch/slurm/train.sh RECIPE.gin --model_dir /shared/run [...]
#
# MODEL_DIR must be a file system that all nodes see. Submit several times with `--dependency=singleton` for runs
# longer than the time limit: each job continues where the one before it saved.
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

GIN_FILE=${1:?usage: sbatch launch/slurm/train.sh RECIPE.gin [--set NAME=VALUE ...]}
shift
export PATH="${VENV:-${SLURM_SUBMIT_DIR:-.}/.venv}/bin:${PATH}"

# The first node runs process 0. Each process drives the GPU of its number on the node (JAX asks SLURM), so every task
# must see all GPUs of its node: --gpus-per-node, not --gpus-per-task.
first_node=$(scontrol show hostnames "${SLURM_JOB_NODELIST}" | head -n 1)
export T5X_LIKE_COORDINATOR=${first_node}:$((61000 + SLURM_JOB_ID % 4000))
# shellcheck disable=SC2016 # expands in each task
srun --kill-on-bad-exit=1 bash -c 'T5X_LIKE_NUM_PROCESSES=${SLURM_NTASKS} T5X_LIKE_PROCESS_ID=${SLURM_PROCID} exec "$@"' \
  bash "${SLURM_SUBMIT_DIR:-.}/launch/process.sh" "${GIN_FILE}" "$@"
