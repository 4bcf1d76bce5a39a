# shellcheck shell=bash
# Sourced by train.sh and slices.sh: checks their variables and arguments, and writes the spec of a slice's Job.

if [[ ${1:-} != --restarts ]]; then set -- --restarts 25 "$@"; fi
# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../restarts.sh"
: "${1:?usage: IMAGE=... HOSTS=... launch/gke/${0##*/} [--restarts N] RECIPE.gin [--set NAME=VALUE ...]}"
: "${IMAGE:?the container image}" "${HOSTS:?number of hosts in a slice}"
: "${ACCELERATOR:?node label cloud.google.com/gke-tpu-accelerator}" "${TOPOLOGY:?node label gke-tpu-topology}"
if [[ ! ${HOSTS} =~ ^[1-9][0-9]*$ ]]; then
  echo "HOSTS='${HOSTS}': give the number of hosts in a slice, such as 4" >&2
  exit 2
fi
NAME=${NAME:-t5x-like}

as_json() { python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$@"; }

indent() { sed "s/^/$(printf '%*s' "$1" '')/"; }

# Prints the spec of an indexed Job, whose pods are the hosts of one slice.
#   $1: retries of pods   $2: address of process 0   $3: all processes   $4: further variables   $5: command, as JSON
job_spec() {
  cat <<EOF
completionMode: Indexed
completions: ${HOSTS}
parallelism: ${HOSTS}
backoffLimit: $1
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
          - {name: T5X_LIKE_COORDINATOR, value: "$2:8482"}
          - {name: T5X_LIKE_NUM_PROCESSES, value: "$3"}
          - name: T5X_LIKE_PROCESS_ID
            valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
$(indent 10 <<<"$4")
        ports: [{containerPort: 8471}, {containerPort: 8482}]
        resources: {requests: {google.com/tpu: ${CHIPS:-4}}, limits: {google.com/tpu: ${CHIPS:-4}}}
        command: $5
EOF
}
