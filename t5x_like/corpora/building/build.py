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
    read_manifest,
    what_is_damaged,
    write_manifest,
)
from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.corpora.building.stage_runner import clear_partial_files, run_stages
from t5x_like.corpora.building.stages import is_done, stages_of, tasks_of
from t5x_like.io.beam_runner import RunAll
from t5x_like.io.directory_lock import exclusive_writer
from t5x_like.io.files import as_path, read_json, write_json
from t5x_like.io.paths import find_files

_log = logging.getLogger(__name__)

_STARTED = "started.json"
REPORT = "report.html"  # where ``t5x-like corpus report`` writes it
_SHOWN_DIFFERENCES = 5


class Built(NamedTuple):
    """What came of a build."""

    manifest: dict[str, Any]
    was_finished: bool  # before, and found whole


def build_corpus(
    recipe: CorpusRecipe,
    inputs: str | Sequence[str],
    output: str | os.PathLike[str],
    *,
    workers: int = 1,
    run_all: RunAll | None = None,
    progress: bool = True,
) -> Built:
    """Writes the corpus into ``output``, or goes on with it where it was stopped.

    The same bytes whatever ``workers``, wherever it runs (``run_all``, see ``text/beam.py``), however often it was
    killed; of files that were damaged it takes what they are now. A corpus that is there and whole is left alone; one
    that is damaged is built again. With more than one of the ``workers`` a program needs
    ``if __name__ == "__main__":`` around the call, for they import it.

    Raises:
      ValueError: the folder holds something else, an input file is missing or damaged, or the disk is full.
    """
    files = sorted(dict.fromkeys(find_files(inputs)))
    sizes = [as_path(file).stat().length for file in files]
    folder = os.fspath(output).rstrip("/")
    planned = plan(recipe, folder, files, sizes)
    asked = _asked(planned, files, sizes)
    as_path(folder).mkdir(parents=True, exist_ok=True)
    with exclusive_writer(folder, "corpus"):
        finished = _finished_before(folder, asked)
        if finished is not None:
            return Built(finished, was_finished=True)
        _begin(planned, asked, files)
        try:
            run_stages(planned, files, sizes, workers=workers, run_all=run_all, progress=progress)
        finally:
            clear_partial_files(folder)  # of workers that were ended because another failed
        manifest = write_manifest(planned, asked, files)
        _remove_work(folder)
    if not manifest["input"]["pages"]:
        named = inputs if isinstance(inputs, str) else ", ".join(inputs)
        _log.warning("%s: no page was found in %s; see %s", folder, named, MANIFEST)
    elif not sum(split["pages"] for split in manifest["splits"].values()):
        _log.warning(
            "%s: no page is left of %s; see which step dropped them in %s",
            folder,
            f"{manifest['input']['pages']:,}",
            MANIFEST,
        )
    return Built(manifest, was_finished=False)


def _asked(planned: BuildPlan, files: Sequence[str], sizes: Sequence[int]) -> dict[str, Any]:
    """All that decides about the output."""
    inputs = dict(zip(files, sizes, strict=True))
    return {
        **planned.recipe.in_words(),
        "shards": f"{planned.train_shards} of train, {planned.validation_shards} of validation",
        "partitions": f"{planned.num_train} of train, {planned.num_validation} of validation",
        "input": {
            "bytes": sum(sizes),
            "names and sizes": hashlib.md5(repr(sorted(inputs.items())).encode()).hexdigest(),
            "files": inputs,
        },
    }


def _finished_before(folder: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    if not (as_path(folder) / MANIFEST).exists():
        return None
    manifest = read_manifest(folder)
    _refuse_other(folder, manifest["made from"], asked)
    problem = what_is_damaged(folder, manifest)
    if problem is None:
        _remove_work(folder)  # a kill may have left some of it
        return manifest
    _log.warning("%s: %s; building it again", folder, problem)
    _remove_work(folder)  # its tasks would pass for done
    write_json(as_path(folder) / WORK / _STARTED, asked)
    (as_path(folder) / MANIFEST).unlink()
    return None


def _begin(planned: BuildPlan, asked: Mapping[str, Any], files: Sequence[str]) -> None:
    folder = planned.output
    started = as_path(folder) / WORK / _STARTED
    if started.exists():
        there = read_json(started)
        corrected = _unread(planned, files) if there["input"] != asked["input"] else ()
        _refuse_other(folder, there, asked, corrected)
        clear_partial_files(folder)
        write_json(started, asked)
        return
    foreign = sorted(path.name for path in as_path(folder).iterdir() if path.name != WORK)
    if foreign:
        raise ValueError(
            f"{folder} holds other files ({', '.join(foreign[:3])}); choose another --output, or empty it"
        )
    write_json(started, asked)


def _unread(planned: BuildPlan, files: Sequence[str]) -> set[str]:
    """Files that no finished task has read: they may be others now than when the build began."""
    clean, *later = stages_of(planned)
    if any((as_path(planned.output) / WORK / stage.name).exists() for stage in later):
        return set()  # all have been read, and what came of it may be cleared away
    return {task.file for task in tasks_of(planned, clean, files) if not is_done(task)}


def _refuse_other(
    folder: str, there: Mapping[str, Any], asked: Mapping[str, Any], corrected: Collection[str] = ()
) -> None:
    lines = [
        f"  {name}: it has {there.get(name, 'nothing')}, you ask for {asked.get(name, 'nothing')}"
        for name in dict.fromkeys((*asked, *there))
        if name != "input" and there.get(name) != asked.get(name) and not _is_laxer(name, there, asked)
    ]
    lines += _different_files(there["input"]["files"], asked["input"]["files"], corrected)
    if lines:
        shown = "\n".join(lines)
        raise ValueError(
            f"{folder} holds a corpus made from something else:\n{shown}\nChoose another --output, or delete that "
            "folder to build the corpus anew."
        )


def _is_laxer(name: str, there: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether damage may now be skipped: what is finished had none, or it wouldn't be."""
    return name == "on damage" and (there.get(name), asked.get(name)) == ("fail", "skip")


def _different_files(
    there: Mapping[str, int], asked: Mapping[str, int], corrected: Collection[str]
) -> list[str]:
    lines = [
        f"  input {file}: it was {_bytes(there.get(file))}, now it is {_bytes(asked.get(file))}"
        for file in sorted({*there, *asked})
        if there.get(file) != asked.get(file) and not (file in there and file in corrected)
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
