"""An S3 server on this machine that fails when a test says so."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

KEY = "key-of-the-tests"
SECRET = "secret-of-the-tests"

Environment = dict[str, Any]
Application = Callable[[Environment, Callable[..., Any]], Iterable[bytes]]


class BucketServer:
    """Answers requests of S3, or with the errors that it is told to give first.

    Attributes:
      requests: Method and path of each request.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self._answers: Application = DomainDispatcherApplication(create_backend_app)
        self._failures: list[tuple[str, str, int, str]] = []
        self._lock = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self, threaded=True)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def fail(self, method: str, part: str, *, times: int, status: int = 503, code: str = "SlowDown") -> None:
        """Answer the next requests of a method whose path has a part with an error.

        Args:
          method: Method of the requests, such as PUT.
          part: Part of their paths.
          times: Number of requests.
          status: Status of the answers.
          code: S3's name of the error.
        """
        with self._lock:
            self._failures += [(method, part, status, code)] * times

    def recover(self) -> None:
        """Fail no more."""
        with self._lock:
            self._failures.clear()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()

    def __call__(self, environment: Environment, start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environment["REQUEST_METHOD"], environment["PATH_INFO"]
        with self._lock:
            self.requests.append((method, path))
            failure = next((each for each in self._failures if each[0] == method and each[1] in path), None)
            if failure:
                self._failures.remove(failure)
        if failure is None:
            return self._answers(environment, start_response)
        environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
        start_response(f"{failure[2]} {failure[3]}", [("Content-Type", "application/xml")])
        return [f"<Error><Code>{failure[3]}</Code><Message>{failure[3]}</Message></Error>".encode()]


@contextmanager
def bucket_server() -> Iterator[BucketServer]:
    """Yield a server with an empty bucket ``tests``, which this process and its children use as S3."""
    server = BucketServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", server.address)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("tests")
        yield server
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()
