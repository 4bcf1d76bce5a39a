#!/usr/bin/env bash
# Train on a TPU node pool of a Kubernetes cluster (GKE): one pod for each TPU host, one process in each pod.
#
#   IMAGE=REGION-docker.pkg.dev/PROJECT/REPOSITORY/t5x-like HOSTS=4 ACCELERATOR=tpu-v5-lite-podslice TOPOLOGY=4x4 \
#     launch/gke/train.sh RECIPE.gin --model_dir gs://bucket/run [...] | kubectl apply -f -
#   kubectl logs -f job/t5x-like
#
# IMAGE is built from launch/Dockerfile with EXTRA=tpu. CHIPS is the number of chips of one host. A pod that is moved
# or fails is started again, and the run continues from its last checkpoint.
set -euo pipefail

GIN_FILE=${1:?usage: IMAGE=... HOSTS=... launch/gke/train.sh RECIPE.gin [--set NAME=VALUE ...]}
shift
: "${IMAGE:?the container image}" "${HOSTS:?number of hosts in the slice}"
: "${ACCELERATOR:?node label cloud.google.com/gke-tpu-accelerator}" "${TOPOLOGY:?node label gke-tpu-topology}"
NAME=${NAME:-t5x-like}

command=$(python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' launch/process.sh "${GIN_FILE}" "$@")

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
  backoffLimit: 100
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
