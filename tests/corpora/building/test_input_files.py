"""Folders as input: which files are read, under which address, and what is left out."""

import gzip
import os
from pathlib import Path

import pytest

from t5x_like.cli.main import USER_ERROR, main
from t5x_like.corpora.building.build import build_corpus
from t5x_like.corpora.building.input_files import BATCH_BYTES, describe_left_out, find_input
from t5x_like.corpora.pages.page_reader import PageReaderConfig
from t5x_like.corpora.rules.prose import ProseLines
from tests.corpora.building.tiny import build, contents, recipe, rows, step

PAGES = {
    "index.html": b"<meta charset=latin-1><title>t</title><p>A caf\xe9 by the sea.",
    "guide/first.md": b"# Guide\n\nA *first* step\nof two.\n\n```\ncode()\n```\n",
    "guide/second.txt.gz": gzip.compress("Plain – text.".encode()),
    "guide/deep/er/third.htm": "<p>Dritte Seite: größer.".encode(),
    "notes.TXT": b"Upper case endings count.",
}
TEXTS = {
    "manual/index.html": "A café by the sea.",
    "manual/guide/first.md": "Guide\n\nA first step of two.",
    "manual/guide/second.txt.gz": "Plain – text.",
    "manual/guide/deep/er/third.htm": "Dritte Seite: größer.",
    "manual/notes.TXT": "Upper case endings count.",
}
OTHERS = {
    ".git/config.txt": b"hidden",
    ".hidden.html": b"<p>hidden",
    "logo.png": b"\x89PNG",
    "style.css": b"p",
    "Makefile": b"all:",
    "empty.html": b"",
}


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    folder = tmp_path / "somewhere" / "manual"
    for name, content in {**PAGES, **OTHERS}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def texts(output: Path) -> dict[str, str]:
    return {row["url"]: row["text"] for row in rows(output)}


def test_a_folder_is_read_as_html_markdown_and_text_with_paths_as_addresses(manual: Path, tmp_path: Path):
    manifest = build(str(manual), tmp_path / "out")
    assert texts(tmp_path / "out") == TEXTS
    assert manifest["input"]["files"] == len(PAGES)
    assert manifest["input"]["left out"] == {
        "hidden": 2,
        ".css": 1,
        ".png": 1,
        "empty": 1,
        "no ending": 1,
    }


def test_the_corpus_does_not_depend_on_where_the_folder_lies_or_on_workers(manual: Path, tmp_path: Path):
    build(str(manual), tmp_path / "out")
    moved = tmp_path / "elsewhere" / "manual"
    moved.parent.mkdir()
    manual.rename(moved)
    build(str(moved) + "/", tmp_path / "again", workers=2)
    assert contents(tmp_path / "again") == contents(tmp_path / "out")
    assert build_corpus(recipe(), str(moved), tmp_path / "out", progress=False).was_finished


def test_links_are_not_followed_so_that_no_file_is_read_twice_or_outside(manual: Path, tmp_path: Path):
    (tmp_path / "outside.txt").write_text("A secret of somebody else.")
    (manual / "outside.txt").symlink_to(tmp_path / "outside.txt")
    (manual / "again.html").symlink_to(manual / "index.html")
    (manual / "guide/loop").symlink_to(manual)
    (manual / "nowhere.md").symlink_to(manual / "absent.md")
    os.mkfifo(manual / "pipe.txt")
    manifest = build(str(manual), tmp_path / "out")
    assert texts(tmp_path / "out") == TEXTS
    assert manifest["input"]["left out"]["symbolic link"] == 4
    assert manifest["input"]["left out"]["not a regular file"] == 1


def test_a_folder_that_is_a_link_itself_and_a_folder_below_another_are_read_once(
    manual: Path, tmp_path: Path
):
    (tmp_path / "link").symlink_to(manual)
    build_input = find_input(
        [str(tmp_path / "link"), str(manual), str(manual / "guide"), str(manual / "notes.TXT")]
    )
    assert len(build_input.files) == len(PAGES)
    named = [file.address for file in build_input.files if file.path.endswith("notes.TXT")]
    assert named == [None]


