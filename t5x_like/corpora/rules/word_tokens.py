"""Words and punctuation marks of a text as separate tokens, close to spaCy's tokenizer of English.

datatrove counts such tokens, FineWeb's rules of quality therefore too. spaCy takes a word between spaces, removes marks
from its start and end, and splits the rest at marks inside (https://spacy.io/usage/linguistic-features#how-tokenizer-works).
This module does the same with fewer exceptions: it knows contractions, elisions (l'ami) and a few abbreviations.
"""

import functools
import itertools
import re

# As in the normalizers of CCNet (Wenzek et al. 2020, https://aclanthology.org/2020.lrec-1.494) and datatrove.
ASCII_MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
OTHER_MARKS = "«´»–—’“”„…∶━►、。〈〉《》「」【】！％（），．：；？～"
CONTROLS = "".join(map(chr, [*range(32), *range(127, 160)]))

_QUOTES = "\"'`´‘’‚“”„»«「」『』（）〔〕【】《》〈〉"
_MARKS = f"…,:;!?¿¡()[]{{}}<>_#*&。，、；：~·।؟%§{_QUOTES}"
_START = re.compile(rf"\.{{2,}}|\+(?![0-9])|[=–—$£€¥₹]|[{re.escape(_MARKS)}]")
_END = re.compile(
    rf"(?:\.{{2,}}|['’][sS]|[–—]|[{re.escape(_MARKS)}]|(?<=[0-9])\+"
    r"|(?<=[0-9])(?:[$£€¥₹]|km|m|cm|mm|kg|g|mg|lb|oz|in|ft|mph|km/h|[KMGT]B|[kmgt]b)"
    rf"|(?<=[0-9a-zà-ÿ%²+{re.escape(_QUOTES)})\]])\.|(?<=[A-Z][A-Z])\.)\Z"
)
_INSIDE = re.compile(
    r"\.{2,}|…|(?<=[0-9])[-+*^](?=[0-9-])|(?<=[a-zà-ÿ\"'])\.(?=[A-Z\"'])|(?<=[^\W\d_]),(?=[^\W\d_])"
    r"|(?<=[^\W_])(?:-{1,3}|–|—{1,2}|~)(?=[^\W\d_])|(?<=[^\W_])[:<>=/](?=[^\W\d_])"
)
_WHOLE = re.compile(r"(?:[^\W\d_]\.)+|(?:Mr|Mrs|Ms|Dr|Prof|Jr|Sr|St|vs|Inc|Ltd|Co|Corp)\.", re.ASCII)
_URL = re.compile(
    r"(?:(?:https?|ftp)://|www\.)\S+|[^\s@]+@[\w-]+(?:\.[\w-]+)+|[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|edu|gov)(?:/\S*)?"
)
_CONTRACTION = re.compile(r"(.+?)(n['’]t|['’](?:re|ve|ll|d|m|RE|VE|LL|D|M))\Z|((?i:can))((?i:not))\Z")
_ELISION = re.compile(r"(?:[ldjmnstc]|jusqu|lorsqu|puisqu|qu)['’](?=[^\W\d_]{2})", re.IGNORECASE)
_MAX_EXCEPTION = 30  # characters of an abbreviation or contraction
_MAX_END = 50  # characters that a mark at a word's end is looked for in; dots may be many
_MAX_LONG = 200  # characters of a word that is cached


def split_tokens(text: str) -> list[str]:
    """Return words and marks in order.

    >>> split_tokens("Don't (ever) stop.")
    ['Do', "n't", '(', 'ever', ')', 'stop', '.']
    """
    return list(
        itertools.chain.from_iterable(_cached(w) if len(w) < _MAX_LONG else _split(w) for w in text.split())
    )


def _split(word: str) -> tuple[str, ...]:
    before: list[str] = []
    after: list[str] = []
    start, end = 0, len(word)
    while start < end and not _is_exception(word, start, end):
        if mark := _START.match(word, start, end) or _ELISION.match(word, start, end):
            before.append(mark[0])
            start = mark.end()
        elif mark := _END.search(word, max(start, end - _MAX_END), end):
            after.append(mark[0])
            end = mark.start()
        else:
            break
    return (*before, *_inside(word[start:end]), *reversed(after))


def _is_exception(word: str, start: int, end: int) -> bool:
    """Return True if marks at the ends of this part belong to it; only short parts are."""
    if end - start > _MAX_EXCEPTION:
        return False
    return bool(_WHOLE.fullmatch(word, start, end) or _CONTRACTION.match(word, start, end))


def _inside(word: str) -> list[str]:
    contraction = _CONTRACTION.match(word) if len(word) <= _MAX_EXCEPTION else None
    if contraction:
        return [part for part in contraction.groups() if part]
    if word.isalnum() or _WHOLE.fullmatch(word) or _URL.fullmatch(word):
        return [word]
    parts, position = [], 0
    for mark in _INSIDE.finditer(word):
        parts += (word[position : mark.start()], mark[0])
        position = mark.end()
    return [part for part in (*parts, word[position:]) if part]


_cached = functools.lru_cache(maxsize=1 << 16)(_split)
