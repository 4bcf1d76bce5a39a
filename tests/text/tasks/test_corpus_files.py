import contextlib
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.cli.main import main
from t5x_like.corpora.building.corpus_formats import example_bytes, write_pages
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.text import registry
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.corpus_files import CorpusFiles
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.record_rows import texts_of
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.rows import BadRow, Row, RowPolicy
from t5x_like.text.tasks.text_task import TextTask

TEXTS = {
    "train-00000-of-00003": ["The harbour is old.\nIt was built by fishermen.", "Bread is baked here — ß."],
    "train-00001-of-00003": [],
    "train-00002-of-00003": ["The ferry takes forty minutes."],
    "validation-00000-of-00001": ["Winter freezes the bay."],
}


def rows_of(texts):
    return [
        {"url": f"e.org/{index}", "timestamp": "2019-04-18T10:00:00Z", "text": text, "language": "en"}
        for index, text in enumerate(texts)
    ]


def packed(rows) -> bytes:
    return zstandard.compress("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    shards = []
    for name, texts in TEXTS.items():
        (folder / f"{name}.jsonl.zst").write_bytes(packed(rows_of(texts)))
        shards.append(
            {"file": f"{name}.jsonl.zst", "split": name.partition("-")[0], "pages": len(texts), "bytes": 1}
        )
    (folder / "manifest.json").write_text(json.dumps({"format": "t5x_like corpus", "shards": shards}))
    (folder / "samples.jsonl").write_text("{}\n")
    return folder


def task(corpus: Path, **changes) -> PretrainingTask:
    return PretrainingTask(**({"name": "c", "vocabulary": "bytes", "corpus": str(corpus)} | changes))


@pytest.mark.parametrize("with_manifest", [True, False])
def test_a_folder_of_shards_is_a_source_with_its_splits(corpus: Path, with_manifest: bool) -> None:
    if not with_manifest:
        (corpus / "manifest.json").unlink()
    result = task(corpus)
    assert result.splits == ("train", "validation")
    for split in result.splits:
        texts = [text for name, shard in TEXTS.items() if name.startswith(split) for text in shard]
        assert [document.text for document in result.read(split)] == texts
    assert next(iter(result.read("validation"))).location == f"{corpus}/validation-00000-of-00001.jsonl.zst:1"


def test_a_split_without_pages_is_no_split(corpus: Path) -> None:
    manifest = json.loads((corpus / "manifest.json").read_text())
    manifest["shards"][-1]["pages"] = 0
    (corpus / "manifest.json").write_text(json.dumps(manifest))
    assert task(corpus).splits == ("train",)


@pytest.mark.seqio
def test_the_seqio_registry_reads_a_corpus_to_tokens(corpus: Path) -> None:
    registry.register([task(corpus, name="corpus_for_seqio")])
    result = registration.get("corpus_for_seqio")
    assert set(result.splits) == {"train", "validation"}
    assert result.num_input_examples("train") == 3  # pyright: ignore[reportAttributeAccessIssue]
    source = result.source  # pyright: ignore[reportAttributeAccessIssue]
    texts = [row["text"].decode() for row in source.get_dataset("train", shuffle=False).as_numpy_iterator()]
    assert texts == [text for name, shard in TEXTS.items() if name.startswith("train") for text in shard]


RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.text.tasks import pretraining
TASKS = (@pretraining.PretrainingTask(),)
pretraining.PretrainingTask:
    name = 'corpus_in_gin'
    vocabulary = 'bytes'
    corpus = 'corpus'
"""


def test_a_recipe_names_the_folder_and_its_tokens_are_cached(
    corpus: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.gin").write_text(RECIPE)
    assert (
        main(["cache", "corpus_in_gin", "--gin_file=recipe.gin", "--output=caches", "--num_processes=1"]) == 0
    )
    assert "caches/corpus_in_gin/train: 3 examples (" in capsys.readouterr().out
    stored = CachedExamples.open("caches/corpus_in_gin/train")
    examples = stored.read(np.arange(3))
    texts = [bytes((row["tokens"] - 3).astype(np.uint8)).decode() for row in examples]
    assert texts == [text for name, shard in TEXTS.items() if name.startswith("train") for text in shard]


def test_a_task_can_be_defined_before_its_corpus_is_built(tmp_path: Path) -> None:
    result = task(tmp_path / "later")
    assert result.splits == ("train", "validation")
    with pytest.raises(ValueError, match=r"later' does not exist; build it \(t5x-like corpus build --output"):
        list(result.read("train"))
    assert result == task(tmp_path / "later")
    assert hash(CorpusFiles("a")) == hash(CorpusFiles("a"))


def test_files_and_a_corpus_are_one_too_many(corpus: Path) -> None:
    with pytest.raises(ValueError, match="files or a corpus, not both"):
        task(corpus, files={"train": "a.txt"})
    with pytest.raises(ValueError, match="has no files"):
        PretrainingTask(name="c", vocabulary="bytes")


@pytest.mark.parametrize("with_manifest", [True, False])
def test_missing_shards_are_named(corpus: Path, with_manifest: bool) -> None:
    if not with_manifest:
        (corpus / "manifest.json").unlink()
    (corpus / "train-00001-of-00003.jsonl.zst").unlink()
    with pytest.raises(ValueError, match=r"lacks train-00001-of-00003\.jsonl\.zst; build it again"):
        list(task(corpus).read("train"))


def test_other_directories_than_corpora_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no finished corpus"):
        list(task(tmp_path).read("train"))
    (tmp_path / "train-00000-of-00001.xml").write_bytes(b"")
    with pytest.raises(ValueError, match="whose format a task can't read"):
        list(task(tmp_path).read("train"))
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ValueError, match=r"manifest\.json holds a value of type list, not an object"):
        list(task(tmp_path).read("train"))


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_packed_rows_read_as_they_would_unpacked(tmp_path: Path, ending: str) -> None:
    content = b"text\tlabel\r\nsun\t1\n\nrain\t0"
    pack = gzip.compress if ending == ".gz" else zstandard.compress
    (tmp_path / "rows.tsv").write_bytes(content)
    (tmp_path / f"rows.tsv{ending}").write_bytes(pack(content[:9]) + pack(content[9:]))
    cells = [
        [row.cells for row in read_rows(str(tmp_path / name), "tsv") if isinstance(row, Row)]
        for name in ("rows.tsv", f"rows.tsv{ending}")
    ]
    assert cells[0] == cells[1] == [{"text": "sun", "label": "1"}, {"text": "rain", "label": "0"}]
    task = TextTask(
        name="t",
        vocabulary="bytes",
        files={"train": str(tmp_path / f"rows.tsv{ending}")},
        input_template="{text}",
        target_template="{label}",
    )
    assert [row.inputs for row in task.read("train")] == ["sun", "rain"]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_rows_before_a_cut_are_kept_and_the_cut_is_named(tmp_path: Path, ending: str) -> None:
    rows = "".join(
        json.dumps({"text": f"{token_id} {token_id**9}"}) + "\n" for token_id in range(9999)
    ).encode()
    whole = gzip.compress(rows) if ending == ".gz" else zstandard.compress(rows)
    path = tmp_path / f"rows.jsonl{ending}"
    path.write_bytes(whole[: len(whole) // 2])
    result = list(read_rows(str(path), "jsonl"))
    bad = [row for row in result if isinstance(row, BadRow)]
    assert len(bad) == 1
    assert "cut short" in bad[0].reason
    assert bad[0].location == f"{path}:{len(result)}"
    assert [row.cells["text"].split()[0] for row in result if isinstance(row, Row)] == [
        str(token_id) for token_id in range(len(result) - 1)
    ]
    policy = RowPolicy("skip")
    task = PretrainingTask(name="p", vocabulary="bytes", files={"train": str(path)}, on_bad_row="skip")
    assert len(list(task.read("train", policy))) == len(result) - 1
    assert policy.num_skipped == 1


def test_a_packed_file_of_no_bytes_is_named_and_one_of_no_rows_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.zst").write_bytes(b"")
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(b""))
    assert list(read_rows(str(tmp_path / "a.jsonl.zst"), "jsonl")) == [
        BadRow("the file is empty", str(tmp_path / "a.jsonl.zst"))
    ]
    assert list(read_rows(str(tmp_path / "b.jsonl.zst"), "jsonl")) == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=6))
@settings(max_examples=30, deadline=None)
def test_any_text_comes_back_from_a_corpus(tmp_path_factory, texts) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "train-00000-of-00001.jsonl.zst").write_bytes(packed(rows_of(texts)))
    files = CorpusFiles(str(folder))["train"]
    assert [row.cells["text"] for row in read_rows(files[0], "jsonl") if isinstance(row, Row)] == texts


@pytest.mark.parametrize(("form", "ending"), [("tfrecord", "tfrecord"), ("arrayrecord", "array_record")])
def test_a_corpus_of_records_is_a_source_too(tmp_path: Path, form: str, ending: str) -> None:
    texts = [f"Text number {index} — ß.\nAnd more." for index in range(700)]
    path = tmp_path / f"train-00000-of-00001.{ending}"
    write_pages([Page(f"e.org/{index}", text, "2019") for index, text in enumerate(texts)], str(path), form)
    documents = list(task(tmp_path).read("train"))
    assert [document.text for document in documents] == texts
    assert documents[-1].location == f"{path}:record 700"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"{ending}:record \d+: damaged: .*Correct the row"):
        list(task(tmp_path).read("train"))


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_examples_are_read_as_they_are_written(texts) -> None:
    assert texts_of(example_bytes(texts)) == texts


@given(st.binary(max_size=60))
def test_invalid_examples_raise_only_two_types_of_errors(content: bytes) -> None:
    with contextlib.suppress(ValueError, IndexError):
        texts_of(content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.tsv", b"text\tlabel\nsun\t1\nra\0n\t0\n\0\0\t1\n"),
        ("rows.jsonl", b'{"text": "sun"}\n{"text": "clouds"}\n{"text": "ra\\u0000n"}\n{"text": "\\u0000"}\n'),
    ],
)
def test_nul_bytes_are_kept_and_reported_once(tmp_path: Path, caplog, name: str, content: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    rows = [row for row in read_rows(str(file), file.suffix[1:]) if isinstance(row, Row)]
    assert "ra\0n" in [row.cells["text"] for row in rows]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == f"{file}:3 holds NUL bytes, which are kept; is the file damaged?"
