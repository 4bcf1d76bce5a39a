"""Feed damaged files of every format to its reader, and count what the reader says.

    python -m benchmarks.fuzz                                      2,000 inputs, about a minute
    python -m benchmarks.fuzz --format_seconds 200 --output fuzz   a long run; failing files are kept in fuzz/failures
    python -m benchmarks.fuzz --format tokenizer gguf --seed 3
    python -m benchmarks.fuzz --format gguf --file fuzz/failures/gguf-17    one file again, with the whole error

A reader may read a damaged file, or refuse it by a ValueError or OSError that names the file. All else is a failure:
another error, a message without the file, more than five seconds for a file, more memory than ``--max_memory``.
Prints a JSON object with the counts of each format; exits with 1 if there is a failure.
"""

import argparse
import copy
import faulthandler
import json
import logging
import math
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.fuzz_formats import Format, formats
from benchmarks.machine import about
from t5x_like.gin_config.user_error import UserError

_NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    127,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**63,
    2**64,
    10**400,
)
_VALUES: tuple[Any, ...] = (
    *_NUMBERS, None, True, False, 0.5, 1e308, -1e-308, "", "x", "\x00", "\ud800", "../../etc/passwd", "9" * 50,
    [], {}, [0], [[]], {"x": 0}, {"type": "x"}, {"$class": "os:system"},
)  # fmt: skip
_WORDS = (
    b"\x00", b"\xff\xff\xff\xff", b"\xff" * 8, b"\x00" * 8, b"\x7f\xff\xff\xff", b"\x80", b"\xe2\x82", b"\xef\xbb\xbf",
    b"\n", b"\r\n", b"\r\n\r\n", b"\t",
    b'"', b"'", b"(", b")", b"[", b"]", b"{", b"}", b"%", b"@", b",", b":", b"=", b"\\",
    b"[" * 2000, b"(" * 300, b"9" * 5000, b"import os\n", b"include 'run.gin'\n", b"@files.write_text()", b"NaN", b"-1",
    b"1e999", b"\x1f\x8b\x08\x00", b"PK\x03\x04", b"Content-Length: 99999999999\r\n", b"WARC/1.0\r\n", b"</html>" * 50,
)  # fmt: skip
_DEPTH = 100_000


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return a damaged copy of a file: JSON is mostly changed as values, all else as bytes."""
    if content.lstrip()[:1] in (b"{", b"[") and chance.random() < 0.7:
        try:
            return _changed_values(json.loads(content), chance)
        except ValueError:
            pass  # JSON lines
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        content = _changed_bytes(content, chance)
    return content


def _changed_bytes(content: bytes, chance: random.Random) -> bytes:
    at, length = chance.randrange(len(content) + 1), chance.choice((1, 1, 2, 4, 8, 64, 1024))
    before, part, after = content[:at], content[at : at + length], content[at + length :]
    match chance.randrange(8):
        case 0:
            return before + bytes(byte ^ 1 << chance.randrange(8) for byte in part[:1]) + part[1:] + after
        case 1:
            return before + after
        case 2:
            return before + part + part * chance.choice((1, 2, 50)) + after
        case 3:
            return before + chance.choice(_WORDS) + part + after
        case 4:
            word = chance.choice(_WORDS)
            return before + word + content[at + len(word) :]
        case 5:
            return before
        case 6:
            number, size = chance.choice(_NUMBERS), chance.choice((1, 2, 4, 8))
            return before + (number % 256**size).to_bytes(size, "little") + content[at + size :]
        case _:
            start = chance.randrange(len(content) + 1)
            return before + content[start : start + length] + after


def _changed_values(value: Any, chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        places = list(_places(value))
        if not places:
            break
        owner, key = chance.choice(places)
        match chance.randrange(6):
            case 0 if isinstance(owner, dict):
                del owner[key]
            case 1 if isinstance(owner, dict):
                owner[f"{key}{chance.choice('x_1')}"] = owner.pop(key)
            case 2:
                other, name = chance.choice(places)
                owner[key] = copy.deepcopy(other[name] if _has(other, name) else None)
            case _:
                owner[key] = copy.deepcopy(chance.choice(_VALUES))
    if chance.random() < 0.01:
        value = chance.choice(([], "x", 3, None))
    if chance.random() < 0.01:
        return b"[" * _DEPTH + b"]" * _DEPTH
    text = json.dumps(value)
    if chance.random() < 0.03:
        text = text.replace("{", '{"x": 1, "x": 2, ', 1)
    return text.encode()


def _places(value: Any) -> Any:
    """Yield the containers of a JSON value with their keys, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _has(owner: Any, key: Any) -> bool:
    return key in owner if isinstance(owner, dict) else key < len(owner)


def verdict(read: Callable[[Path], object], home: Path, file: str) -> str:
    """Read a file, and return ``read``, ``refused``, or a failure in words."""
    try:
        read(home)
    except (ValueError, OSError) as error:
        names_it = isinstance(error, UserError) or file in str(error) or str(home) in str(error)
        return "refused" if names_it else f"the message names no file: {traceback.format_exc()}"
    except (KeyboardInterrupt, SystemExit) as error:
        return f"{type(error).__name__} by the file"
    except BaseException:  # panics, too
        return traceback.format_exc()
    return "read"


