#!/usr/bin/env bash
# Train on this machine: one process, or several joined as on a cluster.
#
#   launch/local/train.sh RECIPE.gin [--set NAME=VALUE ...]
#   launch/local/train.sh --processes 4 --restarts 3 RECIPE.gin [--set NAME=VALUE ...]
#
# One process drives all GPUs of a machine. Several processes rehearse a cluster on CPUs. Ctrl-C and SIGTERM ask every
# process to save and stop; a second one ends them at once. When one fails, the others end, too, and all start again at
# most N times. `--processes 4,2` restarts with two, as a cluster does that lost machines.
set -euo pipefail

counts=1
if [[ ${1:-} == --restarts && ${3:-} == --processes ]]; then set -- "${@:3:2}" "${@:1:2}" "${@:5}"; fi
if [[ ${1:-} == --processes ]]; then
  counts=${2:-}
  shift $(($# < 2 ? $# : 2))
fi
launch=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=/dev/null
. "${launch}/restarts.sh"
if [[ ! ${counts} =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ || ! ${1:-} =~ ^[^-] ]]; then
  echo "usage: launch/local/train.sh [--processes N] [--restarts N] RECIPE.gin [--set NAME=VALUE ...]" >&2
  exit 2
fi

export PATH="${launch}/../.venv/bin:${PATH}"
if [[ ${counts} == 1 ]]; then
  T5X_LIKE_NUM_PROCESSES=1 exec "${launch}/process.sh" --restarts "${RESTARTS}" "$@"
fi
export T5X_LIKE_COORDINATOR=localhost:${PORT:-$((20000 + RANDOM % 12000))} # below the ports that systems give out

processes=()
signal_all() { kill -TERM "${processes[@]}" 2>/dev/null || true; }
trap 'SIGNALS=$((SIGNALS + 1)); signal_all' INT TERM

run_processes() {
  local status=0 before code index left tenths
  export T5X_LIKE_NUM_PROCESSES=${counts%%,*}
  counts=${counts#*,} # of the next start; the last one stays
  processes=()
  for ((index = 0; index < T5X_LIKE_NUM_PROCESSES; index++)); do
    T5X_LIKE_PROCESS_ID=${index} "${launch}/process.sh" "$@" &
    processes+=($!)
  done
  for ((left = T5X_LIKE_NUM_PROCESSES; left > 0; )); do
    before=${SIGNALS} code=0
    wait -n || code=$?
    ((SIGNALS == before)) || continue # a signal ended the wait, not a process
    left=$((left - 1))
    ((code != 0 && status == 0)) || continue
    status=${code}
    ((code != 130)) || continue # saved as asked; so will the others
    # Without it the others can't save. If it wasn't killed, it has said why to them; they have a moment to repeat it.
    for ((tenths = 0; code < 128 && tenths < 100; tenths++)); do
      kill -0 "${processes[@]}" 2>/dev/null || break
      sleep 0.1
    done
    signal_all
    sleep 0.5
    signal_all
  done
  return "${status}"
}

with_restarts run_processes "$@"
