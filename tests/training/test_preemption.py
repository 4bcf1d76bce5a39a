"""The first signal asks, the second one kills."""

import signal
import subprocess
import sys
import textwrap

from t5x_like.training.preemption import Preemption


def test_the_first_signal_only_raises_the_flag():
    with Preemption() as preemption:
        assert not preemption.requested_at(1)
        signal.raise_signal(signal.SIGTERM)
        assert preemption.requested_at(2)


def test_the_handlers_from_before_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with Preemption():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_second_signal_leaves_at_once():
    program = textwrap.dedent(
        """
        import signal
        from t5x_like.training.preemption import Preemption
        with Preemption():
            signal.raise_signal(signal.SIGTERM)
            print("still here", flush=True)
            signal.raise_signal(signal.SIGTERM)
            print("never printed", flush=True)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "still here\n"
    assert done.returncode == -signal.SIGTERM
