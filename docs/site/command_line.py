"""The page of commands and flags, from the parsers themselves."""

import argparse

from t5x_like.cli.main import VERBS, parser_of

INTRODUCTION = """# Command line

This page is made from the parsers; `t5x-like COMMAND --help` prints the same.

`--set NAME=value` gives a value of a recipe, and `--model_dir` the run directory; [gin macros](gin_macros.md) lists the
names. A mistake ends with exit code 2 and one message, an interrupted command with 130.

"""


def pages() -> dict[str, str]:
    """Return the page of all commands."""
    sections = "\n".join(_command(verb) for verb in VERBS)
    return {"reference/command_line.md": INTRODUCTION + sections}


def _command(verb: str) -> str:
    parser = parser_of(verb)
    return f"## {verb}\n\n```text\n{(parser.description or '').strip()}\n```\n\n{_flags(parser)}"


def _flags(parser: argparse.ArgumentParser, level: int = 3) -> str:
    """Return tables of the parser's arguments and of its sub-commands'."""
    lines, inner = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                summary = summaries.get(name, "")
                inner.append(
                    f"{'#' * level} {sub.prog.removeprefix('t5x-like ')}\n\n{summary}\n\n{_flags(sub, level + 1)}"
                )
        elif not isinstance(action, argparse._HelpAction) and action.help != argparse.SUPPRESS:
            lines.append(f"| {_spelling(action)} | {_meaning(action)} |")
    table = "\n".join(["| argument | meaning |", "|---|---|", *lines, ""]) if lines else ""
    return "\n".join([table, *inner])


def _spelling(action: argparse.Action) -> str:
    """Return the argument as it is typed, such as ``--gin_file FILE``."""
    value = ""
    if action.nargs != 0:
        metavar = action.metavar or "|".join(map(str, action.choices or [])) or action.dest.upper()
        value = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    names = ", ".join(action.option_strings)
    joined = f"{names}={value}" if names.endswith(".NAME") else f"{names} {value}".strip()
    return f"`{joined}`"


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "") % (vars(action) | {"prog": "t5x-like"})
    if action.required and action.option_strings:
        text += " (required)"
    elif action.option_strings and action.default not in (None, False, "", [], 0, argparse.SUPPRESS):
        text += f" (default `{action.default}`)" if "default" not in text else ""
    for sign in "<>*_|[]":
        text = text.replace(sign, f"\\{sign}") if sign != "_" or "`" not in text else text
    return " ".join(text.split())
