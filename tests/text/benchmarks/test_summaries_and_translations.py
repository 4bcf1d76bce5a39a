"""News with summaries and sentences with translations, from files as they are published."""

import hashlib
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.summarization import split_story
from t5x_like.text.benchmarks.translation_files import segments_of


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def pairs(name: str, folder: Path, split: str) -> list[tuple[str, str]]:
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder))
    return [(row.inputs, row.targets) for row in task.read(split)]


STORY = "(CNN) Snow fell\n\nRoads closed.\n\n@highlight\n\nSnow\n\n@highlight\n\nRoads shut!\n"


def test_stories_are_found_by_their_addresses(tmp_path: Path) -> None:
    url = "http://example.com/snow"
    name = hashlib.sha1(url.encode()).hexdigest()
    write(tmp_path / "cnn_dailymail" / "cnn" / "stories" / f"{name}.story", STORY)
    write(tmp_path / "cnn_dailymail" / "url_lists" / "all_val.txt", f"{url}\n")
    assert pairs("cnn_dailymail_v002", tmp_path, "validation") == [
        ("summarize: (CNN) Snow fell. Roads closed.", "Snow.\nRoads shut!")
    ]
    write(tmp_path / "cnn_dailymail" / "url_lists" / "all_test.txt", f"{url}\nhttp://example.com/other\n")
    with pytest.raises(
        ValueError, match=r"all_test\.txt:2: no file [0-9a-f]{40}\.story for http://example\.com/other"
    ):
        pairs("cnn_dailymail_v002", tmp_path, "test")


def test_lines_that_end_a_sentence_get_no_full_stop() -> None:
    assert split_story('A”\nB)\nC\n@highlight\nD?\n\n@highlight\nE"') == ("A” B) C.", 'D?\nE"')


def test_summaries_come_from_lines_of_json_and_from_the_hub(tmp_path: Path) -> None:
    write(
        tmp_path / "xsum" / "train.jsonl",
        json.dumps({"document": "Long.", "summary": "Short.", "id": 1}) + "\n",
    )
    table = pyarrow.table({"document": ["D"], "summary": ["S"], "id": ["1"]})
    pyarrow.parquet.write_table(table, tmp_path / "xsum" / "test-00000-of-00001.parquet")
    assert pairs("xsum_v001", tmp_path, "train") == [("summarize: Long.", "Short.")]
    assert pairs("xsum_v001", tmp_path, "test") == [("summarize: D", "S")]
    write(tmp_path / "xsum" / "val.jsonl", '{"document": "x"}\n')
    with pytest.raises(ValueError, match=r"val\.jsonl:1: no column 'summary'; the columns are document"):
        pairs("xsum_v001", tmp_path, "validation")


SOURCE = """<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="paper/1" genre="news" origlang="en">
<p>
<seg id="1">Q&amp;A: 3 &lt; 4</seg>
<seg id="2"> Good night. </seg>
</p>
</doc>
</srcset>
"""


def reference(*segments: str) -> str:
    numbered = (f'<seg id="{number}">{text}</seg>' for number, text in enumerate(segments, start=1))
    return '<refset><doc docid="paper/1">\n' + "\n".join(numbered) + "\n</doc></refset>\n"


def test_sgml_test_sets_are_paired_by_segment(tmp_path: Path) -> None:
    write(tmp_path / "wmt14" / "newstest2014-deen-src.en.sgm", SOURCE)
    other = write(tmp_path / "wmt14" / "newstest2014-deen-ref.de.sgm", reference("Fragen", "Gute Nacht."))
    assert pairs("wmt14_ende_v003", tmp_path, "test") == [
        ("translate English to German: Q&A: 3 < 4", "Fragen"),
        ("translate English to German: Good night.", "Gute Nacht."),
    ]
    assert [segment.line for segment in segments_of(str(other))] == [2, 3]
    write(other, reference("Fragen"))
    with pytest.raises(
        ValueError, match=r"src\.en\.sgm:5: the segment 2 of document 'paper/1' has no translation"
    ):
        pairs("wmt14_ende_v003", tmp_path, "test")
    write(other, reference("Fragen", "Gute Nacht.").replace("paper/1", "paper/2"))
    with pytest.raises(
        ValueError, match=r"src\.en\.sgm:4: .*'paper/1' is where .*ref\.de\.sgm:2 has .*'paper/2'"
    ):
        pairs("wmt14_ende_v003", tmp_path, "test")
    write(other, '<seg id="1">auf\n<seg id="2">zu</seg>')
    with pytest.raises(ValueError, match=r"ref\.de\.sgm:1: a <seg> that is never closed"):
        pairs("wmt14_ende_v003", tmp_path, "test")


def test_sets_that_were_translated_into_english_are_read_backwards(tmp_path: Path) -> None:
    write(tmp_path / "wmt16" / "dev" / "newstest2016-roen-ref.en.sgm", reference("Yes."))
    write(tmp_path / "wmt16" / "dev" / "newstest2016-roen-src.ro.sgm", reference("Da."))
    assert pairs("wmt16_enro_v003", tmp_path, "test") == [("translate English to Romanian: Yes.", "Da.")]


def test_plain_files_are_paired_by_line(tmp_path: Path) -> None:
    folder = tmp_path / "wmt14" / "de-en" / "train"
    write(folder / "news.de-en.en", "One\n\nThree \n")
    write(folder / "news.de-en.de", "Eins\n\nDrei \n")
    write(folder / "web.de-en.en", "Four\n")
    other = write(folder / "web.de-en.de", "Vier\n")
    assert [targets for _, targets in pairs("wmt14_ende_v003", tmp_path, "train")] == [
        "Eins",
        "",
        "Drei ",
        "Vier",
    ]
    write(other, "Vier\nFünf\n")
    with pytest.raises(
        ValueError, match=r"web\.de-en\.en has 1 lines, but .*web\.de-en\.de 2; line n of one"
    ):
        pairs("wmt14_ende_v003", tmp_path, "train")
    other.unlink()
    with pytest.raises(
        ValueError, match=r"no file next to it with the de of its sentences; expected .*web\.de-en\.de"
    ):
        pairs("wmt14_ende_v003", tmp_path, "train")


def test_stanfords_talks_and_the_hubs_rows_are_read(tmp_path: Path) -> None:
    write(tmp_path / "iwslt15" / "tst2013.en", "Thanks .\n")
    write(tmp_path / "iwslt15" / "tst2013.vi", "Cảm ơn .\n")
    assert pairs("iwslt15_envi_v003", tmp_path, "test") == [
        ("translate English to Vietnamese: Thanks .", "Cảm ơn .")
    ]
    (tmp_path / "wmt16" / "ro-en").mkdir(parents=True)
    table = pyarrow.table({"translation": [{"ro": "Da", "en": "Yes"}]})
    pyarrow.parquet.write_table(table, tmp_path / "wmt16" / "ro-en" / "validation-00000-of-00001.parquet")
    assert pairs("wmt16_enro_v003", tmp_path, "validation") == [("translate English to Romanian: Yes", "Da")]
    table = pyarrow.table({"translation": [{"de": "Ja", "en": "Yes"}]})
    pyarrow.parquet.write_table(table, tmp_path / "wmt16" / "ro-en" / "test-00000-of-00001.parquet")
    with pytest.raises(ValueError, match="row 1: no column 'ro'"):
        pairs("wmt16_enro_v003", tmp_path, "test")
