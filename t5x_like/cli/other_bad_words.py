"""Bad words that somebody wants to try, in place of a recipe's."""

import dataclasses
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from t5x_like.corpora.rules.bad_words import BadWords
from t5x_like.corpora.rules.languages import Languages
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.paths import find_file


@contextmanager
def with_bad_words(steps: Sequence[Any], file: str | None) -> Iterator[Sequence[Any]]:
    """The steps, looking for the terms in ``file`` (None: for their own).

    ``file`` is what ``BadWords.lists`` may be, or a list for every language that the steps keep, whatever its name.

    Raises:
      UserError: there is no such file, none of the steps looks for bad words, or the list's language isn't known.
    """
    if file is None:
        yield steps
        return
    if not any(isinstance(step, BadWords) for step in steps):
        raise UserError("--bad_words: no step of the recipe looks for bad words")
    path = Path(find_file(file))
    kept = [code for step in steps if isinstance(step, Languages) for code in step.keep or ()]
    with tempfile.TemporaryDirectory(prefix="bad_words_") as folder:
        lists = str(path)
        if not _tells_language(path, kept):
            content = path.read_bytes()  # once: it may be a pipe
            for language in kept:
                (Path(folder) / f"{language}{'.json' if path.suffix == '.json' else '.txt'}").write_bytes(
                    content
                )
            lists = folder
        yield [
            dataclasses.replace(step, lists=lists) if isinstance(step, BadWords) else step for step in steps
        ]


def _tells_language(path: Path, kept: Sequence[str]) -> bool:
    """Whether the file says which languages its terms are of, or nothing else does."""
    if path.is_dir() or path.stem in kept or not kept:
        return True
    if path.suffix != ".json":
        return False
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except ValueError as error:
        raise UserError(f"--bad_words {path}: invalid JSON: {error}") from None
