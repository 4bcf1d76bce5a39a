"""Which process the others give up, by the signs that each shows; times are given, nothing waits."""

from t5x_like.partitioning.process_watch import (
    LOST_PROCESS,
    READING_DATA,
    LostProcess,
    ProcessSign,
    SignHistory,
)

TIMEOUT = 60.0


def history(*signs: ProcessSign) -> SignHistory:
    seen = SignHistory(["host a, pid 6", "host b, pid 7"], TIMEOUT, now=0.0)
    for index, sign in enumerate(signs):
        seen.add(index, sign, now=0.0)
    return seen


def sign(number: int = 1, position: int = 5, activity: str = "at step 3", **changes) -> ProcessSign:
    return ProcessSign(number, position, activity, **changes)


def test_a_process_without_a_new_sign_is_lost_after_the_timeout():
    seen = history(sign(), sign())
    for now in (30.0, 60.0):
        seen.add(0, sign(number=int(now)), now)
        seen.add(1, sign(), now)  # the old sign still lies there
    assert seen.lost(59.0) is None
    assert seen.lost(60.0) == LostProcess(1, "process 1 of 2 (host b, pid 7) gave no sign for 60 s")


def test_a_process_that_never_gave_a_sign_is_lost_too():
    seen = history()
    seen.add(0, sign(), now=50.0)
    assert seen.lost(61.0) == LostProcess(1, "process 1 of 2 (host b, pid 7) gave no sign for 61 s")


def test_a_process_that_fails_is_named_with_its_exit_code():
    seen = history(sign(), sign(exit_code=2))
    assert seen.lost(0.0) == LostProcess(1, "process 1 of 2 (host b, pid 7) ended with exit code 2", 2)
    assert history(sign(), sign(exit_code=1)).lost(0.0).exit_code == LOST_PROCESS


def test_what_another_process_has_found_is_believed():
    result = LostProcess(2, "process 2 of 3 (host c, pid 8) gave no sign for 60 s", 2)
    assert history(sign(lost=result), sign()).lost(0.0) == result


def alive(seen: SignHistory, now: float, *signs: ProcessSign) -> None:
    for index, sign in enumerate(signs):
        seen.add(index, sign._replace(number=int(1000 * now) + 2), now)


def test_a_process_that_reads_data_while_the_others_wait_is_lost_after_the_timeout():
    reading, ahead = sign(position=4, activity=f"{READING_DATA} of step 9"), sign(position=5)
    seen = history(reading, reading)
    for now in (0.0, 50.0):  # as long as all read, nobody is behind
        alive(seen, now, reading, reading)
        assert seen.lost(now) is None
    for now in (100.0, 159.0):
        alive(seen, now, ahead, reading)
        assert seen.lost(now) is None
    alive(seen, 160.0, ahead, reading)
    assert seen.lost(160.0) == LostProcess(
        1,
        "process 1 of 2 (host b, pid 7) has kept the others waiting for 60 s, reading data of step 9",
    )


def test_other_work_may_take_one_process_forty_times_as_long():
    behind, ahead = sign(position=4), sign(position=5)
    seen = history(behind, ahead)
    for now in range(0, 2400, 30):
        alive(seen, now, behind, ahead)
        assert seen.lost(now) is None
    alive(seen, 2400.0, behind, ahead)
    assert "has kept the others waiting for 2400 s, at step 3" in seen.lost(2400.0).message


def test_a_process_that_catches_up_begins_anew():
    slow = sign(position=4, activity=READING_DATA)
    seen = history(slow, sign(position=5))
    for now in (0.0, 50.0):
        alive(seen, now, slow, sign(position=5))
        assert seen.lost(now) is None
    later = slow._replace(position=6)
    for now in (51.0, 100.0):
        alive(seen, now, later, sign(position=7))
        assert seen.lost(now) is None


def test_after_this_process_was_suspended_all_clocks_start_again():
    seen = history(sign(), sign())
    seen.forget_times(1000.0)
    assert seen.lost(1059.0) is None
    assert seen.lost(1060.0).index == 0
