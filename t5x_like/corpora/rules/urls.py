"""What makes two addresses the same page."""

import hashlib
import re

_PROTOCOL = re.compile(r"https?://(?:www\.)?")
_TRACKING = re.compile(r"\?(?:utm_|ref|feed).*")


def normalise_url(url: str) -> str:
    """The address without protocol, ``www.``, what follows a tracking parameter, and closing slashes.

    As C4's builder does it (TensorFlow Datasets, text/c4_utils.py): lower case ``http`` only, a tracking parameter
    only where it comes first, and a protocol anywhere in the address, as in those of web archives.

    >>> normalise_url("https://www.example.org/a/?utm_source=news")
    'example.org/a'
    """
    return _TRACKING.sub("", _PROTOCOL.sub("", url)).rstrip("/")


def url_digest(normalised_url: str) -> bytes:
    """16 bytes, the md5 of a normalised address: pages are put in its order and cut by it into splits."""
    return hashlib.md5(normalised_url.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
