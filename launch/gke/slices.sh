#!/usr/bin/env bash
# Train on several TPU slices of a Kubernetes cluster (GKE) by a JobSet (https://jobset.sigs.k8s.io), which it must have.
#
#   SLICES=2 IMAGE=... HOSTS=4 ACCELERATOR=tpu-v5-lite-podslice TOPOLOGY=4x4 \
#     launch/gke/slices.sh [--restarts N] RECIPE.gin --model_dir gs://bucket/run [...] | kubectl apply -f -
#   kubectl logs -f job/t5x-like-slice-0
#
# As train.sh; HOSTS are those of one slice, and each slice gets a node pool of its own. When a pod fails, the JobSet
# starts all slices again, at most N times (25). A mistake in the recipe ends it at once.
set -euo pipefail

# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/job_spec.sh"
if [[ ! ${SLICES:-} =~ ^[1-9][0-9]*$ ]]; then
  echo "SLICES='${SLICES:-}': give the number of TPU slices, such as 2" >&2
  exit 2
fi

# Processes are numbered over all slices. GKE itself sets the variables by which libtpu finds the other slices.
slice="- name: SLICE
  valueFrom: {fieldRef: {fieldPath: \"metadata.labels['jobset.sigs.k8s.io/job-index']\"}}"
command=$(as_json bash -c "declare -ix T5X_LIKE_PROCESS_ID+=SLICE*${HOSTS}; exec \"\$@\"" process launch/process.sh "$@")
cat <<EOF
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: ${NAME}
  annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}
spec:
  failurePolicy:
    maxRestarts: ${RESTARTS}
    rules:
      - {name: mistake, action: FailJobSet, onJobFailureReasons: [PodFailurePolicy]}
  replicatedJobs:
    - name: slice
      replicas: ${SLICES}
      template:
        spec:
$(job_spec 0 "${NAME}-slice-0-0.${NAME}" $((HOSTS * SLICES)) "${slice}" "${command}" | indent 10)
EOF
