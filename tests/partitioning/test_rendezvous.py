"""Processes find each other, or each says what is wrong. Threads stand for processes: nothing here needs JAX."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from t5x_like.partitioning import rendezvous
from t5x_like.partitioning.rendezvous import MissingProcessError, wait_for_all_processes
from tests.references import free_port


def meet_all(*processes: tuple[int, int], timeout: float = 20.0, port: int = 0) -> list[str]:
    """Return what each process is told is wrong, or how many it met. Each is (number of processes, its number)."""
    coordinator = f"localhost:{port or free_port()}"

    def outcome(process: tuple[int, int]) -> str:
        try:
            return f"met {len(wait_for_all_processes(coordinator, *process, timeout))}"
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(len(processes)) as pool:
        return list(pool.map(outcome, processes))


def test_four_processes_meet_in_any_order():
    assert meet_all((4, 3), (4, 1), (4, 0), (4, 2)) == ["met 4"] * 4


def test_the_port_is_free_for_jax_afterwards():
    port = free_port()
    assert meet_all((2, 0), (2, 1), port=port) == ["met 2"] * 2
    assert meet_all((2, 0), (2, 1), port=port) == ["met 2"] * 2


def test_a_missing_process_is_named_to_all():
    told = meet_all((4, 0), (4, 2), timeout=1.0)
    assert told[0] == told[1]
    assert re.fullmatch(r"processes 1, 3 of 4 did not connect to localhost:\d+ within 1 s; .*", told[0])


def test_two_processes_of_one_number_are_named_to_all():
    for told in meet_all((3, 0), (3, 1), (3, 1)):
        assert re.match(
            r"two processes have one number: process 1 of 3 \(host .*\) and process 1 of 3 \(", told
        )


def test_a_wrong_number_of_processes_is_named():
    for told in meet_all((3, 0), (2, 1)):
        assert re.match(r"process 1 of 2 \(host .*\) doesn't fit process 0 of 3 \(host .*\); give all", told)


def test_an_address_without_process_0_is_named():
    [told] = meet_all((2, 1), timeout=0.1)
    assert re.search(r"process 1 of 2 \(.*\) could not reach process 0 at localhost:\d+ for 0 s", told)


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("", 0)) as listener:
        [told] = meet_all((2, 0), port=listener.getsockname()[1], timeout=0.1)
    assert "process 0 can't listen at localhost:" in told


def answer_as_jax(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    connection.sendall(b"\x00\x00\x12\x04\n")  # as the servers of JAX begin
    connection.close()


def test_a_process_that_comes_after_the_others_have_met_says_so():
    with socket.create_server(("", 0)) as other, ThreadPoolExecutor(1) as pool:
        late = pool.submit(wait_for_all_processes, f"localhost:{other.getsockname()[1]}", 2, 1, 1.0)
        answer_as_jax(other)
        with pytest.raises(MissingProcessError, match="got no answer that it knows from localhost"):
            late.result()


def test_a_process_that_was_started_again_waits_for_the_others_to_come_back(caplog, monkeypatch):
    monkeypatch.setattr(rendezvous, "_RETRY_WHERE_OTHERS_TRAIN_SECONDS", 0.1)
    with ThreadPoolExecutor(2) as pool:
        with socket.create_server(("", 0)) as other:
            port = other.getsockname()[1]
            again = pool.submit(wait_for_all_processes, f"localhost:{port}", 2, 1, 20.0)
            answer_as_jax(other)
            answer_as_jax(other)
        pool.submit(wait_for_all_processes, f"localhost:{port}", 2, 0, 20.0).result()
        assert len(again.result()) == 2
    [record] = caplog.records
    assert "a run has begun there without it" in record.getMessage()
    assert "it tries again for" in record.getMessage()


def test_a_scanner_of_ports_does_no_harm():
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(wait_for_all_processes, f"localhost:{port}", 2, 0, 20.0)
        while True:
            try:
                scanner = socket.create_connection(("localhost", port))
                break
            except OSError:
                pass
        scanner.sendall(b"GET / HTTP/1.1\r\n\r\n")
        scanner.close()
        pool.submit(wait_for_all_processes, f"localhost:{port}", 2, 1, 20.0).result()
        assert len(first.result()) == 2
