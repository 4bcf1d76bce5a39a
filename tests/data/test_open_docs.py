"""The corpus of documentation, made from small packages; and the shipped sample with its card."""

import gzip
import json
import random
from pathlib import Path

import pytest

from data.prepare import open_docs
from data.prepare.documentation_text import dictionary_pages, pod_as_html, xml_as_html
from data.prepare.open_docs_files import unpack
from data.prepare.open_docs_sources import SOURCES, Source
from t5x_like.io.files import read_json, read_jsonl, shipped_directory

WORDS = tuple("the a of and to in is it that for with as program file server option page user value".split())  # noqa: SIM905
EVERYWHERE = "This paragraph is on every page of the manual."
SHIPPED = shipped_directory("data") / "open_docs"


def sentences(seed: int, count: int = 30) -> str:
    draw = random.Random(seed)
    return " ".join(
        " ".join(draw.choices(WORDS, k=12)).capitalize() + f" {draw.choice(WORDS)}." for _ in range(count)
    )


@pytest.fixture
def packages(tmp_path: Path, debian_package) -> Path:
    folder = tmp_path / "debs"
    folder.mkdir()
    for name in ("first-doc", "second-doc"):
        pages = {
            f"usr/share/doc/{name}/{index}.html": f"<h1>Page {index}</h1><p>{sentences(hash_of(name, index))}</p>"
            f"<p>{EVERYWHERE}</p><pre>code()</pre>".encode()
            for index in range(60)
        }
        pages[f"usr/share/doc/{name}/copyright"] = b"License: MIT"
        pages[f"usr/share/doc/{name}/_sources/0.html"] = b"<p>Sources are left out."
        debian_package(folder / f"{name}_1.0-1_all.deb", pages)
    return folder


def hash_of(name: str, index: int) -> int:
    return sum(name.encode()) * 1000 + index


TINY = (Source("first-doc", "MIT"), Source("second-doc", "MIT", exclude=("*/5*.html",)))


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    """The recipe, with more pages held out; pages of random words repeat more than prose does."""
    file = tmp_path / "recipe.gin"
    file.write_text(
        "from __gin__ import dynamic_registration\n"
        "from t5x_like.corpora.rules import quality\n"
        "include 'gin/corpora/open_docs.gin'\n"
        "VALIDATION_SHARE = 0.3\n"
        "NUM_SHARDS = 2\n"
        "quality.GopherRepetition.max_top_n_grams = (1.0, 1.0, 1.0)\n"
        "quality.GopherRepetition.max_duplicate_n_grams = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)\n"
    )
    return str(file)


def texts(folder: Path, split: str) -> dict[str, str]:
    return {row["url"]: row["text"] for file in folder.glob(f"{split}*.jsonl") for row in read_jsonl(file)}


def test_packages_become_splits_a_sample_and_statistics(tmp_path: Path, packages: Path, recipe: str):
    output = tmp_path / "out"
    open_docs.prepare(output, packages, sources=TINY, recipe=recipe)
    assert {file.name for file in output.glob("*.jsonl")} == {
        "train-00000-of-00002.jsonl",
        "train-00001-of-00002.jsonl",
        "validation.jsonl",
        "test.jsonl",
    }
    splits = {split: texts(output, split) for split in open_docs.SPLITS}
    assert sum(map(len, splits.values())) == 60 + 49
    assert len(set().union(*(rows.values() for rows in splits.values()))) == 60 + 49
    assert all(len(rows) > 5 for rows in splits.values())
    statistics = read_json(output / open_docs.STATISTICS, dict)
    for split, rows in splits.items():
        assert sum(row["documents"][split] for row in statistics["packages"]) == len(rows)
        assert sum(row["characters"][split] for row in statistics["packages"]) == sum(map(len, rows.values()))
    assert [(row["package"], row["version"], row["files"]) for row in statistics["packages"]] == [
        ("first-doc", "1.0-1", 60),
        ("second-doc", "1.0-1", 49),
    ]
    assert sum(EVERYWHERE in text for rows in splits.values() for text in rows.values()) == 1
    assert not any("code()" in text for rows in splits.values() for text in rows.values())
    assert (output / "copyright/first-doc").read_bytes() == b"License: MIT"
    assert (output / "pipeline/report.html").exists()
    assert not (output / "work").exists()
    for split in ("train", "validation"):
        assert texts(output / "sample", split).items() <= splits[split].items()
    notices = gzip.decompress((output / "sample" / open_docs.NOTICES).read_bytes()).decode()
    assert notices == "== first-doc ==\n\nLicense: MIT\n== second-doc ==\n\nLicense: MIT\n"


