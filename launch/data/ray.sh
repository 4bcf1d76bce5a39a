#!/usr/bin/env bash
# Run one command on a Ray cluster of this machine: a head without work, and nodes of one processor each.
#
#   launch/data/ray.sh --nodes 3 t5x-like corpus build --recipe gin/corpora/c4_en.gin --input 'crawl/*' --output out
#
# `--runner ray` and the address are added to the command. Nodes have ports, temporary folders and limits of their own, and
# end with the command. Their process ids are printed, so that you can kill one and see what happens. On several machines,
# start `ray start --head` and `ray start --address HEAD:6379` there instead, or launch/data/slurm.sh.
set -euo pipefail

usage="usage: launch/data/ray.sh --nodes N COMMAND [ARGUMENT ...]"
if [[ ${1:-} != --nodes || ! ${2:-} =~ ^[1-9][0-9]*$ || $# -lt 3 ]]; then
  echo "${usage}" >&2
  exit 2
fi
num_nodes=$2
shift 2

export PATH="${VENV:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.venv}/bin:${PATH}"
export RAY_USAGE_STATS_ENABLED=0
if ! command -v ray >/dev/null; then
  echo "launch/data/ray.sh: the command ray isn't there: pip install 't5x-like[ray]'" >&2
  exit 2
fi
port=${PORT:-$((20000 + RANDOM % 12000))} # below the ports that systems give out
folder=$(mktemp -d /tmp/ray.XXXXXX)       # short: paths of sockets have at most 107 characters
limits=(--memory "${MEMORY:-2000000000}" --object-store-memory "${OBJECT_STORE:-80000000}")

nodes=()
start() { # NUMBER OPTION…
  setsid ray start --block --temp-dir "${folder}/$1" "${limits[@]}" "${@:2}" >"${folder}/$1.log" 2>&1 &
  nodes[$1]=$!
}
await() { # NUMBER OPTION…: a node that isn't ready within 30 seconds, as on a busy machine, ends and is started again
  local attempt
  for attempt in 1 2 3 4 5; do
    while kill -0 "${nodes[$1]}" 2>/dev/null; do
      if grep -qs "This command will now block" "${folder}/$1.log"; then return; fi
      sleep 0.5
    done
    echo "launch/data/ray.sh: node $1 wasn't ready in attempt ${attempt}" >&2
    start "$@"
  done
  cat "${folder}/$1.log" >&2
  exit 1
}
stop() {
  for node in "${nodes[@]}"; do kill -TERM -- "-${node}" 2>/dev/null || true; done
  wait "${nodes[@]}" 2>/dev/null || true
  rm -rf "${folder}"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

head=(--head --port "${port}" --num-cpus 0 --include-dashboard false)
worker=(--address "127.0.0.1:${port}" --num-cpus 1)
start 0 "${head[@]}"
await 0 "${head[@]}"
for ((node = 1; node <= num_nodes; node++)); do
  start "${node}" "${worker[@]}"
  await "${node}" "${worker[@]}"
done
echo "launch/data/ray.sh: Ray at 127.0.0.1:${port}; processes of the nodes: ${nodes[*]:1}" >&2

"$@" --runner ray --ray_address "127.0.0.1:${port}"
