"""Pages from parquet files: one for each row, read in small batches of rows."""

from collections.abc import Iterator
from typing import IO

from t5x_like.corpora.pages.crawled_page import LocatedPage
from t5x_like.corpora.pages.page_fields import Fields, page_of
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import DecompressionLimits

_ROWS = 256


def read_parquet(
    stream: IO[bytes], log: FileLog, *, fields: Fields, max_page_bytes: int, limits: DecompressionLimits
) -> Iterator[LocatedPage]:
    """Yield the pages of one file.

    Args:
      stream: The file.
      log: Log of the file.
      fields: Names of the columns.
      max_page_bytes: Longest text, in characters.
      limits: Limits of the decompressed size.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    import pyarrow

    log.count("parquet-file")
    rows = _rows(stream, log, fields, limits)
    position = 0
    while True:
        try:
            row = next(rows, None)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).partition("\n")[0][:300]
            log.damage("corrupt", position + 1, f"not a parquet file that can be read: {reason}")
            return
        if row is None:
            return
        position += 1
        text = row.get(fields.text)
        if isinstance(text, str) and len(text) > max_page_bytes:
            log.damage("too_long", position, f"longer than the {max_page_bytes:,} of max_page_bytes")
            continue
        page = page_of(row, position, fields, log)
        if page is not None:
            log.count("passed")
            yield LocatedPage(position, page)


def _rows(
    stream: IO[bytes], log: FileLog, fields: Fields, limits: DecompressionLimits
) -> Iterator[dict[str, object]]:
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(stream)
    columns = table.schema_arrow.names
    if fields.text not in columns:
        log.damage(
            "no_column",
            None,
            f"no column {fields.text!r}; the columns are {', '.join(columns) or 'none'}; name it by text_field",
        )
        return
    groups = [table.metadata.row_group(group_index) for group_index in range(table.metadata.num_row_groups)]
    compressed = sum(
        group.column(column).total_compressed_size for group in groups for column in range(group.num_columns)
    )
    decompressed = sum(group.total_byte_size for group in groups)
    if exceeded := limits.exceeded(compressed, decompressed):
        log.damage("bomb", None, f"the file {exceeded}")
        return
    for batch in table.iter_batches(_ROWS, columns=[name for name in fields.names if name in columns]):
        yield from batch.to_pylist()
