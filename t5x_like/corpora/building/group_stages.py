"""The stages that group linked pages: rounds of a large and a small star each, until nothing is left to change.

A task has the links of the pages in one range of partitions. Rounds are counted from 1. Their number depends on the
links, so the runner adds a round as long as the last one found pages that aren't settled.
"""

import numpy as np

from t5x_like.corpora.building.blocks import BlockWriter, read_blocks
from t5x_like.corpora.building.build_plan import PARTITIONS_A_RANGE, WORK, BuildPlan, gathering
from t5x_like.corpora.duplicates.page_groups import (
    LATER,
    PAGE,
    all_but_first_pages,
    large_stars,
    num_unsettled,
    small_stars,
)
from t5x_like.io.files import as_path

KIND = "links"


def round_name(kind: str, step: int, number: int) -> str:
    """Return the name of a stage such as ``large-3-1``.

    Args:
      kind: ``large`` or ``small``.
      step: Index of the step, from 0; names count from 1.
      number: The round, from 1.
    """
    return f"{kind}-{step + 1}-{number}"


def begun_rounds(plan: BuildPlan, step: int) -> int:
    """Return the number of rounds that an earlier attempt of the build has begun, at least 1.

    Args:
      plan: The build.
      step: Index of the step.
    """
    rounds = 1
    while (as_path(plan.output) / WORK / round_name("small", step, rounds)).exists():
        rounds += 1
    return rounds


def write_links(plan: BuildPlan, path: str, links: np.ndarray) -> None:
    """Write links for the ranges of both pages.

    Args:
      plan: The build.
      path: The file.
      links: ``PAGE`` [links, 2].
    """
    later, earlier = _range_of(links).T
    other = later != earlier
    with BlockWriter.open(path, num_readers=plan.num_ranges) as writer:
        writer.write_rows(np.concatenate([links, links[other]]), np.concatenate([later, earlier[other]]))


def make_large_stars(plan: BuildPlan, stage: str, number: int, source: str) -> dict[str, object]:
    """Rewrite the links of a range's pages, and count the pages that aren't settled.

    Args:
      plan: The build.
      stage: Name of the stage.
      number: Index of the range.
      source: Name of the stage that wrote the links.
    """
    links = _read_links(plan, source, number)
    is_own = _range_of(links) == number
    new = large_stars(links, is_own)
    with BlockWriter.open(plan.path(stage, number, KIND), num_readers=plan.num_ranges) as writer:
        writer.write_rows(new, _range_of(new)[:, LATER])
    return {"links": len(links), "unsettled": num_unsettled(links, is_own)}


def make_small_stars(plan: BuildPlan, stage: str, number: int, source: str) -> dict[str, object]:
    """Rewrite the links of a range's later pages.

    Args:
      plan: The build.
      stage: Name of the stage.
      number: Index of the range.
      source: Name of the stage that wrote the links.
    """
    links = small_stars(_read_links(plan, source, number))
    write_links(plan, plan.path(stage, number, KIND), links)
    return {"links": len(links)}


def read_later_pages(plan: BuildPlan, number: int, source: str) -> np.ndarray:
    """Return ``KEY`` [pages]: the pages of a range that aren't the first of their groups.

    Args:
      plan: The build.
      number: Index of the range.
      source: Name of the stage that wrote the settled links.
    """
    return all_but_first_pages(_read_links(plan, source, number))


def _read_links(plan: BuildPlan, source: str, number: int) -> np.ndarray:
    stage = source.removeprefix(gathering(""))
    count = plan.num_partitions if stage.startswith("match") else plan.num_ranges
    paths = plan.sources(stage, KIND, count)
    return np.frombuffer(
        b"".join(block for path in paths for block in read_blocks(path, number)), PAGE
    ).reshape(-1, 2)


def _range_of(links: np.ndarray) -> np.ndarray:
    """Return uint32 [links, 2]: the range of each page's partition."""
    return links["partition"] // np.uint32(PARTITIONS_A_RANGE)
