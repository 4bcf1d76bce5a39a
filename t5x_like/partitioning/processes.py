"""Connects this process to the others of its run, as environment variables describe them."""

import os
import re

COORDINATOR = "T5X_LIKE_COORDINATOR"
NUM_PROCESSES = "T5X_LIKE_NUM_PROCESSES"
PROCESS_ID = "T5X_LIKE_PROCESS_ID"
DISTRIBUTED = "T5X_LIKE_DISTRIBUTED"

_EXPLICIT = (COORDINATOR, NUM_PROCESSES, PROCESS_ID)


def initialize_processes() -> None:
    """Connect to the other processes; call once, before JAX touches a device.

    With nothing set this is a run of one process, and nothing happens.

    ``T5X_LIKE_COORDINATOR`` (``host:port`` of process 0), ``T5X_LIKE_NUM_PROCESSES`` and
    ``T5X_LIKE_PROCESS_ID`` describe the run; ``T5X_LIKE_DISTRIBUTED=auto`` instead lets JAX ask the TPU pod,
    SLURM or Kubernetes.

    Raises:
      ValueError: The description is incomplete or contradicts itself.
    """
    mode = os.environ.get(DISTRIBUTED, "")
    explicit = {name: os.environ[name] for name in _EXPLICIT if os.environ.get(name)}
    if mode not in ("", "auto"):
        raise ValueError(f"{DISTRIBUTED}={mode!r}; the only mode is 'auto' (leave it unset for one process)")
    if mode and explicit:
        raise ValueError(f"{DISTRIBUTED}=auto and {', '.join(explicit)} are both set; choose one way")
    if mode:
        import jax  # takes seconds; a run of one process may never need it

        jax.distributed.initialize()
    elif explicit:
        _initialize_explicitly(explicit)


def _initialize_explicitly(explicit: dict[str, str]) -> None:
    missing = [name for name in _EXPLICIT if name not in explicit]
    if missing:
        raise ValueError(
            f"{', '.join(explicit)} set without {', '.join(missing)}; a run of several processes needs all"
        )
    if not re.fullmatch(r".+:\d+", explicit[COORDINATOR]):
        raise ValueError(
            f"{COORDINATOR}={explicit[COORDINATOR]!r}; write host:port, for example localhost:12345"
        )
    count, index = _number(explicit, NUM_PROCESSES), _number(explicit, PROCESS_ID)
    if index >= count:
        raise ValueError(f"{PROCESS_ID}={index} must lie in 0 … {count - 1}, as {NUM_PROCESSES}={count}")
    import jax  # takes seconds

    jax.distributed.initialize(explicit[COORDINATOR], num_processes=count, process_id=index)


def _number(explicit: dict[str, str], name: str) -> int:
    if not explicit[name].isdecimal():
        raise ValueError(f"{name}={explicit[name]!r} is not a whole number")
    return int(explicit[name])
