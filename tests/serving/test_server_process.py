"""The command as a process: it serves on the loopback interface, and SIGTERM ends it."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

import t5x_like.serving
from t5x_like.cli.main import main


@pytest.fixture
def server(models):
    command = "from t5x_like.cli.main import run_and_exit; run_and_exit()"
    flags = ["serve", "--checkpoint", str(models / "gpt2"), "--port", "0", "--name", "tiny"]
    with subprocess.Popen(
        [sys.executable, "-c", command, *flags], stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_it_answers_until_it_is_terminated(server):
    lines = iter(server.stderr.readline, "")
    result = next(
        match for line in lines if (match := re.search(r"(http://127\.0\.0\.1:\d+) \(Ctrl-C", line))
    )

    def ask(path, **fields):
        body = json.dumps(fields).encode() if fields else None
        request = urllib.request.Request(f"{result[1]}{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    assert ask("/v1/completions", prompt="In the", max_tokens=2, temperature=0)["model"] == "tiny"
    with ThreadPoolExecutor() as threads:
        in_work = threads.submit(ask, "/v1/completions", prompt=["In the"] * 64, max_tokens=16, temperature=0)
        while not in_work.done() and not ask("/health")["requests"]:
            pass
        server.send_signal(signal.SIGTERM)
        assert len(in_work.result()["choices"]) == 64
    assert server.wait(timeout=60) == 0
    assert "Traceback" not in server.stderr.read()


def test_mistakes_end_with_2(models, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert main(["serve", "--checkpoint", str(models / "gpt2"), "--port", port]) == 2
        message = capsys.readouterr().err
        assert f"can't listen on 127.0.0.1 port {port}: Address already in use" in message
        assert "; give another port" in message
    assert main(["serve", "--checkpoint", str(models / "gpt2"), "--port", "65536"]) == 2
    assert "argument --port: 65536 is no port; give 0 to 65535" in capsys.readouterr().err
    assert main(["serve", "--checkpoint", "nowhere", "--port", "0"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert main(["serve", "--checkpoint", "nowhere", "--max_new_tokens", "0"]) == 2
    assert (
        "argument --max_new_tokens: 0 is too small; give a whole number of at least 1"
        in capsys.readouterr().err
    )


def test_other_machines_are_warned_about(capsys):
    assert main(["serve", "--checkpoint", "nowhere", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "warning: --host 0.0.0.0 lets other machines use this server" in capsys.readouterr().err


def test_the_extra_is_named_where_it_is_missing(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "t5x_like.serving.server", raising=False)
    monkeypatch.delattr(t5x_like.serving, "server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "--checkpoint", "nowhere"]) == 2
    assert "uvicorn isn't installed\n  pip install 't5x-like[serve]'" in capsys.readouterr().err
