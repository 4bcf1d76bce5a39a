"""Measure the memory of `t5x-like predict` on tables of more and more rows.

    python -m benchmarks.predict_memory --run RUN --table rows.csv --output benchmarks/results/predict_memory_NAME.json

Repeats the rows of a CSV table, as CSV and as parquet, and predicts each table in a process of its own.
"""

import argparse
import csv
import json
import tempfile
from itertools import cycle, islice
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet

from benchmarks.convert_memory import peak_memory
from benchmarks.machine import about
from t5x_like.io.files import write_json

_PREDICT = "from t5x_like.cli.main import main; code = main(['predict', *sys.argv[1:]])"


def write_tables(table: Path, number: int, folder: Path) -> dict[str, Path]:
    """Write ``number`` rows of a table as CSV and as parquet, and return the files by format.

    Args:
      table: CSV file with names of columns, whose rows are repeated.
      number: Rows to write.
      folder: Folder of the files.
    """
    with table.open(encoding="utf-8", newline="") as lines:
        names, *rows = csv.reader(lines)
    files = {format: folder / f"rows_{number}.{format}" for format in ("csv", "parquet")}
    with files["csv"].open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([names, *islice(cycle(rows), number)])
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(files["csv"]), files["parquet"])
    return files


def main() -> None:
    """Predict all tables, and print peak memory and seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True, metavar="DIR")
    parser.add_argument("--table", required=True, type=Path, metavar="FILE")
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20_000, 200_000])
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in arguments.rows:
            for format, file in write_tables(arguments.table, number, Path(folder)).items():
                flags = ["--checkpoint", arguments.run, "--input", str(file)]
                output = Path(folder) / f"predicted_{number}.{format}"
                runs[f"{number:,} rows of {format}"] = peak_memory(
                    _PREDICT, *flags, "--output", str(output)
                ) | {"file_mb": round(file.stat().st_size / 1e6, 2)}
    result = {**about(), "runs": runs}
    print(json.dumps(result, indent=2))
    if arguments.output:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
