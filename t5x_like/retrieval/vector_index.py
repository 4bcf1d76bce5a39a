"""Vectors of passages in a folder: blocks of vectors and texts, and a file with the model and the settings.

``index.json`` has the settings, and whether all blocks are written. ``vectors-00000.safetensors`` has the vectors of
the passages of ``passages-00000.jsonl``, whose checksum it keeps.
"""

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from etils import epath
from jax.sharding import Mesh
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, json_object, read_json, write_bytes, write_json
from t5x_like.io.paths import names_in
from t5x_like.io.writer_lock import exclusive_writer
from t5x_like.retrieval.exact_search import search_exactly
from t5x_like.retrieval.passages import Passage, PassageLength, as_rows, cut_passages
from t5x_like.retrieval.source_texts import SourceText
from t5x_like.retrieval.text_embedder import EmbeddingSettings, TextEmbedder

VectorDtype = Literal["float32", "float16"]

_INFO, _TENSOR, _FORMAT = "index.json", "vectors", 1
_CHECKSUM = "passages_sha256"


class RankedPassage(NamedTuple):
    """Passage with its score for a query.

    Attributes:
      score: Similarity; of a reranker its own score.
      passage: The passage.
    """

    score: float
    passage: Passage


def sort_results(results: Sequence[RankedPassage], scores: Iterable[float]) -> list[RankedPassage]:
    """Return results with other scores, the best first; of equal scores the order stays.

    Args:
      results: Results of one query.
      scores: Score of each result.
    """
    scored = [result._replace(score=float(score)) for result, score in zip(results, scores, strict=True)]
    return sorted(scored, key=lambda result: -result.score)


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """Settings of an index next to those of its vectors.

    Attributes:
      passages: Lengths of passages.
      vector_dtype: Type in which vectors are stored; they are searched in float32.
      block_size: Passages in a block, whose vectors and texts are in memory together.
    """

    passages: PassageLength = field(default_factory=PassageLength)
    vector_dtype: VectorDtype = "float16"
    block_size: int = 4096

    def __post_init__(self) -> None:
        if self.vector_dtype not in get_args(VectorDtype):
            raise ValueError(
                f"vector_dtype is {self.vector_dtype!r}; give one of {', '.join(get_args(VectorDtype))}"
            )
        if self.block_size < 1:
            raise ValueError(f"block_size is {self.block_size}; give at least 1")


class BuildCounts(NamedTuple):
    """Numbers of a finished build.

    Attributes:
      num_passages: Passages in the index.
      num_texts: Texts that they are from.
      num_encoded: Passages that this build encoded; those of an earlier one that are the same are kept.
      width: Width of the vectors.
    """

    num_passages: int
    num_texts: int
    num_encoded: int
    width: int


def build_index(
    texts: Iterable[SourceText],
    embedder: TextEmbedder,
    directory: str,
    settings: IndexSettings | None = None,
    *,
    on_passages: Callable[[int], None] | None = None,
) -> BuildCounts:
    """Write an index, or continue one: blocks whose passages are unchanged keep their vectors.

    Args:
      texts: Texts, which may be a stream; one block of their passages is in memory.
      embedder: Model of the vectors.
      directory: Folder of the index, new or of an earlier build with the same settings.
      settings: Settings of the index.
      on_passages: Called with the number of passages that were encoded or are there, again and again.

    Raises:
      ValueError: There are no texts, or the folder has something else or an index with other settings.
    """
    home, settings = as_path(directory), settings or IndexSettings()
    report = on_passages or (lambda _: None)
    identity = _identity(embedder, settings)
    with exclusive_writer(directory, "index"):
        _check_folder(home, identity)
        passages = cut_passages(texts, embedder.tokenizer, settings.passages)
        first = next(passages, None)
        if first is None:
            raise ValueError("there is no text to index; give files with text")
        passages = itertools.chain([first], passages)
        info: dict[str, Any] = {"format": _FORMAT, "is_complete": False, **identity}
        write_json(home / _INFO, info)
        blocks: list[int] = []
        ids: set[str] = set()
        num_encoded = width = 0
        while block := list(itertools.islice(passages, settings.block_size)):
            ids.update(passage.id for passage in block)
            is_new, width = _write_block(home, len(blocks), block, embedder, settings, report)
            num_encoded += len(block) if is_new else 0
            blocks.append(len(block))
        for path in _leftovers(home, len(blocks)):
            path.unlink()
        info |= {"is_complete": True, "width": width, "block_sizes": blocks, "num_texts": len(ids)}
        write_json(home / _INFO, info)
    return BuildCounts(sum(blocks), len(ids), num_encoded, width)


