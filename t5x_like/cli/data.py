"""Show which benchmark data are present and where to get what is missing; download them.

t5x-like data status                         every benchmark, split by split
t5x-like data status glue --data_dir data    GLUE's, below the folder data
t5x-like data fetch glue super_glue          download what is missing
"""

import argparse

from t5x_like.text.benchmarks import catalogue, status
from t5x_like.text.benchmarks.downloads import fetch
from t5x_like.text.benchmarks.split_files import data_directory, origins


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like data``."""
    verbs = parser.add_subparsers(dest="what", metavar="status|fetch", required=True)
    show = verbs.add_parser("status", help="rows by split, and what is missing", allow_abbrev=False)
    download = verbs.add_parser("fetch", help="download what is missing", allow_abbrev=False)
    for verb, num_values in ((show, "*"), (download, "+")):
        verb.add_argument(
            "names",
            nargs=num_values,
            metavar="NAME",
            help="a benchmark, a mixture, or a family: glue, super_glue, …",
        )
        verb.add_argument(
            "--data_dir", default=None, metavar="DIR", help="the data's folder ($T5X_LIKE_DATA, or data)"
        )


def run(arguments: argparse.Namespace) -> int:
    """Print the state of the data, or downloads them."""
    folder = data_directory(arguments.data_dir)
    names = status.select_benchmarks(arguments.names)
    if arguments.what == "fetch":
        num_files = fetch(names, folder)
        print(f"fetched {num_files} files into {folder}" if num_files else f"nothing to fetch into {folder}")
        return 0
    print(f"benchmarks below {folder}\n")
    num_missing = 0
    for name in names:
        benchmark = catalogue.benchmark(name)
        print(f"{name}  {benchmark.title}")
        splits = status.status_of(name, folder)
        missing = sum(not each.files for each in splits)
        num_missing += missing
        from_where = [f"  to get them: {' or '.join(origins(benchmark.source))}"] if missing else []
        print("\n".join([*_lines(splits), *from_where]) + "\n")
    if num_missing:
        named = " ".join(arguments.names) or "NAME"
        print(f"{num_missing} splits are missing; t5x-like data fetch {named} --data_dir {folder} downloads")
    return 0


def _lines(splits: list[status.SplitStatus]) -> list[str]:
    width = max(len(each.split) for each in splits)
    lines = []
    for each in splits:
        if not each.files:
            rows = f" ({each.published:,} rows)" * bool(each.published)
            shown = f"missing{rows}: {' or '.join(each.wanted)}"
        else:
            published = ", as published" if each.is_whole else f", of {each.published:,} published"
            shown = f"{each.num_rows:,} rows{published * bool(each.published)}; {each.layout}: {_files(each)}"
        lines.append(f"  {each.split:<{width}}  {shown}")
        lines += [f"  {'':<{width}}  {packed} is there; unpack it" for packed in each.packed]
        if each.fault:
            what = f"{each.num_bad:,} bad rows; first" if each.num_bad else "reading ends with"
            lines.append(f"  {'':<{width}}  {what}: {each.fault}")
    return lines


def _files(each: status.SplitStatus) -> str:
    first, *others = each.files
    return f"{first} and {len(others)} more" if others else first
