"""Preparation of the lists of bad words."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from data.prepare import naughty_words


def write_package(path: Path, version: str, lists: dict[str, list[str]]) -> Path:
    files = {name: json.dumps(terms) for name, terms in lists.items()}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {"package": json.dumps({"version": version}), **files}.items():
            _add(archive, f"package/{name}.json", content)
        _add(archive, "package/LICENSE", "license")
    return path


def _add(archive: tarfile.TarFile, name: str, content: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content.encode())
    archive.addfile(entry, io.BytesIO(content.encode()))


def test_english_is_taken_from_one_version_and_the_rest_from_another(tmp_path):
    lists = {language: [f"{language} "] for language in (*naughty_words._LANGUAGES, "fr-CA-u-sd-caqc", "en")}
    lists["fr"] = ["a", " b", "a"]
    naughty_words.prepare(write_package(tmp_path / "1.tgz", "1.0.2", {"en": ["old"]}), tmp_path / "out")
    naughty_words.prepare(write_package(tmp_path / "2.tgz", "1.2.0", lists), tmp_path / "out")
    written = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "out").glob("*.txt")}
    assert (written["en"], written["de"], written["fr"]) == ("old\n", "de\n", "a\nb\nfr-CA-u-sd-caqc\n")
    assert len(written) == 27
    assert (tmp_path / "out" / "LICENSE").read_text() == "license"


def test_another_version_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"of version 1.1.0; needed are 1.0.2 \(English\)"):
        naughty_words.prepare(write_package(tmp_path / "1.tgz", "1.1.0", {}), tmp_path / "out")
