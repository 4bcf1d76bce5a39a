"""Builds a corpus in a folder: from the recipe and the input files to shards and a manifest."""

import hashlib
import logging
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.corpora.building.build_plan import WORK, BuildPlan, plan
from t5x_like.corpora.building.corpus_manifest import (
    MANIFEST,
    describe_damage,
    read_manifest,
    write_manifest,
)
from t5x_like.corpora.building.input_files import InputBatch, InputFile, find_input
from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.corpora.building.stage_runner import clear_partial_files, run_stages
from t5x_like.corpora.building.stages import is_done, rounds_of, stages_of, tasks_of
from t5x_like.io.engine import Engine
from t5x_like.io.engines import ProcessEngine
from t5x_like.io.files import as_path, read_json, write_json
from t5x_like.io.paths import names_in
from t5x_like.io.writer_lock import exclusive_writer
from t5x_like.nested_values import one_or_several

_log = logging.getLogger(__name__)

_STARTED = "started.json"
REPORT = "report.html"  # where ``t5x-like corpus report`` writes it
_SHOWN_DIFFERENCES = 5


class BuildResult(NamedTuple):
    """The outcome of a build.

    Attributes:
      manifest: The corpus' manifest.
      was_finished: True if an earlier build had finished the corpus and it is undamaged.
    """

    manifest: dict[str, Any]
    was_finished: bool


def build_corpus(
    recipe: CorpusRecipe,
    inputs: str | Sequence[str],
    output: str | os.PathLike[str],
    *,
    workers: int = 1,
    engine: Engine | None = None,
    progress: bool = True,
) -> BuildResult:
    """Build the corpus in ``output``, or continue an interrupted build.

    The output is the same, byte for byte, for any number of workers, on any engine and after any number of
    interruptions. Input files whose damage was repaired in the meantime are read in their present state. A finished,
    undamaged corpus is left alone; a damaged one is built again.

    With more than one worker, own rules must be in a module that workers can import, not in the main script.

    Args:
      recipe: Steps, input options and output format.
      inputs: Paths or patterns of files, or of folders of HTML, Markdown and text files.
      output: A local folder, or a bucket.
      workers: Number of worker processes.
      engine: Runs the tasks of a stage instead, see ``t5x_like.io.engines.cluster_engine``.
      progress: Show progress on standard error.

    Raises:
      ValueError: The folder holds something else, an input file is missing or damaged, or the disk is full.
    """
    build_input = find_input(inputs, recipe.reading.kind)
    batches = build_input.batches()
    folder = os.fspath(output).rstrip("/")
    planned = plan(recipe, folder, batches)
    requested = _requested(planned, build_input.files)
    as_path(folder).mkdir(parents=True, exist_ok=True)
    with exclusive_writer(folder, "corpus"):
        finished = _finished_before(folder, requested, progress=progress)
        if finished is not None:
            return BuildResult(finished, was_finished=True)
        _begin(planned, requested, batches)
        try:
            run_stages(planned, batches, engine or _processes(workers), progress=progress)
        finally:
            clear_partial_files(folder)  # of workers that were ended after a failure
        manifest = write_manifest(planned, requested, batches, build_input.left_out)
        _remove_work(folder)
    if not manifest["input"]["pages"]:
        _log.warning(
            "%s: no page was found in %s; see %s", folder, ", ".join(one_or_several(inputs)), MANIFEST
        )
    elif not sum(split["pages"] for split in manifest["splits"].values()):
        _log.warning(
            "%s: no page is left of %s; see which step dropped them in %s",
            folder,
            f"{manifest['input']['pages']:,}",
            MANIFEST,
        )
    return BuildResult(manifest, was_finished=False)


def _processes(workers: int) -> Engine:
    return ProcessEngine(num_processes=workers, owner="the build", flag="workers", kept="tasks")


def _requested(planned: BuildPlan, files: Sequence[InputFile]) -> dict[str, object]:
    """Return all settings that determine the output."""
    inputs = {file.name: file.size for file in files}
    return {
        **planned.recipe.describe(),
        "shards": f"{planned.train_shards} of train, {planned.validation_shards} of validation",
        "partitions": f"{planned.num_train} of train, {planned.num_validation} of validation",
        "input": {
            "bytes": sum(file.size for file in files),
            "names and sizes": hashlib.md5(repr(sorted(inputs.items())).encode()).hexdigest(),
            "files": inputs,
        },
    }


