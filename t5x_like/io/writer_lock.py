"""A folder has one writer at a time.

The system's lock of the folder (``flock``) ends with its process, however that ends. Buckets and some network file
systems have none. There a signed writer renews its signature, and one that is old counts as gone.
"""

import contextlib
import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import TypedDict

from t5x_like.io.files import as_path, read_json, write_json

_SIGNATURE = "writer.json"
_RENEWED_EVERY_SECONDS = 10.0
_GONE_AFTER_SECONDS = 60.0


@contextlib.contextmanager
def exclusive_writer(folder: str, what: str, *, signed: bool = False) -> Iterator[None]:
    """Keep other processes from writing to a folder.

    Args:
      folder: A folder, local or in a bucket; made if it is missing, and removed again if it stays empty.
      what: Name of what is written there, for the message.
      signed: Say in ``writer.json`` which process writes. Only such folders are locked where the system has no locks.

    Raises:
      ValueError: Another process writes to the folder; the message names its host and number if it has signed.
    """
    if "://" in folder and not signed:
        yield
        return
    with contextlib.ExitStack() as opened:
        if not as_path(folder).exists():
            as_path(folder).mkdir(parents=True, exist_ok=True)
            opened.callback(_remove_if_empty, folder)
        is_locked = _lock(folder, what, opened)
        if signed:
            if not is_locked:
                _refuse_another(folder, what)
            opened.enter_context(_signature(folder, renewed=not is_locked))
        yield


class WriterSignature(TypedDict):
    """Process that writes to a folder, and the time at which it was last seen."""

    host: str
    pid: int
    renewed: float


def current_writer(folder: str) -> WriterSignature | None:
    """Return ``host`` and ``pid`` of the process that writes to a folder and has signed; ``None`` if there is none."""
    signature = _read(folder)
    if signature is None:
        return None
    with contextlib.ExitStack() as opened:
        try:
            is_locked = _lock(folder, "run", opened)
        except ValueError:
            return signature
    # A process that was killed leaves its signature, and the system ends its lock.
    is_gone = is_locked or time.time() - signature["renewed"] >= _GONE_AFTER_SECONDS
    return None if is_gone else signature


def _lock(folder: str, what: str, opened: contextlib.ExitStack) -> bool:
    """Lock the folder until ``opened`` is closed; returns ``False`` where the system has no locks."""
    if "://" in folder:
        return False
    held = os.open(folder, os.O_RDONLY)
    opened.callback(os.close, held)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(_refusal(folder, what)) from error
    except OSError:
        return False
    return True


def _refuse_another(folder: str, what: str) -> None:
    signature = _read(folder)
    if signature and (signature["host"], signature["pid"]) != (socket.gethostname(), os.getpid()):
        age = time.time() - signature["renewed"]
        if age < _GONE_AFTER_SECONDS:
            raise ValueError(
                f"{_refusal(folder, what)}; if it is gone, try again in {_GONE_AFTER_SECONDS - age:.0f} s"
            )


def _refusal(folder: str, what: str) -> str:
    signature = _read(folder)
    who = f" (host {signature['host']}, pid {signature['pid']})" if signature else ""
    return f"another process{who} is writing the {what} {folder}; wait for it or stop it"


def _read(folder: str) -> WriterSignature | None:
    try:
        signature = read_json(as_path(folder) / _SIGNATURE)
        return {
            "host": str(signature["host"]),
            "pid": int(signature["pid"]),
            "renewed": float(signature["renewed"]),
        }
    except (OSError, ValueError, TypeError, KeyError):  # none, or written half
        return None


@contextlib.contextmanager
def _signature(folder: str, *, renewed: bool) -> Iterator[None]:
    stopped = threading.Event()

    def sign() -> None:
        mine = {"host": socket.gethostname(), "pid": os.getpid(), "renewed": time.time()}
        write_json(as_path(folder) / _SIGNATURE, mine)

    def renew() -> None:
        while not stopped.wait(_RENEWED_EVERY_SECONDS):
            with contextlib.suppress(OSError):  # the next one may succeed
                sign()

    sign()
    renewer = threading.Thread(target=renew, name="writer-lock", daemon=True)
    if renewed:
        renewer.start()
    try:
        yield
    finally:
        stopped.set()
        if renewed:
            renewer.join()
        with contextlib.suppress(OSError):
            (as_path(folder) / _SIGNATURE).unlink(missing_ok=True)


def _remove_if_empty(folder: str) -> None:
    if "://" not in folder:  # buckets have no empty folders
        with contextlib.suppress(OSError):
            os.rmdir(folder)