def _identity(embedder: TextEmbedder, settings: IndexSettings) -> dict[str, Any]:
    vectors = embedder.settings
    return {
        "checkpoint": embedder.checkpoint,
        "checkpoint_identity": embedder.identity,
        "query_prompt": vectors.query_prompt,
        "document_prompt": vectors.document_prompt,
        "similarity": vectors.similarity,
        "pooling": vectors.pooling,
        "max_length": vectors.max_length,
        "compute_dtype": vectors.dtype,
        "vector_dtype": settings.vector_dtype,
        "passage_length": settings.passages.length,
        "passage_overlap": settings.passages.overlap,
        "block_size": settings.block_size,
    }


def _check_folder(home: epath.Path, identity: dict[str, Any]) -> None:
    """Refuse a folder of something else, or an index with other settings; queries' prompt may change."""
    if not (home / _INFO).exists():
        others = [name for name in names_in(home) if not name.startswith(".")]
        if others:
            raise ValueError(
                f"{home} is no index, and has {', '.join(others[:5])}; give a new or empty folder"
            )
        return
    before = read_json(home / _INFO, dict)
    for name, value in identity.items():
        if name not in ("checkpoint", "query_prompt") and before.get(name) != value:
            raise ValueError(
                f"{home} is an index with {name}={before.get(name)}, and {name}={value} is wanted now; give another "
                "folder, or remove it"
            )


def _write_block(
    home: epath.Path,
    index: int,
    passages: Sequence[Passage],
    embedder: TextEmbedder,
    settings: IndexSettings,
    report: Callable[[int], None],
) -> tuple[bool, int]:
    """Write a block if its passages are new, and return whether they are, with the width of the vectors."""
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in as_rows(passages)).encode()
    checksum = hashlib.sha256(content).hexdigest()
    path = _vectors_path(home, index)
    stored = _metadata(path)
    if stored is not None and stored[0] == checksum and len(passages) == stored[1][0]:
        if not _passages_path(home, index).exists():
            write_bytes(_passages_path(home, index), content)
        report(len(passages))
        return False, stored[1][1]
    vectors = embedder.embed([passage.text for passage in passages], "document", on_texts=report)
    with np.errstate(over="ignore"):
        kept = vectors.astype(settings.vector_dtype)
    if not np.isfinite(kept).all():
        raise ValueError(
            f"a vector has numbers of up to {np.abs(vectors).max():.3g}, which {settings.vector_dtype} can't hold; "
            "give vector_dtype=float32, or similarity=cosine"
        )
    write_bytes(_passages_path(home, index), content)
    write_bytes(path, save({_TENSOR: kept}, {_CHECKSUM: checksum}))
    return True, vectors.shape[1]


