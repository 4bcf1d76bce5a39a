"""Documentation in formats of its own, as HTML or text files that a corpus is built from.

Formats: dictionaries of dictd (dictd(8)), Perl's POD (perlpod(1)), GNOME's Mallard (http://projectmallard.org), and
DocBook (https://docbook.org).
"""

import gzip
import re
from collections.abc import Iterator, Mapping
from html import escape

ENTRIES_PER_PAGE = 50  # of a dictionary

_BASE64 = {
    letter: value
    for value, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}


def dictionary_pages(index: bytes, content: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and text of a dictionary's pages: ``ENTRIES_PER_PAGE`` entries in the order of the dictionary.

    Args:
      index: Lines of headword, offset and size, these in dictd's base 64.
      content: Entries, compressed by dictzip, which is gzip.
    """
    entries = gzip.decompress(content)
    rows = [line.split("\t") for line in index.decode("utf-8", "replace").splitlines()]
    places = {
        (_number(row[1]), _number(row[2])) for row in rows if len(row) >= 3 and not row[0].startswith("00")
    }
    texts = [
        entries[start : start + size].decode("utf-8", "replace").strip() for start, size in sorted(places)
    ]
    for first in range(0, len(texts), ENTRIES_PER_PAGE):
        page = "\n\n".join(texts[first : first + ENTRIES_PER_PAGE])
        yield f"{first // ENTRIES_PER_PAGE:05d}.txt", _MARKS.sub("", page) + "\n"


# Braces around references, pronunciations between backslashes, and where an entry of GCIDE comes from.
_MARKS = re.compile(r"[{}]| *\\[^\\\n]{1,60}\\| *\[[^\]\n]*(?:Webster|WordNet|PJC|Century)[^\]\n]*\]")


def _number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 64 + _BASE64[letter]
    return number


_POD_LINK = re.compile(r"L<(?:([^<>|]*)\|)?([^<>]*)>")
_POD_CODE = re.compile(r"[BCFIS]<([^<>]*)>")
_POD_DOUBLE = re.compile(r"[BCFI]<< +(.*?) +>>", re.DOTALL)
# Brackets wait as control characters until the codes around them are gone.
_POD_ESCAPES = {"lt": "\x01", "gt": "\x02", "sol": "/", "verbar": "|"}
_POD_BRACKETS = str.maketrans({"\x01": "<", "\x02": ">"})


def pod_as_html(pod: str) -> str:
    """Return the prose of a POD file; verbatim paragraphs and blocks for other formats are left out."""
    parts, skipped = [], False
    for paragraph in re.split(r"\n[ \t]*\n", pod.replace("\r\n", "\n")):
        text = paragraph.strip("\n")
        if not text or text[0].isspace():
            continue
        if text.startswith("="):
            command, _, rest = (
                text[1:].partition(" ") if " " in text.split("\n")[0] else text[1:].partition("\n")
            )
            if command in ("begin", "for", "end"):
                skipped = command == "begin"
                continue
            if command in ("head1", "head2", "head3", "head4", "item") and not skipped:
                parts.append(_pod_block("h2" if command != "item" else "li", rest))
            continue
        if not skipped:
            parts.append(_pod_block("p", text))
    return "".join(parts)


def _pod_block(tag: str, text: str) -> str:
    text = " ".join(text.split())
    text = re.sub(r"[XZ]<[^<>]*>", "", text)
    text = re.sub(r"E<(\w+)>", lambda match: _POD_ESCAPES.get(match[1], ""), text)
    text = _POD_DOUBLE.sub(lambda match: match[1].replace("<", "\x01").replace(">", "\x02"), text)
    for _ in range(4):  # formats may be nested
        text = _POD_LINK.sub(lambda match: match[1] or match[2].replace("/", " "), text)
        text = _POD_CODE.sub(r"\1", text)
    return f"<{tag}>{escape(text.translate(_POD_BRACKETS))}</{tag}>\n"


_AS_HTML: Mapping[str, str] = {
    "para": "p",
    "simpara": "p",
    "title": "h2",
    "subtitle": "h2",
    "term": "h3",
    "listitem": "div",
    "item": "div",
    "programlisting": "pre",
    "screen": "pre",
    "synopsis": "pre",
    "code": "code",
    "desc": "nav",
    "info": "nav",
    "bookinfo": "nav",
    "articleinfo": "nav",
    "credit": "nav",
    "links": "nav",
    "comment": "nav",
    "remark": "nav",
}
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)([^<>]*?)(/?)>")
_PROLOGUE = re.compile(r"<\?.*?\?>|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>|<!--.*?-->", re.DOTALL)
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\w+);)[\w.-]+;")


def xml_as_html(xml: str) -> str:
    """Return a DocBook or Mallard page as HTML: its blocks get the names of HTML's, other elements stay unknown.

    ``<code>`` that holds lines is a listing in Mallard, and becomes ``<pre>``.
    """
    text = _ENTITY.sub("", _PROLOGUE.sub("", xml))
    text = re.sub(r"<code([^<>]*)>([^<>]*\n[^<>]*)</code>", r"<pre>\2</pre>", text)

    def renamed(match: re.Match[str]) -> str:
        closing, name, _, empty = match.groups()
        name = _AS_HTML.get(name.lower(), name)
        if name in ("page", "section", "sect1", "sect2", "sect3", "chapter", "book", "article", "note"):
            name = "div"
        if empty:
            return ""
        return f"<{closing}{name}>"

    return f"<!DOCTYPE html><meta charset='utf-8'><body>{_TAG.sub(renamed, text)}</body>"
