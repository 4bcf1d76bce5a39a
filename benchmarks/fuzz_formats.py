"""Formats of files that somebody else may have written: small whole files of each, and the reader that opens them."""

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow
import pyarrow.parquet
from starlette.testclient import TestClient

import t5x_like
from benchmarks import fuzz_tokenizers as tokenizers
from t5x_like.ancestors.word_vectors.vector_files import read_vectors
from t5x_like.corpora.pages.page_reader import PageReaderConfig, read_pages
from t5x_like.gin_config.configuration import load
from t5x_like.model import parameters
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.pretrained.gguf_export import write_gguf
from t5x_like.pretrained.gguf_files import read_gguf
from t5x_like.pretrained.head_classes import classes_at
from t5x_like.pretrained.hugging_face import find_hugging_face
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.model_config import read_model_config, write_model_config
from t5x_like.pretrained.peft_files import read_peft
from t5x_like.pretrained.safetensors_files import SafetensorsReader, write_safetensors
from t5x_like.pretrained.tokenizer_files import special_ids_of
from t5x_like.pretrained.weight_sources import read_config
from t5x_like.serving.application import build_application
from t5x_like.serving.request_fields import Limits
from t5x_like.serving.served_model import ServedModel
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.run_record import read_experiment, write_experiment

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
# Recipe -> row of its table.
_RECIPES = {
    "quickstart/pretrain.gin": {},
    "quickstart/finetune.gin": {},
    "bert/glue.gin": {"TASK": "mnli"},
    "t5/finetune.gin": {"TASK": "glue"},
}
_MAX_ROWS = 1000


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format with its seeds.

    Attributes:
      file: Name of the file that is mutated.
      seeds: Whole files, and other files by name that belong into the same directory.
      read: Opens the file in a directory and uses what it finds.
      max_seconds: Longest time for a file.
    """

    file: str
    seeds: Sequence[tuple[bytes, dict[str, bytes]]]
    read: Callable[[Path], object]
    max_seconds: float = 5.0


def formats(scratch: Path) -> dict[str, Format]:
    """Return every format by name.

    Args:
      scratch: Empty directory for the writers that make the seeds.
    """
    return {
        "gin": Format(file="run.gin", seeds=_alone(_recipes()), read=_read_gin),
        "experiment": Format(file="experiment.json", seeds=_alone(_records(scratch)), read=read_experiment),
        "config": Format(file="config.json", seeds=_alone(_configs()), read=_read_config),
        "model": Format(file="model.json", seeds=_alone(_run_models(scratch)), read=read_model_config),
        "adapter": Format(file="adapter_config.json", seeds=_adapters(), read=_read_adapter),
        "tokenizer": Format(
            file="tokenizer.json", seeds=_alone(tokenizers.tokenizers()), read=tokenizers.read_tokenizer
        ),
        "tokenizer_config": Format(
            file="tokenizer_config.json",
            seeds=tokenizers.tokenizer_settings(),
            read=tokenizers.read_tokenizer,
        ),
        "vocab_txt": Format(
            file="vocab.txt", seeds=_alone([tokenizers.word_pieces()]), read=tokenizers.read_tokenizer
        ),
        "words": Format(
            file="words.json", seeds=_alone(tokenizers.own_vocabularies()), read=tokenizers.read_tokenizer
        ),
        "merges": Format(file="merges.txt", seeds=[tokenizers.merges()], read=tokenizers.read_tokenizer),
        "tiktoken": Format(
            file="gpt2.tiktoken", seeds=_alone([tokenizers.ranks()]), read=tokenizers.read_tokenizer
        ),
        "sentencepiece": Format(
            file="spiece.model", seeds=_alone([tokenizers.unigram_model()]), read=tokenizers.read_tokenizer
        ),
        "safetensors": Format(
            file="model.safetensors", seeds=_alone(_tensors(scratch)), read=_read_safetensors
        ),
        "safetensors_index": Format(
            file="model.safetensors.index.json", seeds=[_shards(scratch)], read=_read_safetensors
        ),
        "gguf": Format(file="model.gguf", seeds=_alone([_gguf(scratch)]), read=_read_gguf),
        "vectors": Format(file="vectors.txt", seeds=_alone(_vectors()), read=_reads_vectors("vectors.txt")),
        "vectors_bin": Format(
            file="vectors.bin", seeds=_alone(_vectors("word2vec_binary")), read=_reads_vectors("vectors.bin")
        ),
        "tsv": Format(file="rows.tsv", seeds=_alone([_table()]), read=_reads_rows("rows.tsv")),
        "csv": Format(file="rows.csv", seeds=_alone([_table(",")]), read=_reads_rows("rows.csv")),
        "jsonl": Format(file="rows.jsonl", seeds=_alone([_lines()]), read=_reads_rows("rows.jsonl")),
        "parquet": Format(
            file="rows.parquet", seeds=_alone([_parquet(scratch)]), read=_reads_rows("rows.parquet")
        ),
        "http": Format(
            file="body.json", seeds=_alone(_requests()), read=_client(scratch), max_seconds=60.0
        ),  # compiles
        "wet": Format(file="a.wet", seeds=_alone([_records_of("conversion")]), read=_reads_pages("a.wet")),
        "wet_gz": Format(
            file="a.wet.gz",
            seeds=_alone([gzip.compress(_records_of("conversion"), mtime=0)]),
            read=_reads_pages("a.wet.gz"),
        ),
        "warc": Format(file="a.warc", seeds=_alone([_records_of("response")]), read=_reads_pages("a.warc")),
    }


def _vectors(vector_format: str = "") -> list[bytes]:
    folder = FIXTURES / "word_vectors"
    if vector_format == "word2vec_binary":
        return [(folder / "gensim.bin").read_bytes()]
    text = (folder / "gensim.txt").read_bytes()
    return [text, text.partition(b"\n")[2]]  # word2vec's, and GloVe's, which has no header


def _reads_vectors(name: str) -> Callable[[Path], object]:
    def read(directory: Path) -> object:
        vectors = read_vectors(directory / name)
        return vectors.nearest(vectors.words[:1])

    return read


def _alone(files: Sequence[bytes]) -> list[tuple[bytes, dict[str, bytes]]]:
    return [(content, {}) for content in files]


def _recipe_texts() -> Iterator[Any]:
    for name, row in _RECIPES.items():
        macros = row | {
            "MODEL_DIR": "run",
            "INITIAL_CHECKPOINT": "other",
            "VOCABULARY": "bytes",
            "VOCAB_SIZE": 384,
        }
        bindings = [f"{name}={value!r}" for name, value in macros.items()]
        while True:  # a recipe that doesn't use a macro refuses it
            try:
                yield load([str(ROOT / "gin" / "recipes" / name)], bindings, roots=[Experiment])
                break
            except ValueError as error:
                unused = [each for each in bindings if f"uses {each.partition('=')[0]}\n" in str(error)]
                if not unused:
                    raise
                bindings.remove(unused[0])


def _recipes() -> list[bytes]:
    return [each.text.encode() for each in _recipe_texts()]


def _read_gin(home: Path) -> None:
    load([str(home / "run.gin")], roots=[Experiment])


def _records(scratch: Path) -> list[bytes]:
    results = []
    for index, each in enumerate(_recipe_texts()):
        write_experiment(scratch / f"run{index}", each.value)
        results.append((scratch / f"run{index}" / "experiment.json").read_bytes())
    return results


def _configs() -> list[bytes]:
    return [file.read_bytes() for file in sorted((FIXTURES / "models").glob("*/config.json"))]


def _read_config(home: Path) -> None:
    config = read_config(home)
    parameters.abstract(config)
    special_ids_of(json.loads((home / "config.json").read_bytes()))
    classes_at(home)


def _run_models(scratch: Path) -> list[bytes]:
    results = []
    for index, config in enumerate((_llama(), *(each.value.model for each in _recipe_texts()))):
        if hasattr(config, "vocab_size"):  # not a checkpoint's
            write_model_config(scratch / f"model{index}", config)
            results.append((scratch / f"model{index}" / "model.json").read_bytes())
    return results


def _llama() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=128,
        model_dim=8,
        mlp_dim=16,
        num_heads=2,
        num_kv_heads=1,
        num_layers=1,
        max_position_embeddings=16,
    )


def _adapters() -> list[tuple[bytes, dict[str, bytes]]]:
    results = []
    for home in sorted((FIXTURES / "peft").glob("llama_*")):
        files = {file.name: file.read_bytes() for file in home.glob("adapter_*")}
        results.append((files.pop("adapter_config.json"), files))
    return results


def _read_adapter(home: Path) -> None:
    read_peft(home, read_config(FIXTURES / "models" / "llama"))


def _tensors(scratch: Path) -> list[bytes]:
    (scratch / "tensors").mkdir()
    write_safetensors(scratch / "tensors", *_arrays(), max_shard_bytes=10**6)
    return [(scratch / "tensors" / "model.safetensors").read_bytes()]


def _arrays() -> tuple[list[tuple[str, np.ndarray]], dict[str, tuple[int, ...]]]:
    arrays = {"wte": np.ones((4, 3)), "h.0.bias": np.arange(5.0), "scale": np.ones(())}
    return list(arrays.items()), {name: array.shape for name, array in arrays.items()}


def _shards(scratch: Path) -> tuple[bytes, dict[str, bytes]]:
    (scratch / "shards").mkdir()
    write_safetensors(scratch / "shards", *_arrays(), max_shard_bytes=50)
    files = {file.name: file.read_bytes() for file in (scratch / "shards").iterdir()}
    return files.pop("model.safetensors.index.json"), files


def _read_safetensors(home: Path) -> None:
    reader = SafetensorsReader(home)
    for name in reader.shapes():
        reader.read(name)


def _gguf(scratch: Path) -> bytes:
    config = _llama()
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), parameters.abstract(config)[1])
    write_gguf(config, params, scratch / "model.gguf")
    return (scratch / "model.gguf").read_bytes()


def _read_gguf(home: Path) -> None:
    source, _ = read_gguf(home / "model.gguf")
    for name in source.shapes:
        source.read(name)
    find_hugging_face(home / "model.gguf")


def _table(separator: str = "\t") -> bytes:
    rows = [
        ("text", "label", "part"),
        *((f"a text {index}", str(index % 2), "plant") for index in range(9)),
    ]
    return "".join(separator.join(row) + "\n" for row in rows).encode()


def _lines() -> bytes:
    rows = [{"text": f"a text {index}", "label": index % 2, "part": "plant"} for index in range(9)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _parquet(scratch: Path) -> bytes:
    rows = {
        "text": [f"a text {index}" for index in range(9)],
        "label": [0, 1] * 4 + [0],
        "part": ["plant"] * 9,
    }
    pyarrow.parquet.write_table(pyarrow.table(rows), scratch / "rows.parquet")
    return (scratch / "rows.parquet").read_bytes()


def _requests() -> list[bytes]:
    """Return bodies of requests to ``/v1/completions``."""
    bodies: list[dict[str, Any]] = [
        {"model": "served", "prompt": "The 12 days", "max_tokens": 2, "temperature": 0},
        {"prompt": ["The", "days"], "max_tokens": 1, "n": 2, "top_p": 0.5, "seed": 3, "stop": ["x", "y"]},
        {"prompt": [[10, 11], [12]], "max_tokens": 1, "logprobs": 2, "echo": True},
    ]
    return [json.dumps(body).encode() for body in bodies]


def _client(scratch: Path) -> Callable[[Path], None]:
    """Return a reader that sends the file as a request to a tiny model; refusals of the server are ``ValueError``."""
    home = scratch / "served"
    config = replace(_llama(), vocab_size=512)
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], home)
    (home / "tokenizer.json").write_text(json.dumps(tokenizers.tokenizer_definitions()["byte_level"]))
    limits = Limits(
        body_bytes=20_000, prompts=4, prompt_tokens=12, new_tokens=2, choices=2, waiting=1, seconds=60.0
    )
    served = ServedModel(t5x_like.from_pretrained(home), "served", limits)
    json_type = {"content-type": "application/json"}
    client = TestClient(build_application(served), raise_server_exceptions=False)

    def read(home: Path) -> None:
        answer = client.post("/v1/completions", content=(home / "body.json").read_bytes(), headers=json_type)
        if answer.status_code == 200:
            return
        if not 400 <= answer.status_code < 500 or "error" not in answer.json():
            raise RuntimeError(f"status {answer.status_code}: {answer.text[:500]}")
        raise ValueError(f"{home}: {answer.json()['error']}")

    return read


def _reads_rows(name: str) -> Callable[[Path], None]:
    def read(home: Path) -> None:
        task = TextTask(
            name="rows",
            vocabulary="bytes",
            files={"train": str(home / name)},
            input_template="{text}",
            target_template="{label}",
            row_filter={"part": "plant"},
        )
        rows = list(islice(task.read("train"), _MAX_ROWS))
        task.tokenize(rows)

    return read


def _records_of(kind: str) -> bytes:
    """Return a WARC file with two pages."""
    text = b"One line of a page.\nAnother line, longer than that.\n"
    html = b"<html><body><p>One &amp; two.<p>Three.</body></html>"
    if kind == "response":
        text = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + html
    record = _record("warcinfo", "", b"software: x\r\n")
    return record + _record(kind, "http://a.org/", text) + _record(kind, "http://a.org/b", text)


def _record(kind: str, url: str, content: bytes) -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content + b"\r\n\r\n"


def _reads_pages(name: str) -> Callable[[Path], None]:
    def read(home: Path) -> None:
        list(islice(read_pages(home / name, PageReaderConfig(on_corruption="skip")), _MAX_ROWS))
        list(islice(read_pages(home / name), _MAX_ROWS))

    return read
