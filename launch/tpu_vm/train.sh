#!/usr/bin/env bash
# Train on a Cloud TPU slice: copies this commit to every worker, installs it, and starts one process on each.
#
#   gcloud compute tpus tpu-vm create NAME --zone=ZONE --accelerator-type=v5litepod-16 --version=v2-alpha-tpuv5-lite
#   TPU_NAME=NAME ZONE=ZONE launch/tpu_vm/train.sh [--restarts N] RECIPE.gin --model_dir gs://bucket/run [...]
#
# MODEL_DIR must be a bucket: all workers write there. Each worker starts its process again after it died or lost
# another, at most N times. Run the same command again to continue after that.
# Ctrl-C only stops watching; `STOP=1` with the same names asks the run to save and stop.
set -euo pipefail

: "${TPU_NAME:?the name of the TPU, see gcloud compute tpus tpu-vm list}" "${ZONE:?the zone of the TPU}"

on_every_worker() {
  gcloud compute tpus tpu-vm ssh "${TPU_NAME}" --zone="${ZONE}" --worker=all --command="$1"
}

if [[ -n ${STOP:-} ]]; then
  # shellcheck disable=SC2016 # expands on the workers
  on_every_worker 'kill -TERM "$(cat t5x_like/train.pid)"'
  exit
fi

# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../restarts.sh"
: "${1:?usage: TPU_NAME=... ZONE=... launch/tpu_vm/train.sh [--restarts N] RECIPE.gin [--set NAME=VALUE ...]}"
archive=$(mktemp -d)/t5x_like.tar.gz
trap 'rm -rf "$(dirname "${archive}")"' EXIT
git -C "$(dirname "${BASH_SOURCE[0]}")/../.." archive --prefix=t5x_like/ -o "${archive}" HEAD
gcloud compute tpus tpu-vm scp "${archive}" "${TPU_NAME}:" --zone="${ZONE}" --worker=all

# uv brings its own Python: TPU images have an older one than we need. The extra seqio brings TensorFlow, which reads gs://.
on_every_worker 'set -e
  tar -xzf t5x_like.tar.gz
  python3 -m pip install --quiet --user uv
  cd t5x_like
  test -d .venv || python3 -m uv venv --quiet --python 3.11 .venv
  python3 -m uv pip install --quiet --python .venv/bin/python --constraint requirements.lock --editable ".[tpu,seqio]"'

command=$(printf '%q ' launch/process.sh --restarts "${RESTARTS}" "$@")
# Each worker learns its number and the others' addresses (HOST, or NAME:ID:HOST) from the TPU's metadata.
on_every_worker "cd t5x_like
  metadata=http://metadata.google.internal/computeMetadata/v1/instance/attributes
  attribute() { curl --silent --show-error --fail --header 'Metadata-Flavor: Google' \$metadata/\$1; }
  workers=\$(attribute worker-network-endpoints) index=\$(attribute agent-worker-number) || exit
  first=\${workers%%,*} commas=\${workers//[^,]/}
  export T5X_LIKE_COORDINATOR=\${first##*:}:8482 T5X_LIKE_NUM_PROCESSES=\$((\${#commas} + 1))
  export T5X_LIKE_PROCESS_ID=\$index PATH=\$PWD/.venv/bin:\$PATH
  : > train.log
  nohup ${command} >> train.log 2>&1 &
  echo \$! > train.pid
  tail --pid=\$! --lines=+1 --follow train.log
  wait \$!"