def test_the_same_packages_give_the_same_bytes(tmp_path: Path, packages: Path, recipe: str):
    for name, workers in (("out", 1), ("again", 2)):
        open_docs.prepare(tmp_path / name, packages, sources=TINY, recipe=recipe, workers=workers)
    files = [file.relative_to(tmp_path / "out") for file in (tmp_path / "out").rglob("*.jsonl")]
    assert len(files) >= 7
    for file in files:
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "out" / file).read_bytes()


def test_held_out_rows_of_the_shipped_data_are_not_on_any_page(
    tmp_path: Path, packages: Path, recipe: str, debian_package
):
    data = shipped_directory("data") / "wordnet_definitions"
    row = max((data / "test.tsv").read_text().replace("\t", "\n").splitlines(), key=len)
    page = f"<p>{sentences(1)}</p><p>{row}. And more words of it.</p><p>{sentences(2)}</p>"
    debian_package(packages / "third-doc_1.0_all.deb", {"usr/share/doc/third-doc/a.html": page.encode()})
    open_docs.prepare(tmp_path / "out", packages, sources=(Source("third-doc", "MIT"),), recipe=recipe)
    (text,) = (text for split in open_docs.SPLITS for text in texts(tmp_path / "out", split).values())
    assert row not in text
    assert len(text) > 2000


def test_evaluation_texts_are_the_cells_and_strings_of_held_out_rows(tmp_path: Path):
    open_docs.write_evaluation_texts(shipped_directory("data"), tmp_path)
    names = {file.stem for file in tmp_path.iterdir()}
    assert {"king_james-validation", "debian_handbook-test", "conversations-validation"} <= names
    assert not any(name.startswith("open_docs") or name.endswith("-train") for name in names)
    row = (shipped_directory("data") / "debian_handbook/test.tsv").read_text().splitlines()[1]
    assert set(row.split("\t")) <= set(read_jsonl(tmp_path / "debian_handbook-test.jsonl"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "lacks 2 of 2 packages; run there: apt-get download first-doc second-doc"),
        (("first-doc_1_all.deb", "first-doc_2_all.deb", "second-doc_1_all.deb"), "has several versions"),
    ],
)
def test_absent_and_doubled_packages_are_named(tmp_path: Path, names, message: str):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=message):
        open_docs.find_packages(TINY, tmp_path)


def test_a_folder_without_packages_ends_with_exit_code_2(tmp_path: Path, capsys):
    with pytest.raises(SystemExit, match="2"):
        open_docs.run(["--output", str(tmp_path / "out"), "--debs", str(tmp_path)])
    assert "apt-get download abs-guide" in capsys.readouterr().err


def test_another_package_and_one_without_documents_are_refused(tmp_path: Path, debian_package):
    package = debian_package(tmp_path / "first-doc_1.0_all.deb", {"usr/share/doc/a.png": b"x"})
    folders = (tmp_path / "out", tmp_path / "copyright")
    with pytest.raises(ValueError, match="is the package 'first-doc', not 'second-doc'"):
        unpack(TINY[1], package, *folders)
    with pytest.raises(ValueError, match="has no document of"):
        unpack(TINY[0], package, *folders)


def test_a_dictionary_becomes_pages_of_entries():
    entries = ["first\n   Definition of {first}.\n", "second\n   Definition of the second.\n"] * 30
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def in_base_64(value: int) -> str:
        return (letters[value >> 12] + letters[value >> 6 & 63] + letters[value & 63]).lstrip("A") or "A"

    index, start = "00databaseinfo\tA\tB\n", 0
    for entry in entries:
        index += f"word\t{in_base_64(start)}\t{in_base_64(len(entry))}\n"
        start += len(entry)
    pages = dict(dictionary_pages(index.encode(), gzip.compress("".join(entries).encode())))
    assert list(pages) == ["00000.txt", "00001.txt"]
    assert pages["00001.txt"].startswith("first\n   Definition of first.\n\nsecond\n")
    assert [page.count("Definition") for page in pages.values()] == [50, 10]


