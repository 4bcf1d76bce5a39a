"""MRPC in Microsoft's files: one training file, from which ``dev_ids.tsv`` selects GLUE's validation pairs."""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial

from t5x_like.io.paths import find_file
from t5x_like.text.benchmarks.tsv import class_number
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.rows import BadRow, RawRow, Row, expand, partition

TRAIN, TEST, LISTED = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "dev_ids.tsv"


@dataclass(frozen=True, kw_only=True)
class ParaphraseFiles:
    """Reader of MRPC's files.

    They are ``msr_paraphrase_train.txt`` (train), ``dev_ids.tsv`` (validation) and ``msr_paraphrase_test.txt`` (test).
    The first two must be in the same folder. A row's ``idx`` is its position in the file with the texts. Test rows are
    read without their label, as in GLUE's server and TFDS.
    """

    classes: tuple[str, ...]

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``.

        Raises:
          ValueError: The other file is missing or has other columns.
        """
        folder = os.path.dirname(file)
        listed = None if split == "test" else _pairs(find_file(os.path.join(folder, LISTED)))
        texts = file if split == "test" else find_file(os.path.join(folder, TRAIN))
        for index, row in enumerate(read_rows(texts, "tsv")):
            read = partial(self._rows, index, split, listed)
            yield from expand([row], read, check=partial(_check_columns, texts))

    def _rows(
        self, index: int, split: str, listed: Collection[tuple[str, str]] | None, row: Row
    ) -> Iterator[RawRow]:
        cells, is_test = row.cells, listed is None
        if listed is not None and ((cells["#1 ID"], cells["#2 ID"]) in listed) != (split == "validation"):
            return
        label = class_number(None if is_test else cells.get("Quality", ""), self.classes)
        sentences = {"sentence1": cells["#1 String"], "sentence2": cells["#2 String"]}
        yield RawRow({**sentences, "label": label, "idx": index}, row.location)


def _check_columns(file: str, row: Row) -> None:
    missing = [name for name in ("#1 ID", "#2 ID", "#1 String", "#2 String") if name not in row.cells]
    if missing:
        raise ValueError(f"{file}: no column {missing[0]!r}; the columns are {', '.join(row.cells)}")


def _pairs(file: str) -> set[tuple[str, str]]:
    rows = read_rows(file, "tsv", columns=("first", "second"))
    return {(row.cells["first"], row.cells["second"]) for row in partition(rows)[0]}
