# shellcheck shell=bash
# Sourced by the launchers and process.sh: takes `--restarts N` off the front of their arguments, and counts signals.

RESTARTS=0
if [[ ${1:-} == --restarts ]]; then
  RESTARTS=${2:-}
  shift $(($# < 2 ? $# : 2))
fi
if [[ ! ${RESTARTS} =~ ^[0-9]+$ ]]; then
  echo "--restarts '${RESTARTS}': give the largest number of restarts, such as 3" >&2
  exit 2
fi

SIGNALS=0 # the traps of whoever sources this count here

# Runs a command, and again, at most RESTARTS times, if it failed. Nothing starts again after 0 (finished), 130 (saved as
# asked), a signal, 2 (a mistake) or 3 (numbers that aren't finite): those two would be repeated.
with_restarts() {
  local status restarts=0
  while
    status=0
    "$@" || status=$?
    [[ ! ${status} =~ ^(0|2|3|130)$ ]] && ((restarts < RESTARTS && SIGNALS == 0))
  do
    restarts=$((restarts + 1))
    echo "exit code ${status}: restart ${restarts} of ${RESTARTS}, from the last checkpoint" >&2
  done
  return "${status}"
}