def test_pod_becomes_html_without_listings():
    pod = (
        "=head1 NAME\n\nperl - B<fast> & I<small>\n\n    listing();\n\n=over 4\n\n=item L<text|perlop/x>\n\n"
        "See L<perlfunc>, C<< I<a> >>, C<d-E<gt>e> and E<lt>.\n\n"
        "=begin html\n\n<b>no</b>\n\n=end html\n\n=back\n\n=cut\n"
    )
    assert pod_as_html(pod) == (
        "<h2>NAME</h2>\n<p>perl - fast &amp; small</p>\n<li>text</li>\n"
        "<p>See perlfunc, I&lt;a&gt;, d-&gt;e and &lt;.</p>\n"
    )


def test_docbook_and_mallard_become_html():
    docbook = (
        "<?xml version='1.0'?><!DOCTYPE book [<!ENTITY a 'b'>]><chapter id='x'><title>T</title><para>A &a; &amp; "
        "<literal>b</literal><xref/>.</para><programlisting>code</programlisting></chapter>"
    )
    assert xml_as_html(docbook).endswith(
        "<body><div><h2>T</h2><p>A  &amp; <literal>b</literal>.</p><pre>code</pre></div></body>"
    )
    mallard = (
        "<page><info><desc>d</desc></info><title>T</title><p>Do <code>x</code>.</p><code>a\nb</code></page>"
    )
    assert xml_as_html(mallard).endswith(
        "<div><nav><nav>d</nav></nav><h2>T</h2><p>Do <code>x</code>.</p><pre>a\nb</pre></div></body>"
    )


def test_a_draw_takes_turns_among_packages_up_to_a_size():
    rows = [
        {"url": f"open_docs/{package}/{index}", "text": "x" * 100}
        for package, count in (("a", 50), ("b", 2))
        for index in range(count)
    ]
    rows.append({"url": "open_docs/b/long", "text": "x" * (open_docs.MAX_SAMPLE_CHARS + 1)})
    size = 6 * (len(json.dumps(rows[0])) + 2)
    drawn = open_docs.draw(rows, size)
    assert [open_docs.package_of(row) for row in drawn] == ["a"] * (len(drawn) - 2) + ["b", "b"]
    assert len(drawn) in (5, 6)
    assert drawn == open_docs.draw(reversed(rows), size)
    assert len({source.package for source in SOURCES}) == len(SOURCES)


def test_the_shipped_sample_is_text_of_listed_packages_and_no_page_is_in_both_splits():
    rows = {split: list(read_jsonl(SHIPPED / f"{split}.jsonl")) for split in ("train", "validation")}
    known = {source.package for source in SOURCES}
    urls = [row["url"] for split in rows.values() for row in split]
    assert len(set(urls)) == len(urls) > 300
    assert {open_docs.package_of(row) for row in rows["train"]} <= known
    assert len({open_docs.package_of(row) for row in rows["train"]}) > 80
    assert all(row["language"] == "en" and len(row["text"]) > 100 for split in rows.values() for row in split)
    lines = [line for split in rows.values() for row in split for line in row["text"].splitlines()]
    assert len(set(lines)) > 0.99 * len(lines)
    notices = gzip.decompress((SHIPPED / open_docs.NOTICES).read_bytes()).decode("utf-8", "replace")
    for row in rows["train"]:
        assert f"== {open_docs.package_of(row)} ==" in notices


def test_the_card_has_the_figures_of_the_statistics():
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")
    statistics = read_json(SHIPPED / open_docs.STATISTICS, dict)
    for table in (open_docs.split_table(statistics), open_docs.source_table(statistics)):
        for line in table.splitlines():
            assert line in card, f"the card lacks: {line}"
    total = sum(sum(row["characters"].values()) for row in statistics["packages"])
    assert total > 60e6
    words = " ".join(card.split())
    assert f"{total / 1e6:.1f} million characters" in words
    assert all(f"{seconds:,} s" in words for seconds in statistics["seconds"].values())
