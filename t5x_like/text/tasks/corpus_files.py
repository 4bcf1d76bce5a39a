"""Files of a corpus written by ``t5x-like corpus build``, as the files of a task."""

import re
from collections.abc import Iterator, Mapping

from t5x_like.io.files import as_path, read_json
from t5x_like.text.tasks.row_files import ROW_ENDINGS
from t5x_like.value_types import fits

_MANIFEST = "manifest.json"
_SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<of>\d{5})(?P<ending>\.[a-z_.]+)")
_SPLITS = ("train", "validation")  # splits of a build


class CorpusFiles(Mapping[str, tuple[str, ...]]):
    """Shards of each split that has pages, read from the directory on access.

    A task can be defined before its corpus is built, or where only a cache of it exists: its splits are then train and
    validation.
    """

    def __init__(self, corpus: str) -> None:
        self.corpus = corpus

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits() if as_path(self.corpus).exists() else _SPLITS)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, split: object) -> bool:
        return split in tuple(self)

    def __getitem__(self, split: str) -> tuple[str, ...]:
        """Return the shards of a split in order.

        Raises:
          ValueError: The directory doesn't exist, isn't a finished corpus, or shards are missing or of another format.
          KeyError: There is no such split.
        """
        if not as_path(self.corpus).exists():
            raise ValueError(
                f"the corpus {self.corpus!r} does not exist; build it (t5x-like corpus build --output {self.corpus})"
            )
        return self._splits()[split]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CorpusFiles) and other.corpus == self.corpus

    def __hash__(self) -> int:
        return hash(self.corpus)

    def __repr__(self) -> str:
        return f"CorpusFiles({self.corpus!r})"

    def _splits(self) -> dict[str, tuple[str, ...]]:
        folder = as_path(self.corpus)
        names = {path.name for path in folder.iterdir()}
        shards = _of_manifest(self.corpus) if _MANIFEST in names else _of_names(self.corpus, names)
        splits: dict[str, tuple[str, ...]] = {}
        for split, files in shards.items():
            missing = [file for file in files if file not in names]
            if missing:
                raise ValueError(
                    f"the corpus {self.corpus!r} lacks {missing[0]}"
                    + f" and {len(missing) - 1} more" * (len(missing) > 1)
                    + "; build it again, which makes what is missing, or copy the whole folder"
                )
            splits[split] = tuple(str(folder / file) for file in files)
        return splits


def _of_manifest(corpus: str) -> dict[str, list[str]]:
    manifest = read_json(as_path(corpus) / _MANIFEST, dict)
    shards = manifest.get("shards")
    if not fits(shards, list[dict]) or not all({"file", "split"} <= set(shard) for shard in shards):
        raise ValueError(f"{corpus}/{_MANIFEST} is not the manifest of a corpus: it lists no shards")
    splits: dict[str, list[str]] = {}
    for shard in shards:
        _check_ending(corpus, shard["file"])
        splits.setdefault(shard["split"], []).append(shard["file"])
    pages = {
        split: sum(shard.get("pages", 1) for shard in shards if shard["split"] == split) for split in splits
    }
    return {split: sorted(files) for split, files in splits.items() if pages[split]}


def _of_names(corpus: str, names: set[str]) -> dict[str, list[str]]:
    shards = [shard for name in names if (shard := _SHARD.fullmatch(name))]
    if not shards:
        raise ValueError(
            f"{corpus!r} is no finished corpus: it has neither {_MANIFEST} nor train-00000-of-00008.jsonl.zst and the "
            "like; repeat t5x-like corpus build, which continues where it stopped, or set files={'train': …} instead"
        )
    splits: dict[str, list[str]] = {}
    for shard in shards:
        _check_ending(corpus, shard.string)
        numbers = range(int(shard["of"]))
        splits[shard["split"]] = [
            f"{shard['split']}-{shard_number:05d}-of-{shard['of']}{shard['ending']}"
            for shard_number in numbers
        ]
    return dict(sorted(splits.items()))


def _check_ending(corpus: str, file: str) -> None:
    if not file.endswith(ROW_ENDINGS):
        raise ValueError(
            f"the corpus {corpus!r} has {file}, whose format a task can't read; build it with format='jsonl.zst'"
        )
