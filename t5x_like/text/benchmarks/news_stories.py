"""CNN's and the Daily Mail's story files, as TensorFlow Datasets makes articles and highlights of them.

``cnn_dailymail/url_lists/all_train.txt`` lists the addresses of a split; a story's file is named by the SHA-1 of its
address: ``cnn_dailymail/cnn/stories/….story``, ``cnn_dailymail/dailymail/stories/….story``.
"""

import hashlib
import os
from collections.abc import Iterator

from t5x_like.io.files import as_path
from t5x_like.text.tasks.rows import Bad, RawRow, decode_line, lines_of

_HIGHLIGHT = "@highlight"
# What ends a line; others are given a full stop (See et al. 2017, https://github.com/abisee/cnn-dailymail).
_ENDS = (".", "!", "?", "...", "'", "`", '"', "’", "”", ")")
_FOLDERS = ("cnn/stories", "dailymail/stories", "cnn_stories", "dailymail_stories", "stories")


def read_stories(file: str, split: str) -> Iterator[RawRow | Bad]:
    """The stories of a list of addresses, in its order. See ``source.Reader``."""
    del split
    above = os.path.dirname(file)
    roots = [above, os.path.dirname(above)]
    for number, line in lines_of(file):
        place = f"{file}:{number}"
        url = decode_line(line, file, number)
        if isinstance(url, Bad):
            yield url
        elif url.strip():
            yield _story(url.strip(), roots, place)


def _story(url: str, roots: list[str], place: str) -> RawRow | Bad:
    name = f"{hashlib.sha1(url.encode()).hexdigest()}.story"
    for path in (f"{root}/{folder}/{name}" for root in roots for folder in _FOLDERS):
        if as_path(path).exists():
            try:
                article, highlights = parts_of(as_path(path).read_bytes().decode("utf-8"))
            except UnicodeDecodeError as error:
                return Bad(f"{path}: invalid UTF-8 at byte {error.start}", place)
            return RawRow({"article": article, "highlights": highlights}, place)
    return Bad(
        f"no file {name} for {url} in {', '.join(f'{roots[-1]}/{folder}' for folder in _FOLDERS[:2])}; unpack "
        "cnn_stories.tgz and dailymail_stories.tgz there",
        place,
    )


def parts_of(story: str) -> tuple[str, str]:
    """The article, its lines joined by spaces, and its highlights, a line each."""
    article, highlights, is_highlight = [], [], False
    for line in story.split("\n"):
        line = line.strip()
        if line.startswith(_HIGHLIGHT):
            is_highlight = True
        elif line:
            whole = line if line.endswith(_ENDS) or _HIGHLIGHT in line else f"{line}."
            (highlights if is_highlight else article).append(whole)
    return " ".join(article), "\n".join(highlights)
