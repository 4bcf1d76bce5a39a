"""Flags that are numbers: every one of every verb refuses values without sense."""

import argparse
from collections.abc import Iterator

import pytest

from t5x_like.cli import number_types
from t5x_like.cli.main import VERBS, main, parser_of

# Flags whose value may be 0: steps, seeds, ports, and numbers of things that there need not be.
MAY_BE_ZERO = {
    "--index",
    "--at_least",
    *("--step", "--step_a", "--step_b", "--from_step", "--seed", "--shot_seed", "--port", "--num_sentinels"),
    *("--num_shots", "--resamples", "--max_waiting", "--subsample", "--power"),
    *("--passage_length", "--passage_overlap"),
}
LAYERS = {"--layers", "--encoder_layers", "--decoder_layers"}


def flags_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All flags of a parser and of its sub-verbs that read a value by a type of their own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from flags_of(verb)
        elif action.type is not None:
            yield action


FLAGS = {
    f"{verb} {action.option_strings[0]}": action for verb in VERBS for action in flags_of(parser_of(verb))
}


def refuses(action: argparse.Action, text: str) -> bool:
    assert callable(action.type)
    try:
        action.type(text)
    except (argparse.ArgumentTypeError, ValueError):
        return True
    return False


@pytest.mark.parametrize("name", FLAGS)
def test_a_number_without_sense_is_refused(name: str) -> None:
    action, flag = FLAGS[name], name.split()[-1]
    assert action.type not in (int, float), "give the flag a type of number_types"
    assert refuses(action, "-1")
    assert refuses(action, "0") == (flag not in MAY_BE_ZERO | LAYERS)
    assert refuses(action, "many")
    assert not refuses(action, "1")


def test_flags_of_all_kinds_are_walked() -> None:
    assert {
        "evaluate --batch_size",
        "checkpoint --keep",
        "serve --max_seconds",
        "vectors --dim",
    } <= FLAGS.keys()


@pytest.mark.parametrize(
    ("number_type", "text", "message"),
    [
        (number_types.positive, "2.5", "'2.5' is no whole number"),
        (number_types.port, "65536", "65536 is no port; give 0 to 65535"),
        (number_types.positive_number, "inf", "inf is not finite"),
        (number_types.non_negative_number, "nan", "nan is not finite"),
        (number_types.share, "1.5", "1.5 is too large; give a share of at most 1"),
    ],
)
def test_messages_say_what_to_give(number_type, text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        number_type(text)


def test_a_command_ends_with_a_message_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--checkpoint", "nowhere", "--batch_size", "0"]) == 2
    printed = capsys.readouterr().err
    assert "argument --batch_size: 0 is too small; give a whole number of at least 1" in printed
    assert "Traceback" not in printed
