#!/usr/bin/env bash
# Train on this machine: one process, or several joined as on a cluster.
#
#   launch/local/train.sh RECIPE.gin [--set NAME=VALUE ...]
#   launch/local/train.sh --processes 4 RECIPE.gin [--set NAME=VALUE ...]
#
# One process drives all GPUs of a machine. Several processes rehearse a cluster on CPUs. Ctrl-C and SIGTERM ask every
# process to save and stop; a second one ends them at once. When one fails, the others end, too.
set -euo pipefail

NUM_PROCESSES=1
if [[ ${1:-} == --processes ]]; then
  NUM_PROCESSES=${2:-}
  shift $(($# < 2 ? $# : 2))
fi
usage="usage: launch/local/train.sh [--processes N] RECIPE.gin [--set NAME=VALUE ...]"
if [[ ! ${NUM_PROCESSES} =~ ^[1-9][0-9]*$ || ! ${1:-} =~ ^[^-] ]]; then
  echo "${usage}" >&2
  exit 2
fi

launch=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PATH="${launch}/../.venv/bin:${PATH}"
export T5X_LIKE_NUM_PROCESSES=${NUM_PROCESSES}
if ((NUM_PROCESSES == 1)); then
  exec "${launch}/process.sh" "$@"
fi
export T5X_LIKE_COORDINATOR=localhost:${PORT:-$((20000 + RANDOM % 12000))} # below the ports that systems give out

processes=()
signal_all() { kill -TERM "${processes[@]}" 2>/dev/null || true; }
asked=0
trap 'asked=$((asked + 1)); signal_all' INT TERM

for ((index = 0; index < NUM_PROCESSES; index++)); do
  T5X_LIKE_PROCESS_ID=${index} "${launch}/process.sh" "$@" &
  processes+=($!)
done

status=0
for ((left = NUM_PROCESSES; left > 0; )); do
  before=${asked} code=0
  wait -n || code=$?
  ((asked == before)) || continue # a signal ended the wait, not a process
  left=$((left - 1))
  if ((code != 0 && status == 0)); then
    status=${code}
    ((code == 130)) && continue # saved as asked; so will the others
    # Without it the others can't save; they have a moment to find that out and to say so.
    for ((tenths = 0; tenths < 100; tenths++)); do
      kill -0 "${processes[@]}" 2>/dev/null || break
      sleep 0.1
    done
    signal_all
    sleep 0.5
    signal_all
  fi
done
exit "${status}"
