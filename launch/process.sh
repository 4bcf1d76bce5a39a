#!/usr/bin/env bash
# One process of a training job: runs t5x-like, passes SIGTERM on, and says how it ended. Every launcher ends here.
#
#   T5X_LIKE_COORDINATOR=HOST:PORT T5X_LIKE_NUM_PROCESSES=4 T5X_LIKE_PROCESS_ID=2 launch/process.sh RECIPE.gin [...]
#
# The first SIGTERM asks the run to save and stop, the second ends it at once.
set -uo pipefail

GIN_FILE=${1:?usage: launch/process.sh RECIPE.gin [--set NAME=VALUE ...]}
shift

# XLA allocates each step's arrays on a CPU anew. Huge pages save page faults.
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}

command=(t5x-like train --gin_file="${GIN_FILE}" "$@")

if [[ ${T5X_LIKE_NUM_PROCESSES:-1} == 1 ]]; then
  exec "${command[@]}"
fi

trap '' INT # Ctrl-C reaches this whole group: the local launcher turns it into one SIGTERM for each process
if [[ ${T5X_LIKE_PROCESS_ID:-0} != 0 ]]; then
  exec >/dev/null # process 0 speaks for all; errors still go to standard error
fi
signals=0 process=
# shellcheck disable=SC2329 # the trap calls it
on_signal() {
  signals=$((signals + 1))
  if [[ -z ${process} ]]; then return; fi
  if ((signals == 1)); then kill -TERM "${process}"; else kill -KILL "${process}"; fi
}
trap on_signal TERM
"${command[@]}" &
process=$!
if ((signals)); then kill -TERM "${process}"; fi # it came before the process

status=127
while
  before=${signals}
  wait "${process}" 2>/dev/null # without the shell's own line about a killed process
  code=$?
  ((code == 127)) || status=${code} # there may be nothing left to wait for
  ((signals != before)) # then a signal ended the wait, not the process
do :; done

# 0: finished; 2: it has said what is wrong; 75: it has named another process; 130: saved as asked.
if [[ ! ${status} =~ ^(0|2|75|130)$ ]] && ((signals < 2)); then
  echo "process ${T5X_LIKE_PROCESS_ID:-} of ${T5X_LIKE_NUM_PROCESSES} (host ${HOSTNAME}, pid ${process})" \
    "ended with exit code ${status}" >&2
fi
exit "${status}"