def test_small_files_share_a_task_and_large_ones_have_their_own(tmp_path: Path):
    for name, size in {"a": 1, "b": BATCH_BYTES - 1, "c": 1, "d": BATCH_BYTES + 1, "e": 2}.items():
        with (tmp_path / f"{name}.txt").open("wb") as file:
            file.truncate(size)
    batches = find_input(str(tmp_path)).batches()
    assert [[Path(file.path).stem for file in batch.files] for batch in batches] == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e"],
    ]
    assert [batch.first for batch in batches] == [0, 2, 3, 4]
    named = find_input([str(tmp_path / "a.txt"), str(tmp_path / "c.txt")]).batches()
    assert [len(batch.files) for batch in named] == [1, 1]


def test_the_kind_chooses_the_files_of_a_folder(manual: Path):
    (manual / "rows.jsonl").write_text('{"text": "A row."}\n')
    names = {
        kind: [Path(file.path).name for file in find_input(str(manual), kind).files]
        for kind in ("jsonl", "markdown", "lines")
    }
    assert names == {
        "jsonl": ["rows.jsonl"],
        "markdown": ["first.md"],
        "lines": ["second.txt.gz", "notes.TXT"],
    }


def test_names_that_are_not_unicode_are_read(tmp_path: Path):
    folder = tmp_path / "manual"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("A page of text.")
    build(str(folder), tmp_path / "out")
    assert texts(tmp_path / "out") == {"manual/caf\ufffd.txt": "A page of text."}


def test_text_that_is_not_utf8_is_damage_that_names_the_file(manual: Path, tmp_path: Path):
    (manual / "latin.txt").write_bytes(b"Caf\xe9 with an accent.")
    with pytest.raises(ValueError, match=r"manual/latin\.txt.*invalid UTF-8 at byte 3"):
        build(str(manual), tmp_path / "fails")
    manifest = build(str(manual), tmp_path / "out", reading=PageReaderConfig(on_corruption="skip"))
    assert manifest["reading"]["damaged"] == 1
    assert manifest["reading"]["counts"]["split-text-file:damaged:invalid_utf8"] == 1
    assert texts(tmp_path / "out")["manual/latin.txt"] == "Caf\ufffd with an accent."


def test_a_rule_that_fails_names_the_file_of_the_folder(manual: Path, tmp_path: Path):
    (manual / "guide/bad.txt").write_text("explode")
    with pytest.raises(ValueError, match=r"guide/bad\.txt, page 0: .*boom.*page manual/guide/bad\.txt"):
        build(str(manual), tmp_path / "out")


RECIPE = ("--recipe", "gin/corpora/wikipedia.gin", "--workers", "1")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "is a folder without a file to read"),
        (("a.png", ".b.txt"), "left out: 1 .png, 1 hidden"),
        (("rows.jsonl",), "/*.jsonl'"),
    ],
)
def test_a_folder_without_a_document_ends_with_a_message(tmp_path: Path, capsys, names, message: str):
    folder = tmp_path / "manual"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("content")
    arguments = ["corpus", "build", *RECIPE, "--input", str(folder), "--output", str(tmp_path / "out")]
    assert main(arguments) == USER_ERROR
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_absent_folder_and_two_of_one_name_end_with_a_message(tmp_path: Path, manual: Path, capsys):
    output = ("--output", str(tmp_path / "out"))
    assert main(["corpus", "build", *RECIPE, "--input", str(tmp_path / "absent"), *output]) == USER_ERROR
    assert "does not exist" in capsys.readouterr().err
    other = tmp_path / "other" / "manual"
    other.mkdir(parents=True)
    (other / "a.txt").write_text("A page.")
    inputs = ("--input", str(manual), "--input", str(other))
    assert main(["corpus", "build", *RECIPE, *inputs, *output]) == USER_ERROR
    assert "have the same name" in capsys.readouterr().err


def test_summary_and_report_count_the_files_left_out(tmp_path: Path, manual: Path, capsys):
    output = tmp_path / "out"
    assert main(["corpus", "build", *RECIPE, "--input", str(manual), "--output", str(output)]) == 0
    left_out = "left out: 2 hidden, 1 .css, 1 .png, 1 empty, 1 no ending"
    assert f"files {left_out}" in capsys.readouterr().out
    assert main(["corpus", "report", str(output)]) == 0
    assert left_out in (output / "report.html").read_text()


def test_many_reasons_are_added_up():
    assert describe_left_out({f".{index}": index for index in range(1, 11)}).endswith("3 .3, 3 others")


def test_rules_see_the_pages_of_folders(tmp_path: Path, manual: Path):
    manifest = build(str(manual), tmp_path / "out", ProseLines(min_words=3, min_sentences=1, min_share=0.0))
    assert step(manifest, "prose-lines")["in"] == len(PAGES)