def _metadata(path: epath.Path) -> tuple[str, tuple[int, int]] | None:
    """Return the checksum of a block's passages and the shape of its vectors; ``None`` for a damaged or missing one."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as opened:
            return (opened.metadata() or {}).get(_CHECKSUM, ""), tuple(opened.get_slice(_TENSOR).get_shape())
    except SafetensorError:
        return None


def _leftovers(home: epath.Path, num_blocks: int) -> list[epath.Path]:
    """Return the files of blocks that an earlier, longer index had."""
    kept = {path(home, index).name for index in range(num_blocks) for path in (_vectors_path, _passages_path)}
    files = [*home.glob("vectors-*.safetensors"), *home.glob("passages-*.jsonl")]
    return [path for path in files if path.name not in kept]


def _vectors_path(home: epath.Path, index: int) -> epath.Path:
    return home / f"vectors-{index:05d}.safetensors"


def _passages_path(home: epath.Path, index: int) -> epath.Path:
    return home / f"passages-{index:05d}.jsonl"


class VectorIndex:
    """A finished index, opened for searching.

    >>> index = VectorIndex("path/to/index")
    >>> embedder = index.open_embedder()
    >>> index.search(embedder, ["Who wrote Ulysses?"], k=3)

    Args:
      directory: Folder of the index.

    Raises:
      ValueError: There is no index, it is not finished, or files are missing.
    """

    def __init__(self, directory: PathLike):
        home = as_path(directory)
        if not (home / _INFO).exists():
            raise ValueError(f"{directory} is no index, it has no {_INFO}; make one: t5x-like index build")
        with refusing_damage(home / _INFO):
            info = read_json(home / _INFO, dict)
            if info.get("format") != _FORMAT:
                raise ValueError(f"format {info.get('format')} is not known; {_FORMAT} can be read")
            if not info["is_complete"]:
                num_blocks = len(list(home.glob("vectors-*.safetensors")))
                raise ValueError(
                    f"{home / _INFO}: the index is half-written, with {num_blocks} blocks; run the command that builds "
                    "it again, and it continues"
                )
            self.block_sizes: list[int] = [int(size) for size in info["block_sizes"]]
            self.width = int(info["width"])
            self.num_texts = int(info["num_texts"])
            self.info = info
        self.directory = home
        missing = [
            path(home, index).name
            for index in range(len(self.block_sizes))
            for path in (_vectors_path, _passages_path)
            if not path(home, index).exists()
        ]
        if missing:
            raise ValueError(
                f"{home} lacks {', '.join(missing[:3])}; run the command that builds the index again"
            )

    def __len__(self) -> int:
        """Return the number of passages."""
        return sum(self.block_sizes)

    def open_embedder(
        self, checkpoint: str = "", *, query_prompt: str | None = None, batch_size: int = 32
    ) -> TextEmbedder:
        """Open the model of the index, with its settings.

        Args:
          checkpoint: Path of the model, where it is not where it was.
          query_prompt: Beginning of queries; ``None`` for that of the index.
          batch_size: Queries in a batch.

        Raises:
          ValueError: There is no such model, or it is another one.
        """
        info = self.info
        settings = EmbeddingSettings(
            query_prompt=info["query_prompt"] if query_prompt is None else query_prompt,
            document_prompt=info["document_prompt"],
            similarity=info["similarity"],
            pooling=info["pooling"],
            max_length=info["max_length"],
            dtype=info["compute_dtype"],
        )
        embedder = TextEmbedder.open(checkpoint or info["checkpoint"], settings, batch_size=batch_size)
        self.check_model(embedder)
        return embedder

    def check_model(self, embedder: TextEmbedder) -> None:
        """Check that a model is the one of the index.

        Raises:
          ValueError: It is another one.
        """
        if embedder.identity != self.info["checkpoint_identity"]:
            raise ValueError(
                f"{self.directory} has vectors of {self.info['checkpoint']} ({self.info['checkpoint_identity']}), and "
                f"{embedder.checkpoint} is another model ({embedder.identity}); give the model of the index, or build "
                "another index"
            )

    def blocks(self) -> "VectorBlocks":
        """Return the blocks of vectors."""
        return VectorBlocks(self)

    def search(
        self,
        embedder: TextEmbedder,
        queries: Sequence[str],
        k: int | None = None,
        *,
        mesh: Mesh | None = None,
    ) -> list[list[RankedPassage]]:
        """Return the passages most similar to each query, the best first.

        Args:
          embedder: Model of the index, from ``open_embedder``.
          queries: Texts without their prompt.
          k: Number of passages; 10 if not given, or as many as there are.
          mesh: Devices over which vectors are split.

        Raises:
          ValueError: A query is empty, or ``k`` is not between 1 and the number of passages.
        """
        if k is not None and not 1 <= k <= len(self):
            raise ValueError(f"top_k={k}: {self.directory} has {len(self):,} passages; give 1 to {len(self)}")
        for index, query in enumerate(queries, start=1):
            if not query.strip():
                raise ValueError(f"query {index} is empty; give a text")
        vectors = embedder.embed(queries, "query")
        if vectors.shape[1] != self.width:
            raise ValueError(
                f"{embedder.checkpoint} makes vectors of width {vectors.shape[1]}, and those of {self.directory} have "
                f"{self.width}; give the model of the index"
            )
        nearest = search_exactly(vectors, self.blocks(), min(k or 10, len(self)), mesh=mesh)
        return [
            [RankedPassage(float(score), self.passage(int(row))) for score, row in zip(*both, strict=True)]
            for both in zip(*nearest, strict=True)
        ]

    def passage(self, row: int) -> Passage:
        """Return a passage by its position.

        Raises:
          ValueError: Its file is damaged.
        """
        for index, size in enumerate(self.block_sizes):
            if row < size:
                return self._passages(index)[row]
            row -= size
        raise IndexError(f"{self.directory} has {len(self)} passages")

    @functools.lru_cache(maxsize=64)  # noqa: B019 - an index lives as long as its process
    def _passages(self, index: int) -> list[Passage]:
        path = _passages_path(self.directory, index)
        content = path.read_bytes()
        stored = _metadata(_vectors_path(self.directory, index))
        if stored is None or hashlib.sha256(content).hexdigest() != stored[0]:
            raise ValueError(
                f"{path} is not what was indexed, it is damaged or changed; run the command that builds the index again"
            )
        with refusing_damage(path):
            return [Passage(**json_object(line)) for line in content.decode().split("\n") if line]


@dataclass(frozen=True)
class VectorBlocks:
    """Blocks of an index's vectors, read one after another each time they are iterated.

    Attributes:
      index: The index.
    """

    index: VectorIndex

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the blocks, float32 or float16 [N, D].

        Raises:
          ValueError: A file is damaged.
        """
        for index, size in enumerate(self.index.block_sizes):
            path = _vectors_path(self.index.directory, index)
            with refusing_damage(path), safe_open(path, framework="numpy") as opened:
                vectors = opened.get_tensor(_TENSOR)
                if vectors.shape != (size, self.index.width):
                    raise ValueError(f"{path} has shape {vectors.shape}, and not {(size, self.index.width)}")
            yield vectors
