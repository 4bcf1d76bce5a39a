#!/usr/bin/env bash
# Train the runs of a sweep on a SLURM cluster: a job array, each of whose tasks trains one run on one node.
#
#   t5x-like sweep RECIPE.gin --over LEARNING_RATE=1e-4,1e-3 --seeds 3 --output /shared/sweep --dry_run
#   sbatch --array=0-5%2 launch/slurm/sweep.sh RECIPE.gin --over LEARNING_RATE=1e-4,1e-3 --seeds 3 --output /shared/sweep
#
# The first command lists the runs in their order, from 0. It without --dry_run comes last: it trains what is missing,
# and shows the table. Each task saves before its time limit and goes back into the queue.
#SBATCH --job-name=t5x-like-sweep
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A-%a.log
set -euo pipefail

launch=${SLURM_SUBMIT_DIR:-.}/launch
# shellcheck source=/dev/null
. "${launch}/restarts.sh"
: "${1:?usage: sbatch --array=0-N launch/slurm/sweep.sh [--restarts N] RECIPE.gin [--over NAME=v1,v2 ...] --output DIR}"
: "${SLURM_ARRAY_TASK_ID:?each run needs a task of an array: sbatch --array=0-5}"
# shellcheck source=/dev/null
. "${launch}/slurm/tasks.sh"
run_job t5x-like sweep "$@" --index "${SLURM_ARRAY_TASK_ID}"
