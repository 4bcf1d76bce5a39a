#!/usr/bin/env bash
# Train on this machine: one process, or several joined as on a cluster.
#
#   launch/local/train.sh RECIPE.gin [--set NAME=VALUE ...]
#   NUM_PROCESSES=2 launch/local/train.sh RECIPE.gin [--set NAME=VALUE ...]
#
# One process drives all GPUs of a machine. Several processes rehearse a cluster on CPUs. Ctrl-C and SIGTERM reach
# every process, which then saves. When one fails, the others are stopped.
set -euo pipefail

GIN_FILE=${1:?usage: launch/local/train.sh RECIPE.gin [--set NAME=VALUE ...]}
shift
NUM_PROCESSES=${NUM_PROCESSES:-1}
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PATH="${repository}/.venv/bin:${PATH}"

if [[ ${NUM_PROCESSES} == 1 ]]; then
  exec t5x-like train --gin_file="${GIN_FILE}" "$@"
fi

export T5X_LIKE_COORDINATOR=localhost:${PORT:-$((20000 + RANDOM % 20000))}
export T5X_LIKE_NUM_PROCESSES=${NUM_PROCESSES}
processes=()
stop() { kill -TERM "${processes[@]}" 2>/dev/null || true; }
trap stop INT TERM

for ((index = 0; index < NUM_PROCESSES; index++)); do
  T5X_LIKE_PROCESS_ID=${index} t5x-like train --gin_file="${GIN_FILE}" "$@" &
  processes+=($!)
done

status=0
for _ in "${processes[@]}"; do
  wait -n || { status=$?; stop; }
done
wait
exit "${status}"
