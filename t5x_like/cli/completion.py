"""Print a script that lets a shell complete verbs, flags and their choices with the tab key.

source <(t5x-like completion bash)       in ~/.bashrc
source <(t5x-like completion zsh)        in ~/.zshrc
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from t5x_like.cli.main import VERBS, parser_of

_BASH = """_t5x_like() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} words=
  if ((COMP_CWORD == 1)); then
    words="{verbs}"
  else
    case "${{verb}} ${{COMP_WORDS[2]}} " in
{words}
    esac
    case "${{verb}} ${{before}}" in
{choices}
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "${{words}}" -- "${{word}}")
}}
complete -o default -F _t5x_like t5x-like
"""
# bashcompinit needs compinit, which a plain .zshrc may lack.
_ZSH = """(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""


class _Completions(NamedTuple):
    """Words that may follow ``t5x-like VERB`` or ``t5x-like VERB INNER``, and the choices of its flags."""

    path: str
    words: list[str]
    choices: dict[str, list[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like completion``."""
    parser.add_argument("shell", choices=["bash", "zsh"])


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    completions = [each for verb in VERBS for each in _completions(parser_of(verb), verb)]
    longest_first = sorted(completions, key=lambda each: -each.path.count(" "))
    words = [f'      "{each.path} "*) words="{" ".join(each.words)}" ;;' for each in longest_first]
    choices = {
        f"{each.path.split()[0]} {flag}": values
        for each in completions
        for flag, values in each.choices.items()
    }
    script = _BASH.format(
        verbs=" ".join(VERBS),
        words="\n".join(words),
        choices="\n".join(f'      "{key}") words="{" ".join(values)}" ;;' for key, values in choices.items()),
    )
    print(_ZSH + script.replace(_MAPFILE, _ZSH_REPLY) if arguments.shell == "zsh" else script, end="")
    return 0


# zsh has no mapfile.
_MAPFILE = 'mapfile -t COMPREPLY < <(compgen -W "${words}" -- "${word}")'
_ZSH_REPLY = 'COMPREPLY=($(compgen -W "${words}" -- "${word}"))'


def _completions(parser: argparse.ArgumentParser, path: str) -> Iterator[_Completions]:
    """Yield the words of a parser, then those of its inner parsers."""
    words: list[str] = []
    choices: dict[str, list[str]] = {}
    for action in parser._actions:
        words += [flag for flag in action.option_strings if flag != "--gin.NAME"]
        if isinstance(action.choices, dict):
            words += action.choices
            for name, inner in action.choices.items():
                yield from _completions(inner, f"{path} {name}")
        elif action.choices and action.option_strings:
            choices |= {flag: list(map(str, action.choices)) for flag in action.option_strings}
        elif action.choices:
            words += map(str, action.choices)
    yield _Completions(path, words, choices)
