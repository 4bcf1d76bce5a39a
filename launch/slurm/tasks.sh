# shellcheck shell=bash
# Sourced by the jobs of this folder, after restarts.sh: runs a command in each task of the job.

export PATH="${VENV:-${SLURM_SUBMIT_DIR:-.}/.venv}/bin:${PATH}"
trap 'SIGNALS=$((SIGNALS + 1))' TERM # scancel signals this script and the tasks, a time limit and preemption only these

# srun ends all tasks after the first bad exit, and returns the highest exit code, killed tasks' 137 included. A mistake
# (2, 3) must win, so it becomes 202, 203. Tasks that have saved (130), or have something to say, wait for the others.
# shellcheck disable=SC2016 # expands in each task
_TASK='
trap : TERM # the command gets it, too, and ends in its own time
"$@" && exit
code=$?
((code >= 128 && code != 130)) || sleep 10
case ${code} in
  2 | 3) exit $((200 + code)) ;;
  130) exit 130 ;;
esac
scancel --signal=KILL "${SLURM_JOB_ID}.${SLURM_STEP_ID}" # srun would wait for KillWait
exit "${code}"'

_run_tasks() {
  local status=0
  srun --kill-on-bad-exit=1 bash -c "${_TASK}" bash "$@" || status=$?
  return $((status > 200 ? status - 200 : status))
}

# Runs the command in each task, and again after failures, and ends the job. One that has saved as asked, but not by
# scancel, goes back into the queue.
run_job() {
  local status=0
  with_restarts _run_tasks "$@" || status=$?
  if ((status == 130 && SIGNALS == 0)); then
    if scontrol requeue "${SLURM_JOB_ID}"; then
      sleep 300 # SLURM ends this script
    fi
    echo "this job can't go back into the queue; submit it again to continue" >&2
  fi
  exit "${status}"
}
