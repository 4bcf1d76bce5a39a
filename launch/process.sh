#!/usr/bin/env bash
# One process of a training job: runs t5x-like, passes SIGTERM on, and says how it ended. Every launcher ends here.
#
#   T5X_LIKE_COORDINATOR=HOST:PORT T5X_LIKE_NUM_PROCESSES=4 T5X_LIKE_PROCESS_ID=2 launch/process.sh RECIPE.gin [...]
#
# The first SIGTERM asks the run to save and stop, the second ends it at once. `--restarts N` before the recipe starts
# the process again after it died, where nothing above it does that; see restarts.sh.
set -uo pipefail

# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/restarts.sh"
GIN_FILE=${1:?usage: launch/process.sh [--restarts N] RECIPE.gin [--set NAME=VALUE ...]}
shift

# XLA allocates each step's arrays on a CPU anew. Huge pages save page faults.
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}

command=(t5x-like train --gin_file="${GIN_FILE}" "$@")

num_processes=${T5X_LIKE_NUM_PROCESSES:-1}
if ((num_processes == 1 && RESTARTS == 0)); then
  exec "${command[@]}"
fi

if [[ ${T5X_LIKE_PROCESS_ID:-0} != 0 ]]; then
  exec >/dev/null # process 0 speaks for all; errors still go to standard error
fi
process=
# shellcheck disable=SC2329 # the traps call it
on_signal() {
  SIGNALS=$((SIGNALS + 1))
  if [[ -z ${process} ]]; then return; fi
  if ((SIGNALS == 1)); then kill -TERM "${process}"; else kill -KILL "${process}"; fi
}
trap on_signal TERM
# Ctrl-C reaches this whole group: the local launcher turns it into one SIGTERM for each of several processes.
if ((num_processes == 1)); then trap on_signal INT; else trap '' INT; fi

# shellcheck disable=SC2329 # with_restarts calls it
run_process() {
  local status=127 before code
  "${command[@]}" &
  process=$!
  if ((SIGNALS)); then kill -TERM "${process}"; fi # it came before the process
  while
    before=${SIGNALS}
    wait "${process}" 2>/dev/null # without the shell's own line about a killed process
    code=$?
    ((code == 127)) || status=${code} # there may be nothing left to wait for
    ((SIGNALS != before)) # then a signal ended the wait, not the process
  do :; done

  # 0: finished; 2, 3: it has said what is wrong; 75: it has named another process; 130: saved as asked.
  if [[ ! ${status} =~ ^(0|2|3|75|130)$ ]] && ((SIGNALS < 2)); then
    echo "process ${T5X_LIKE_PROCESS_ID:-0} of ${num_processes} (host ${HOSTNAME}, pid ${process})" \
      "ended with exit code ${status}" >&2
  fi
  return "${status}"
}

with_restarts run_process
