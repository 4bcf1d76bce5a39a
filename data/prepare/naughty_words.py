"""The word lists that C4 was cleaned with: one file for each language, one term on each line.

python -m data.prepare.naughty_words --package naughty-words-1.0.2.tgz --output data/bad_words
python -m data.prepare.naughty_words --package naughty-words-1.2.0.tgz --output data/bad_words
"""

import json
import os
from pathlib import Path

from data.prepare.packages import read_member
from data.prepare.preparation import prepare_from_command_line
from t5x_like.io.files import write_bytes, write_text

# C4's English list is of commit 25e679f, which 1.0.2 has; mC4's others are later ones.
_ENGLISH, _OTHERS = "1.0.2", "1.2.0"
# fmt: off
_LANGUAGES = (
    "ar", "cs", "da", "de", "eo", "es", "fa", "fi", "fil", "fr", "hi", "hu", "it",
    "ja", "kab", "ko", "nl", "no", "pl", "pt", "ru", "sv", "th", "tlh", "tr", "zh",
)
# fmt: on
_JOINED = {"fr": ("fr", "fr-CA-u-sd-caqc")}


def prepare(package: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Write ``en.txt`` from version 1.0.2, or the other languages' lists and the license from 1.2.0.

    Args:
      package: npm's naughty-words package.
      output: Folder of the lists.

    Raises:
      ValueError: The package has another version.
    """
    version = json.loads(read_member(package, "package/package.json"))["version"]
    if version not in (_ENGLISH, _OTHERS):
        raise ValueError(
            f"{package} is of version {version}; needed are {_ENGLISH} (English) and {_OTHERS} (the rest)"
        )
    for language in ("en",) if version == _ENGLISH else _LANGUAGES:
        terms: dict[str, None] = {}  # a set that keeps the order
        for name in _JOINED.get(language, (language,)):
            terms.update(
                (term.strip(), None) for term in json.loads(read_member(package, f"package/{name}.json"))
            )
        write_text(Path(output) / f"{language}.txt", "".join(f"{term}\n" for term in terms))
    if version == _OTHERS:
        write_bytes(Path(output) / "LICENSE", read_member(package, "package/LICENSE"))


if __name__ == "__main__":
    prepare_from_command_line(
        prepare, about=__doc__, package="npm's naughty-words (npm pack naughty-words@1.0.2, and @1.2.0)"
    )
