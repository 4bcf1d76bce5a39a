#!/usr/bin/env bash
# Train on a TPU node pool of a Kubernetes cluster (GKE): one pod for each TPU host, one process in each pod.
#
#   IMAGE=REGION-docker.pkg.dev/PROJECT/REPOSITORY/t5x-like HOSTS=4 ACCELERATOR=tpu-v5-lite-podslice TOPOLOGY=4x4 \
#     launch/gke/train.sh [--restarts N] RECIPE.gin --model_dir gs://bucket/run [...] | kubectl apply -f -
#   kubectl logs -f job/t5x-like
#
# IMAGE is built from launch/Dockerfile with EXTRA=tpu. CHIPS is the number of chips of one host. When a pod fails, the
# others end, too; all are started again at most N times (25), and the run continues from its last checkpoint. Pods that
# are moved don't count. A mistake in the recipe ends the job at once. slices.sh trains on several slices.
set -euo pipefail

# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/job_spec.sh"

command=$(as_json launch/process.sh "$@")
cat <<EOF
apiVersion: v1
kind: Service
metadata: {name: ${NAME}}
spec: {clusterIP: None, selector: {job-name: ${NAME}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: ${NAME}}
spec:
$(job_spec $((RESTARTS * HOSTS)) "${NAME}-0.${NAME}" "${HOSTS}" "" "${command}" | indent 2)
EOF