def fuzz(
    name: str,
    file_format: Format,
    *,
    inputs: int,
    format_seconds: float,
    seed: int,
    home: Path,
    kept: Path | None,
) -> dict[str, Any]:
    """Return the counts of one format, and its failures by number.

    Args:
      name: Name of the format.
      file_format: The format.
      inputs: Damaged files to read, at most.
      format_seconds: Time after which no more are read.
      seed: Decides the damage, with the name.
      home: Directory for the files.
      kept: Directory for failing files; ``None`` keeps none.
    """
    chance = random.Random(f"{name} {seed}")
    for content, others in file_format.seeds:
        for file, each in {**others, file_format.file: content}.items():
            (home / file).write_bytes(each)
        if (whole := verdict(file_format.read, home, file_format.file)) != "read":
            raise RuntimeError(f"a whole file of the format {name} can't be read: {whole}")
    counts = {"inputs": 0, "read": 0, "refused": 0, "slowest_seconds": 0.0}
    failures: dict[str, str] = {}
    begun = time.perf_counter()
    for index in range(inputs):
        if time.perf_counter() - begun > format_seconds:
            break
        counts["inputs"] += 1
        content, others = file_format.seeds[index % len(file_format.seeds)]
        damaged = mutated(content, chance)
        for file, each in {**others, file_format.file: damaged}.items():
            (home / file).write_bytes(each)
        faulthandler.dump_traceback_later(20 * file_format.max_seconds, exit=True)
        start = time.perf_counter()
        result = verdict(file_format.read, home, file_format.file)
        seconds = time.perf_counter() - start
        faulthandler.cancel_dump_traceback_later()
        counts["slowest_seconds"] = max(counts["slowest_seconds"], round(seconds, 3))
        if seconds > file_format.max_seconds:
            result = f"it took {seconds:.1f} s"
        if result in ("read", "refused"):
            counts[result] += 1
        else:
            failures[f"{name}-{index}"] = result
            if kept is not None:
                kept.mkdir(parents=True, exist_ok=True)
                (kept / f"{name}-{index}").write_bytes(damaged)
    rate = round(counts["inputs"] / (time.perf_counter() - begun), 1)
    return {**counts, "failed": len(failures), "inputs_per_second": rate, "failures": failures}


def main() -> int:
    """Run as the flags say; see the module's first lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--inputs", type=int, help="in all, shared by the formats (2000 without --format_seconds)"
    )
    parser.add_argument("--format_seconds", type=float, help="end each format after that time")
    parser.add_argument("--format", nargs="+", default=[], help="some formats only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", help="read this file as --format, without changes")
    parser.add_argument("--output", type=Path, help="folder for results.json and failing files")
    parser.add_argument(
        "--max_memory", type=int, default=4, help="GiB of addresses beyond the start (%(default)s)"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        known = formats(Path(folder))
        chosen = {name: known[name] for name in arguments.format or known}
        _limit_memory(arguments.max_memory)
        if arguments.file:
            home = _empty(folder)
            (file_format,) = chosen.values()
            for name, content in file_format.seeds[0][1].items():
                (home / name).write_bytes(content)
            shutil.copyfile(arguments.file, home / file_format.file)
            file_format.read(home)
            return 0
        seconds = arguments.format_seconds or math.inf
        inputs = arguments.inputs or (2000 if seconds == math.inf else sys.maxsize)
        kept = arguments.output and arguments.output / "failures"
        begun, results = time.perf_counter(), {}
        with _QuietPanics():
            for name, file_format in chosen.items():
                results[name] = fuzz(
                    name, file_format, inputs=-(-inputs // len(chosen)), format_seconds=seconds, seed=arguments.seed,
                    home=_empty(folder), kept=kept,
                )  # fmt: skip
                print("{failed} of {inputs} failed".format(**results[name]), f"({name})", file=sys.stderr)
    seconds = time.perf_counter() - begun
    failed = sum(each["failed"] for each in results.values())
    inputs = sum(each["inputs"] for each in results.values())
    result = {"inputs": inputs, "failed": failed, "seconds": round(seconds, 1), "seed": arguments.seed}
    result |= {
        "inputs_per_second": round(inputs / seconds, 1),
        "about": about(num_cores=1),
        "formats": results,
    }
    text = json.dumps(result, indent=2)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "results.json").write_text(text + "\n")
    print(text)
    return 1 if failed else 0


def _empty(folder: str) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


def _limit_memory(gibibytes: int) -> None:
    """Let allocations beyond the present size fail, in place of the machine."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + gibibytes * 2**30
    hard = resource.getrlimit(resource.RLIMIT_AS)[
        1
    ]  # stays: processes that readers start set their own limits
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


class _QuietPanics:
    """Libraries in Rust print each panic; the count says enough."""

    def __enter__(self) -> None:
        self._kept = os.dup(2)
        self._null = os.open(os.devnull, os.O_WRONLY)
        sys.stderr.flush()
        sys.stderr = os.fdopen(os.dup(self._kept), "w")
        os.dup2(self._null, 2)

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()
        sys.stderr = sys.__stderr__
        os.dup2(self._kept, 2)


if __name__ == "__main__":
    sys.exit(main())
