"""A rule that masks personal data: e-mail addresses, telephone numbers, public IP addresses.

It uses patterns only, so it finds data in their usual form, not all of it (Soldaini et al. 2024, §5.3,
https://arxiv.org/abs/2402.00159, which also defines the masks). It doesn't find names and postal addresses.
"""

import ipaddress
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped

_MAX_LOCAL = 64  # characters before the @ (RFC 5321, §4.5.3.1.1)
_LOCAL = string.ascii_letters + string.digits + "._%+'-"
_DOMAIN = re.compile(r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])")
_FILE_ENDINGS = ("png", "jpg", "jpeg", "gif", "svg", "webp", "pdf", "css", "js")  # icon@2x.png is no address

_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{1,4}:[0-9A-Fa-f:.]{1,44}(?!\w)")
_VERSION = re.compile(
    r"(?:version|ver\.?|v\.?|release|build|firmware|section|chapter|§)[ :#]{0,2}\Z", re.IGNORECASE
)

# Area code and exchange begin with 2 to 9 (North American Numbering Plan); the same mark separates them.
_NORTH_AMERICAN = re.compile(
    r"(?<![\w.+/(-])(?:\+?1[ .-])?"
    r"(?:\([2-9]\d\d\) ?[2-9]\d\d[ .-]\d{4}|[2-9]\d\d([ .-])[2-9]\d\d\1\d{4})(?![\w/-]|\.\d)"
)
_INTERNATIONAL = re.compile(r"(?<![\w+])(?:\+|00(?=[1-9]))[1-9][\d ()./\xa0-]{6,26}")
_DIGITS = re.compile(r"\(?\d[\d ()./\xa0-]{4,22}")
_ANNOUNCED = re.compile(
    r"\b(?:tele(?:ph|f)one?|phone|tel|fax|mobile?|cell|call|whatsapp|sms)\.?:?[ \xa0]{0,3}\Z", re.IGNORECASE
)
_DATE = re.compile(r"(?:\d{4}([-./])\d\d?\1\d\d?|\d\d?([-./])\d\d?\2\d{2,4})(?!\d)")
_THOUSANDS = re.compile(r"\+?[1-9]\d{0,2}(?:[ .\xa0]000)+\Z")
_GROUP = re.compile(r"\(?\d+\)?")


class _Found(NamedTuple):
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class MaskPersonalData:
    """Replaces each e-mail address, telephone number and public IP address by a mask.

    Telephone numbers are those in international form (+49 30 …), in North American form, or after a word such as
    "phone". IP addresses are public ones (not 192.168.…) that aren't announced as a version and aren't four single
    digits, like section numbers.

    Attributes:
      email: Mask of e-mail addresses; None leaves them.
      phone: Mask of telephone numbers; None leaves them.
      ip: Mask of IP addresses; None leaves them.
      max_masks: Most masks on a page; pages with more are dropped, in Dolma those with more than five. None keeps all.

    Raises:
      ValueError: ``max_masks`` is negative.
    """

    NAME: ClassVar[str] = "personal-data"
    VERSION: ClassVar[int] = 1

    email: str | None = "|||EMAIL_ADDRESS|||"
    phone: str | None = "|||PHONE_NUMBER|||"
    ip: str | None = "|||IP_ADDRESS|||"
    max_masks: int | None = None

    def __post_init__(self) -> None:
        if self.max_masks is not None and self.max_masks < 0:
            raise ValueError(
                f"MaskPersonalData.max_masks is {self.max_masks}; give 0 or more, or None to keep all pages"
            )

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the masked page, or ``filtered:personal_data``.

        Args:
          page: The page.
          counts: Receives ``masked:email``, ``masked:ip`` and ``masked:phone``, also of pages that are dropped.
        """
        text, total = page.text, 0
        for kind, mask, find in (
            ("email", self.email, find_emails),
            ("ip", self.ip, find_ips),
            ("phone", self.phone, find_phones),
        ):
            if mask is not None:
                text, num_masked = _mask(text, find, mask)
                if num_masked:
                    counts[f"masked:{kind}"] += num_masked
                    total += num_masked
        if self.max_masks is not None and total > self.max_masks:
            return Dropped("filtered:personal_data")
        return page if text == page.text else page._replace(text=text)


def _mask(text: str, find: Callable[[str], Iterator[_Found]], mask: str) -> tuple[str, int]:
    parts: list[str] = []
    end = num_masked = 0
    for span in sorted(find(text)):
        if span.start < end:
            continue
        parts += (text[end : span.start], mask)
        end = span.end
        num_masked += 1
    return ("".join(parts) + text[end:], num_masked) if num_masked else (text, 0)


def find_emails(text: str) -> Iterator[_Found]:
    """Yield e-mail addresses in their usual form: ASCII letters, and a domain with a dot."""
    at = text.find("@")
    while at >= 0:
        window = text[max(0, at - _MAX_LOCAL - 1) : at]
        local = window[len(window.rstrip(_LOCAL)) :].lstrip(".'")
        domain = _DOMAIN.match(text, at + 1) if 0 < len(local) <= _MAX_LOCAL else None
        if domain and domain[0].rpartition(".")[2].lower() not in _FILE_ENDINGS:
            yield _Found(at - len(local), domain.end())
        at = text.find("@", at + 1)


def find_ips(text: str) -> Iterator[_Found]:
    """Yield public IP addresses of version 4 or 6."""
    for match in _IPV4.finditer(text):
        if (
            len(match[0]) > 7
            and _is_public(match[0])
            and not _VERSION.search(text[max(0, match.start() - 12) : match.start()])
        ):
            yield _Found(match.start(), match.end())
    for match in _IPV6.finditer(text) if "::" in text or text.count(":") >= 7 else ():
        address = match[0].rstrip(".")
        if not address.endswith("::"):
            address = address.rstrip(":")
        if address.count(":") >= 2 and _is_public(address):
            yield _Found(match.start(), match.start() + len(address))


def _is_public(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if parsed.version == 6 and int(parsed) >> 125 != 1:  # outside 2000::/3 nothing is assigned
        return False
    return parsed.is_global and not parsed.is_multicast


def find_phones(text: str) -> Iterator[_Found]:
    """Yield telephone numbers, recognized by their form or by the word before them."""
    for match in _NORTH_AMERICAN.finditer(text):
        yield _Found(match.start(), match.end())
    for match in _INTERNATIONAL.finditer(text):
        yield from _number(text, match.start(), match.end(), least=9)
    for match in _DIGITS.finditer(text):
        if _ANNOUNCED.search(text[max(0, match.start() - 16) : match.start()]):
            yield from _number(text, match.start(), match.end(), least=6)


def _number(text: str, start: int, end: int, *, least: int) -> Iterator[_Found]:
    """Yield the groups of digits from ``start``, if they are a number of at most 15 digits (ITU-T E.164)."""
    digits, last = 0, start
    for group in _GROUP.finditer(text, start, end):
        size = sum(map(str.isdigit, group[0]))
        if digits + size > 15:
            break
        digits, last = digits + size, group.end()
    number = text[start:last]
    if digits < least or _DATE.match(number) or _THOUSANDS.match(number):
        return
    if last < len(text) and (text[last].isalnum() or text[last] == "_"):
        return
    yield _Found(start, last)