def _finished_before(folder: str, requested: Mapping[str, Any], *, progress: bool) -> dict[str, Any] | None:
    if not (as_path(folder) / MANIFEST).exists():
        return None
    manifest = read_manifest(folder)
    _refuse_other(folder, manifest["made from"], requested)
    problem = describe_damage(folder, manifest, progress=progress)
    if problem is None:
        _remove_work(folder)  # a killed build may have left some
        return manifest
    _log.warning("%s: %s; building it again", folder, problem)
    _remove_work(folder)  # its tasks would count as done
    write_json(as_path(folder) / WORK / _STARTED, requested)
    (as_path(folder) / MANIFEST).unlink()
    return None


def _begin(planned: BuildPlan, requested: Mapping[str, Any], batches: Sequence[InputBatch]) -> None:
    folder = planned.output
    started = as_path(folder) / WORK / _STARTED
    if started.exists():
        stored = read_json(started)
        corrected = _unread(planned, batches) if stored["input"] != requested["input"] else ()
        _refuse_other(folder, stored, requested, corrected)
        clear_partial_files(folder)
        write_json(started, requested)
        return
    foreign = [name for name in names_in(folder) if name != WORK]
    if foreign:
        raise ValueError(
            f"{folder} holds other files ({', '.join(foreign[:3])}); choose another output, or empty it"
        )
    write_json(started, requested)


def _unread(planned: BuildPlan, batches: Sequence[InputBatch]) -> set[str]:
    """Return the files that no finished task has read; these may have changed since the build began."""
    clean, *later = stages_of(planned, rounds_of(planned))
    if any((as_path(planned.output) / WORK / stage.name).exists() for stage in later):
        return set()  # all have been read, and the results may be removed
    tasks = zip(tasks_of(planned, clean, batches), batches, strict=True)
    return {file.name for task, batch in tasks if not is_done(task) for file in batch.files}


def _refuse_other(
    folder: str, stored: Mapping[str, Any], requested: Mapping[str, Any], corrected: Collection[str] = ()
) -> None:
    lines = [
        f"  {name}: it has {stored.get(name, 'nothing')}, you ask for {requested.get(name, 'nothing')}"
        for name in dict.fromkeys((*requested, *stored))
        if name != "input"
        and stored.get(name) != requested.get(name)
        and not _is_laxer(name, stored, requested)
    ]
    lines += _different_files(stored["input"]["files"], requested["input"]["files"], corrected)
    if lines:
        shown = "\n".join(lines)
        raise ValueError(
            f"{folder} holds a corpus made from something else:\n{shown}\nChoose another output, or delete that "
            "folder to build the corpus again."
        )


def _is_laxer(name: str, stored: Mapping[str, object], requested: Mapping[str, object]) -> bool:
    """Return True if the request only adds permission to skip damage: finished tasks met none."""
    return name == "on damage" and (stored.get(name), requested.get(name)) == ("fail", "skip")


def _different_files(
    stored: Mapping[str, int], requested: Mapping[str, int], corrected: Collection[str]
) -> list[str]:
    lines = [
        f"  input {file}: it was {_bytes(stored.get(file))}, now it is {_bytes(requested.get(file))}"
        for file in sorted({*stored, *requested})
        if stored.get(file) != requested.get(file) and not (file in stored and file in corrected)
    ]
    more = len(lines) - _SHOWN_DIFFERENCES
    return [*lines[:_SHOWN_DIFFERENCES], *([f"  and {more:,} more input files"] if more > 0 else [])]


def _bytes(size: int | None) -> str:
    return "not among them" if size is None else f"{size:,} bytes"


def _remove_work(folder: str) -> None:
    if "://" in folder:
        work = as_path(folder) / WORK
        if work.exists():
            work.rmtree()
    else:
        shutil.rmtree(os.path.join(folder, WORK), ignore_errors=True)
