"""Encodings of pages as browsers read them, with what Python's codecs of the same names lack."""

import pytest

from t5x_like.corpora.pages.page_encoding import decode_body


@pytest.mark.parametrize(
    ("label", "body", "text"),
    [
        # Checked with Node's TextDecoder, except EUC-KR, Big5 and windows-1252, for which it has other tables.
        ("shift_jis", b"\x87\x40\x87\x8a\x81\x60", "①㈱～"),
        ("x-sjis", "髙﨑".encode("cp932"), "髙﨑"),
        ("euc-kr", b"\x8c\x63\xb9\xe6\xb0\xa2\xc7\xcf", "똠방각하"),
        ("gbk", b"100\x80 \xd6\xec\xe9\x46", "100€ 朱镕"),
        ("gb2312", "朱镕基".encode("gbk"), "朱镕基"),
        ("big5", "香港嘅".encode("big5hkscs"), "香港嘅"),
        ("euc-jp", b"\xad\xa1\xad\xea\xc6\xfc", "①㈱日"),
        ("tis-620", b"\xa1\x93\x81", "ก“\x81"),
        ("x-mac-cyrillic", b"\x8f\xf0", "Пр"),
        ("windows-1251", "Привет".encode("cp1251") + b"\x98", "Привет\x98"),
        ("windows-1252", b"caf\xe9 \x81 \x93x\x94\x9d", "café \x81 “x”\x9d"),
        ("iso-8859-1", b"caf\xe9 \x9d", "café \x9d"),
        ("iso-2022-jp", "日本".encode("iso2022_jp"), "日本"),
    ],
)
@pytest.mark.parametrize("place", ["header", "meta"])
def test_characters_that_browsers_add_to_an_encoding_are_read(
    label: str, body: bytes, text: str, place: str
) -> None:
    if place == "header":
        assert decode_body(body, label)[::2] == (text, True)
        return
    meta = f'<!-- <meta charset="koi8-r"> --><META content="text/html; Charset={label}">'
    assert decode_body(meta.encode() + body, None)[0] == meta + text


def test_a_few_invalid_bytes_spoil_themselves_alone() -> None:
    arabic = "سلام عليكم ورحمة".encode("iso-8859-6")
    assert decode_body(arabic + b"\xff", "iso-8859-6")[0] == "سلام عليكم ورحمة\ufffd"
    korean = "안녕하세요 여러분 ".encode("cp949") * 5
    assert decode_body(b"<meta charset=euc-kr>" + korean + b"\xff.", None)[0].endswith("여러분 \ufffd.")
    cut = "Привет, мир. ".encode() * 3
    assert decode_body(cut[:-13], "utf-8")[0].endswith("мир. Прив\ufffd")


def test_a_mark_comes_before_the_header_and_the_header_before_the_page() -> None:
    assert decode_body(b"\xef\xbb\xbf" + "Привет".encode(), "cp1251")[0] == "Привет"
    assert decode_body(b'<meta charset="utf-8">caf\xe9', "windows-1252")[0].endswith("café")


@pytest.mark.parametrize(
    "meta",
    [
        '<meta property="og:title" content="Mojibake: charset=windows-1251">',
        '<meta http-equiv="refresh" content="0; url=/page?charset=koi8-r">',
        "<meta name=description content='text: charset=koi8-r'>",
        '<meta name="x" data-charset="koi8-r">',
        '<meta charset="unknown">',
    ],
)
def test_only_a_declaration_of_the_page_names_its_encoding(meta: str) -> None:
    assert decode_body(f"{meta}<meta charset=utf-8>Grüße".encode(), None)[0].endswith(">Grüße")
    assert decode_body(f"{meta}Grüße".encode(), None)[0].endswith(">Grüße")
    # Bytes that are UTF-8, too: only the second <meta> tells that they are not.
    assert decode_body(meta.encode() + b"<META/CHARSET = ' big5 '>\xc2\xa1", None)[0].endswith(">癒")


@pytest.mark.parametrize(
    "meta",
    [
        "<meta charset='big5'>",
        '<meta charset=big5 name="x">',
        "<META HTTP-EQUIV=Content-Type CONTENT='text/html; charset=\"big5\"'>",
        '<meta content="text/html;charset = big5" http-equiv="content-type">',
        '<meta http-equiv="Content-Type" content="charset=big5">',
        '<meta name="a>b" charset="big5">',
        "<meta charset=\"big5'>",
    ],
)
def test_declarations_are_read_however_they_are_written(meta: str) -> None:
    assert decode_body(meta.encode() + b"\xc2\xa1", None)[0].endswith(">癒")


def test_a_label_that_the_bytes_contradict_is_not_believed() -> None:
    assert decode_body("Привет”".encode(), "iso-8859-1") == ("Привет”", "utf-8", False)
    assert decode_body("café".encode("latin-1"), "utf-8")[::2] == ("café", False)
    # A page whose <meta> could be read is not UTF-16.
    assert decode_body('<meta charset="utf-16">é'.encode(), None)[0].endswith(">é")
