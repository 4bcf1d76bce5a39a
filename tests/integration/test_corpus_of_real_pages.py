"""Real HTML, which Debian's package python3.11-doc installs: from the command line to the report."""

import io
import json
from pathlib import Path

import pytest
import zstandard

from t5x_like.cli.main import main

PAGES = Path("/usr/share/doc/python3.11/html/library")
MENU = "The Python Software Foundation is a non-profit corporation."


def test_pages_of_documentation_become_a_corpus_without_their_menus(tmp_path, capsys):
    if not PAGES.is_dir():
        pytest.skip(f"needs {PAGES}: apt-get install python3.11-doc")
    output = str(tmp_path / "corpus")
    build = ["corpus", "build", "--recipe", "gin/corpora/c4_en.gin", "--input", str(PAGES / "as*.html")]
    assert main([*build, "--output", output, "--workers", "1"]) == 0
    assert main(["corpus", "report", output]) == 0
    assert "MB in 1 shard" in capsys.readouterr().out
    shard = next((tmp_path / "corpus").glob("train-*.jsonl.zst"))
    content = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(shard.read_bytes())).read()
    rows = [json.loads(line) for line in content.splitlines()]
    assert len(rows) > len(list(PAGES.glob("as*.html"))) // 2
    assert {row["language"] for row in rows} == {"en"}
    lines = [line for row in rows for line in row["text"].split("\n")]
    assert all(line.endswith((".", "?", "!", '"')) for line in lines)
    assert sum(MENU in line for line in lines) == 1  # each page has it
    assert MENU in (tmp_path / "corpus" / "report.html").read_text()
