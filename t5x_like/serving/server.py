"""Opens a checkpoint, and serves it until SIGTERM or Ctrl-C."""

import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained
from t5x_like.serving.application import build_application
from t5x_like.serving.request_fields import Limits
from t5x_like.serving.served_model import ServedModel

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SECONDS_TO_FINISH = 10  # of requests in work, when the server ends


def serve(
    checkpoint: str,
    *,
    name: str = "",
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits,
    say: Callable[[str], None],
    **options: Any,
) -> None:
    """Serve a model; returns when a signal ends it and requests in work are answered.

    Args:
      checkpoint: Any checkpoint that ``from_pretrained`` opens.
      name: Name of the model in answers; that of the directory if empty.
      host: Interface to listen on.
      port: Port; 0 for a free one.
      limits: Limits of requests.
      say: Called with the address when the server listens.
      **options: More of ``from_pretrained``, such as ``step``.

    Raises:
      ValueError: The checkpoint can't be opened, or the port is in use.
    """
    # The port is taken first: opening the model takes long.
    with _exit_at_sigterm(), _listen(host, port) as listening:
        pretrained = from_pretrained(checkpoint, **options)
        model = ServedModel(pretrained, name or Path(checkpoint).resolve().name, limits)
        application = build_application(model, hosts=LOOPBACK if host in LOOPBACK else ())
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}"
        say(f"{model.name}: {', '.join(model.abilities)} at {address} (Ctrl-C ends it)")
        settings = uvicorn.Config(
            application, log_level="warning", timeout_graceful_shutdown=_SECONDS_TO_FINISH, lifespan="on"
        )
        uvicorn.Server(settings).run(sockets=[listening])


@contextlib.contextmanager
def _exit_at_sigterm() -> Iterator[None]:
    """End with exit code 0 at SIGTERM. uvicorn answers requests in work, then sends itself the signal once more."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise ValueError(f"port={port}: give a number from 1 to 65535, or 0 for a free one")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(
            f"can't listen on {host} port {port}: {error.strerror}; give another port"
        ) from error
