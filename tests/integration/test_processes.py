"""Two processes train as one."""

import socket

import numpy as np

from tests.integration.programs import finish, losses, start

STEPS = 6


def test_two_processes_give_the_losses_of_one(directory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    pair = [
        start(
            directory / "two_processes",
            STEPS,
            T5X_LIKE_COORDINATOR=coordinator,
            T5X_LIKE_NUM_PROCESSES="2",
            T5X_LIKE_PROCESS_ID=str(index),
        )
        for index in range(2)
    ]
    for process in pair:
        finish(process)
    finish(start(directory / "one_process", STEPS, num_devices=2))
    two, one = losses(directory / "two_processes"), losses(directory / "one_process")
    assert two.keys() == one.keys() == set(range(1, STEPS + 1))
    np.testing.assert_allclose(list(two.values()), list(one.values()), rtol=1e-5)
    assert (directory / "two_processes" / str(STEPS)).is_dir(), "they saved together"
