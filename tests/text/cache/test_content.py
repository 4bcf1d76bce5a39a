"""Equal examples have equal checksums, in memory and in any cache."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.io.files import read_json
from t5x_like.text.batches.in_memory import load_in_memory
from t5x_like.text.cache import cache_manifest as manifests
from t5x_like.text.cache.cache_manifest import read_manifest, write_manifest
from t5x_like.text.cache.content import ContentChecksum, content_checksum
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.cache.shards import checksum_of, index_name
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.text_task import TextTask

sequences = st.lists(st.binary(max_size=6), max_size=12)


@given(sequences, sequences, sequences)
def test_the_checksum_of_a_concatenation_follows_from_its_parts(first, second, third):
    one, two, three = map(content_checksum, (first, second, third))
    whole = content_checksum([*first, *second, *third])
    assert one.followed_by(two).followed_by(three) == whole
    assert one.followed_by(two.followed_by(three)) == whole
    assert ContentChecksum().followed_by(one) == one == one.followed_by(ContentChecksum())


@given(sequences, sequences)
def test_other_sequences_or_another_order_have_another_checksum(one, other):
    assert (content_checksum(one) == content_checksum(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"), [([b""], []), ([b"ab", b""], [b"a", b"b"]), ([b"", b"a"], [b"a", b""])]
)
def test_empty_sequences_and_their_boundaries_count(one, other):
    assert content_checksum(one).value != content_checksum(other).value


def make_documents(folder: Path, corpus_task):
    rows = [{"text": f"Mount {n} erupts. It is hot.", "spans": [[0, 7 + n % 2]]} for n in range(50)]
    (folder / "a.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows) + '{"text": "", "spans": []}\n'
    )
    return corpus_task(files={"train": str(folder / "a.jsonl")}, sentences=True, spans_column="spans")


def make_pairs(folder: Path, _):
    (folder / "a.tsv").write_text("question\tanswer\n" + "".join(f"{'ab' * n}\t{n}\n" for n in range(1, 50)))
    files = {"train": str(folder / "a.tsv")}
    return TextTask(
        name="pairs",
        vocabulary="bytes",
        files=files,
        input_template="{question}",
        target_template="{answer}",
    )


def make_talks(folder: Path, _):
    talks = [
        [{"role": role, "content": f"{role} {index}"} for role in ("user", "assistant")]
        for index in range(50)
    ]
    (folder / "a.jsonl").write_text("".join(json.dumps({"messages": talk}) + "\n" for talk in talks))
    return ChatTask(name="talks", vocabulary="bytes", files={"train": str(folder / "a.jsonl")})


def make_corpus(_, corpus_task):
    return corpus_task()


@pytest.mark.parametrize("make", [make_corpus, make_documents, make_pairs, make_talks])
def test_a_cache_with_any_shards_has_the_checksum_of_the_tokens_in_memory(tmp_path, corpus_task, make):
    task = make(tmp_path, corpus_task)
    result = set()
    for num_shards in (1, 2, 7):
        output = tmp_path / str(num_shards)
        cache_split(task, "train", str(output), num_shards=num_shards)
        result.add(CachedExamples.open(output / task.name / "train").checksum)
    assert result == {load_in_memory(task, "train", max_tokens_in_memory=10**6).checksum}


def test_one_token_or_the_order_of_two_documents_changes_it(tmp_path, corpus_task):
    checksums = []
    for index, text in enumerate(["ab\ncd\n", "cd\nab\n", "ab\nce\n", "ab\ncd\n"]):
        (tmp_path / f"{index}.txt").write_text(text)
        task = corpus_task(name=f"letters_{index}", files={"train": str(tmp_path / f"{index}.txt")})
        cache_split(task, "train", str(tmp_path))
        checksums.append(CachedExamples.open(tmp_path / task.name / "train").checksum)
    assert len(set(checksums)) == 3
    assert checksums[0] == checksums[3]


def as_version_1(directory: Path, monkeypatch) -> None:
    """Takes away from a cache what came with version 2."""
    shards = []
    for shard in read_manifest(str(directory)).shards:
        index = directory / index_name(shard.file)
        with np.load(index) as arrays:
            kept = {name: arrays[name] for name in arrays.files if name != "content"}
        np.savez(index, **kept)
        checksum = checksum_of(index.read_bytes())
        shards.append(dataclasses.replace(shard, content=None, index_checksum=checksum))
    manifest = dataclasses.replace(read_manifest(str(directory)), shards=tuple(shards))
    monkeypatch.setattr(manifests, "VERSION", 1)
    write_manifest(str(directory), manifest)
    monkeypatch.undo()


def test_a_cache_of_version_1_is_read_and_has_a_checksum_of_its_own(
    tmp_path, corpus_task, texts, text_of, monkeypatch
):
    folder = tmp_path / "letters" / "train"
    cache_split(corpus_task(), "train", str(tmp_path), num_shards=3)
    whole = CachedExamples.open(folder).checksum
    as_version_1(folder, monkeypatch)
    assert read_json(folder / "manifest.json")["version"] == 1
    older = CachedExamples.open(folder)
    assert [text_of(older, index) for index in range(len(older))] == texts
    assert older.checksum == read_manifest(str(folder)).checksum != whole
    cache_split(corpus_task(), "train", str(tmp_path), num_shards=3)  # checks it, finds nothing to do
    assert CachedExamples.open(folder).checksum == older.checksum
    (folder / index_name(older.manifest.shards[1].file)).unlink()
    cache_split(corpus_task(), "train", str(tmp_path), num_shards=3)  # makes some of it anew
    assert CachedExamples.open(folder).manifest.content is None
