"""Take the next undecided runs of the plan, for as long as there is time, and write what they decide.

    python -m benchmarks.findings --minutes 60 --text corpus/open_docs --runs runs/findings

The plan is ``benchmarks/findings/plan.toml``. Each run is kept in ``benchmarks/results/findings_runs.jsonl``, failed
ones too; pairs that have all their seeds are decided in ``findings.json``. A later call continues, on this machine or
another. ``--dry_run`` says what is left. ``--results`` and ``--first_seed`` repeat a finding apart from those results.
"""

import argparse
import functools
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.commands import command
from benchmarks.findings.plan import Finding, read_plan
from benchmarks.findings.verdicts import pair_entries, planned_runs
from benchmarks.machine import about
from t5x_like.io.files import read_json, read_jsonl, write_json

RESULTS = Path(__file__).resolve().parents[1] / "results"
_STOP_SECONDS = 120  # in which an interrupted sweep saves


def main() -> None:
    """Run what fits into the time, and write verdicts after each sweep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="time for runs (60)")
    parser.add_argument("--text", type=Path, metavar="DIR", help="corpus: files train* and validation*")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/findings"), metavar="DIR", help="where runs are written"
    )
    parser.add_argument("--names", nargs="+", metavar="FINDING", help="of the plan's findings, these")
    parser.add_argument("--only", nargs="+", default=[], metavar="SETTING", help="of their settings, these")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time (2)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where results are kept")
    parser.add_argument("--first_seed", type=int, default=0, metavar="N", help="seed of the first run (0)")
    parser.add_argument("--dry_run", action="store_true", help="say what is left, and stop")
    arguments = parser.parse_args()
    plan = [
        replace(
            finding,
            first_seed=arguments.first_seed,
            settings=tuple(arguments.only) or finding.settings,
        )
        for finding in read_plan()
        if finding.name in (arguments.names or [finding.name])
    ]
    unknown = set(arguments.names or ()) - {finding.name for finding in plan}
    if unknown:
        parser.error(f"the plan has no finding {unknown.pop()!r}")
    for finding in plan:
        if not finding.pairs(finding.comparison()):
            parser.error(f"{finding.name} has no pair of {', '.join(map(repr, arguments.only))}")
        if finding.needs_text and arguments.text is None and not arguments.dry_run:
            parser.error(
                f"{finding.name} reads a corpus: give its folder, --text DIR (data/prepare/open_docs.py)"
            )
    queue = Queue(plan, arguments.results)
    if arguments.dry_run:
        for finding, seed, settings in queue.missing():
            print(f"{finding.name}, seed {seed}: {', '.join(settings)}")
        return
    deadline = time.monotonic() + 60 * arguments.minutes
    while (sitting := queue.next(deadline - time.monotonic(), arguments.jobs)) is not None:
        finding, seed, settings = sitting
        queue.add(sweep(finding, seed, settings, arguments, seconds=deadline - time.monotonic()))
        queue.write_verdicts()
    for entry in queue.write_verdicts():
        low, high = entry["interval"]
        print(
            f"{entry['finding']}: {entry['better']} over {entry['worse']}: {entry['difference']:+.3g} "
            f"[{low:+.3g}, {high:+.3g}], {entry['verdict']}"
        )


class Queue:
    """The plan's runs that are not yet made, and the files of those that are.

    Args:
      plan: Findings, the first first.
      folder: Where ``findings_runs.jsonl`` and ``findings.json`` lie.
    """

    def __init__(self, plan: Sequence[Finding], folder: Path):
        self._plan, self._folder = plan, folder
        self._file = folder / "findings_runs.jsonl"
        self._runs: list[Mapping[str, Any]] = list(read_jsonl(self._file)) if self._file.exists() else []
        self._tried: set[tuple[str, int, str]] = set()  # in this sitting; failed ones are not tried again

    def missing(self) -> Iterator[tuple[Finding, int, list[str]]]:
        """Yield each finding and seed that lacks settings, with those settings."""
        for finding in self._plan:
            done = {(run["seed"], run["setting"]) for run in planned_runs(finding, self._runs)}
            pairs = finding.pairs(finding.comparison())
            settings = dict.fromkeys(setting for pair in pairs for setting in (pair.better, pair.worse))
            for seed in finding.run_seeds:
                left = [
                    setting
                    for setting in settings
                    if (seed, setting) not in done and (finding.name, seed, setting) not in self._tried
                ]
                if left:
                    yield finding, seed, left

    def next(self, seconds: float, jobs: int) -> tuple[Finding, int, list[str]] | None:
        """Return the next runs that fit into the time; None if none do.

        Args:
          seconds: Time that is left.
          jobs: Runs at the same time.
        """
        for finding, seed, settings in self.missing():
            num_fitting = jobs * int(seconds // self._seconds_of(finding))
            if num_fitting > 0:
                settings = settings[:num_fitting]
                self._tried |= {(finding.name, seed, setting) for setting in settings}
                return finding, seed, settings
        return None

    def add(self, runs: Sequence[Mapping[str, Any]]) -> None:
        """Keep runs, finished and failed ones.

        Args:
          runs: As ``sweep`` returns them.
        """
        self._runs += runs
        with self._file.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(run, ensure_ascii=False) + "\n" for run in runs)

    def write_verdicts(self) -> list[dict[str, Any]]:
        """Write and return the pairs that are decided, or that all seeds left undecided."""
        entries = [
            entry
            for finding in self._plan_of_results()
            for entry in pair_entries(finding, finding.comparison(), self._runs)
        ]
        write_json(self._folder / "findings.json", entries)
        return entries

    def _plan_of_results(self) -> list[Finding]:
        """Return all findings of the plan, those of this sitting with its seeds."""
        own = {finding.name: finding for finding in self._plan}
        return [own.get(finding.name, finding) for finding in read_plan()]

    def _seconds_of(self, finding: Finding) -> float:
        """Return the median of the seconds that earlier runs of a finding took, or a guess."""
        seconds = [run["seconds"] for run in self._runs if run["finding"] == finding.name]
        return statistics.median(seconds) if seconds else 240.0


def sweep(
    finding: Finding, seed: int, settings: Sequence[str], arguments: argparse.Namespace, *, seconds: float
) -> list[dict[str, Any]]:
    """Run settings with one seed, and return a line for each that finished or failed.

    Args:
      finding: A finding of the plan.
      seed: Of all runs.
      settings: Of the comparison.
      arguments: Text, folder and jobs.
      seconds: Time after which runs are stopped; they continue in the same folder.
    """
    output = arguments.runs / finding.name / f"seed_{seed}"
    flags = finding.sweep_flags(seed, arguments.text)
    flags += [f"--output={output}", f"--jobs={arguments.jobs}", "--only", *settings]
    start, facts = time.monotonic(), about()
    process = subprocess.Popen(command("sweep", finding.gin_file, *flags))
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=_STOP_SECONDS)
    if not (output / "results.json").is_file():
        raise SystemExit(f"{finding.name}: the sweep made no run; see its message above")
    content = read_json(output / "results.json")
    ended = [run for run in content["runs"] if run["settings"]["setting"] in settings]
    each = (time.monotonic() - start) * min(arguments.jobs, len(settings)) / len(settings)
    return [
        {
            "finding": finding.name,
            "setting": run["settings"]["setting"],
            "seed": seed,
            "status": run["status"],
            "metric": content["metric"],
            "score": run["score"],
            "steps": [_last_step(folder) for folder in _stages(Path(run["directory"]))],
            "parameters": run["num_parameters"],
            "seconds": round(each),
            "macros": list(finding.macros),
            "text": _text_and_size(arguments.text) if finding.needs_text else None,
            "device": _device() or facts["processor"],
            "commit": facts["commit"],
            "date": facts["date"],
        }
        for run in ended
        if run["status"] in ("finished", "failed")
    ]


def _text_and_size(folder: Path) -> str:
    size = sum(file.stat().st_size for file in folder.glob("train*"))
    return f"{folder.name}, {size:,} bytes"


@functools.cache
def _device() -> str:
    """Return the accelerator that runs use; empty for CPUs. In a process of its own, which frees its memory."""
    program = "import jax; device = jax.devices()[0]; print(device.platform, device.device_kind)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    platform, _, kind = answer.stdout.strip().splitlines()[-1].partition(" ")
    return "" if platform == "cpu" else kind


def _stages(directory: Path) -> list[Path]:
    """Return the folders of a run's stages: of two if it is a second run."""
    return [directory.parent / "initial", directory] if directory.name == "final" else [directory]


def _last_step(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    return max((line.get("step", 0) for line in read_jsonl(file)), default=0) if file.is_file() else 0


if __name__ == "__main__":
    main()
