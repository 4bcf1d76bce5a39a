#!/usr/bin/env bash
# Train on a TPU node pool of a Kubernetes cluster (GKE): one pod for each TPU host, one process in each pod.
#
#   IMAGE=REGION-docker.pkg.dev/PROJECT/REPOSITORY/t5x-like HOSTS=4 ACCELERATOR=tpu-v5-lite-podslice TOPOLOGY=4x4 \
#     launch/gke/train.sh [--restarts N] RECIPE.gin --model_dir gs://bucket/run [...] | kubectl apply -f -
#   kubectl logs -f job/t5x-like
#
# IMAGE is built from launch/Dockerfile with EXTRA=tpu. CHIPS is the number of chips of one host. When a pod fails, the
# others end, too; all are started again at most N times (25), and the run continues from its last checkpoint. Pods that
# are moved don't count. A mistake in the recipe ends the job at once.
set -euo pipefail

if [[ ${1:-} != --restarts ]]; then set -- --restarts 25 "$@"; fi
# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../restarts.sh"
: "${1:?usage: IMAGE=... HOSTS=... launch/gke/train.sh [--restarts N] RECIPE.gin [--set NAME=VALUE ...]}"
: "${IMAGE:?the container image}" "${HOSTS:?number of hosts in the slice}"
: "${ACCELERATOR:?node label cloud.google.com/gke-tpu-accelerator}" "${TOPOLOGY:?node label gke-tpu-topology}"
NAME=${NAME:-t5x-like}

command=$(python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' launch/process.sh "$@")

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
  completionMode: Indexed
  completions: ${HOSTS}
  parallelism: ${HOSTS}
  backoffLimit: $((RESTARTS * HOSTS))
  podFailurePolicy:
    rules:
      - {action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}
      - {action: FailJob, onExitCodes: {containerName: train, operator: In, values: [2, 3]}}
  template:
    spec:
      subdomain: ${NAME}
      restartPolicy: Never
      terminationGracePeriodSeconds: 180
      nodeSelector:
        cloud.google.com/gke-tpu-accelerator: ${ACCELERATOR}
        cloud.google.com/gke-tpu-topology: ${TOPOLOGY}
      containers:
        - name: train
          image: ${IMAGE}
          env:
            - {name: T5X_LIKE_COORDINATOR, value: "${NAME}-0.${NAME}:8482"}
            - {name: T5X_LIKE_NUM_PROCESSES, value: "${HOSTS}"}
            - name: T5X_LIKE_PROCESS_ID
              valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
          ports: [{containerPort: 8471}, {containerPort: 8482}]
          resources: {requests: {google.com/tpu: ${CHIPS:-4}}, limits: {google.com/tpu: ${CHIPS:-4}}}
          command: ${command}
EOF
