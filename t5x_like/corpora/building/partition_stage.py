"""The pages of one partition, as they stand after any number of steps: what every stage after the first begins with.

First the newest version of each page; later the pages without what the last rule for duplicates took away.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from t5x_like.corpora.building import cleaning_stage
from t5x_like.corpora.building.blocks import BlockWriter, read_blocks
from t5x_like.corpora.building.build_plan import BuildPlan
from t5x_like.corpora.building.duplicate_stages import read_gone, stage_name, write_keys
from t5x_like.corpora.building.pages_between import (
    Standing,
    Version,
    read_standing,
    unpack_versions,
    write_standing,
)
from t5x_like.corpora.building.recipe import UniqueUrls
from t5x_like.corpora.building.tally import Outcome, Tally, apply_rules, rule_failed
from t5x_like.corpora.duplicates.duplicate_rule import KEY, DuplicateRule
from t5x_like.corpora.rules.rule import Dropped


def draw_keys(plan: BuildPlan, partition: int, step: int) -> dict[str, Any]:
    """Writes a partition's pages as they come to a rule for duplicates, and their keys; returns counts."""
    rule: DuplicateRule = plan.recipe.steps[step]
    tally = Tally(len(plan.recipe.steps))
    keys = [np.zeros(0, KEY)]

    def pages() -> Iterator[Standing]:
        for number, standing in enumerate(standing_before(plan, partition, step, tally)):
            try:
                drawn = rule.keys(standing.page, standing.place)
            except Exception as error:
                raise rule_failed(rule.NAME, standing.page, error) from error
            drawn["partition"], drawn["page"] = partition, number
            keys.append(drawn)
            yield standing

    with BlockWriter(plan.path(stage_name("pages", step), partition, "pages"), num_readers=1) as writer:
        write_standing(writer, pages())
    num_keys = write_keys(plan, partition, step, np.concatenate(keys))
    return {"tally": tally.to_json(), "keys": num_keys}


def standing_before(plan: BuildPlan, partition: int, step: int, tally: Tally) -> Iterator[Standing]:
    """A partition's pages in the order of their addresses' digests, as they come to the ``step``-th step."""
    earlier = [number for number in plan.recipe.duplicate_rules if number < step]
    if not earlier:
        yield from _newest(plan, partition, tally)
        return
    last = earlier[-1]
    rules = plan.recipe.page_rules(last + 1, step)
    numbers = [last, *(number for number, _ in rules)]
    for standing, removed in _after_removal(plan, partition, last, tally):
        tally.see(removed.seen)
        outcome = removed
        if removed.dropped is None:
            outcome = apply_rules(rules, removed.page)
            tally.see(outcome.seen)
        tally.count(numbers, outcome.dropped)
        if outcome.dropped is None:
            yield Standing(standing.place, outcome.page)
        else:
            tally.sample(outcome.dropped, standing.place.url_digest, standing.page.url, outcome.page.text)


def _after_removal(
    plan: BuildPlan, partition: int, step: int, tally: Tally
) -> Iterator[tuple[Standing, Outcome]]:
    rule: DuplicateRule = plan.recipe.steps[step]
    gone = read_gone(plan, partition, step)
    pages = read_standing(plan.path(stage_name("pages", step), partition, "pages"))
    all_parts = gone["part"].astype(np.int64)
    starts = np.searchsorted(gone["page"], np.arange(int(gone["page"].max(initial=0)) + 2)).tolist()
    for number, standing in enumerate(pages):
        first, end = starts[number : number + 2] if number + 1 < len(starts) else (0, 0)
        counts: Counter[str] = Counter()
        parts = all_parts[first:end]
        try:
            result = rule.remove(standing.page, parts, counts)
        except Exception as error:
            raise rule_failed(rule.NAME, standing.page, error) from error
        if len(parts):
            tally.repeated[step].add(rule.texts(standing.page, parts))
        seen = tuple((step, name, count) for name, count in counts.items())
        if isinstance(result, Dropped):
            yield standing, Outcome(standing.page, (step, result.reason), seen)
        else:
            yield standing, Outcome(result, None, seen)


def _newest(plan: BuildPlan, partition: int, tally: Tally) -> Iterator[Standing]:
    """Sorted by address, one page an address if the recipe says so, tombstones counted and left out."""
    versions: list[Version] = []
    for path in plan.sources(cleaning_stage.STAGE, "pages", plan.num_files):
        for block in read_blocks(path, partition):
            versions += unpack_versions(block)
    versions.sort(key=lambda version: version[:8])
    unique = plan.recipe.unique_urls
    if unique is None:
        for version in versions:
            yield Standing(version.place, version.page)
        return
    rules = plan.recipe.page_rules(unique + 1, cleaning_stage.first_duplicate_rule(plan))
    numbers = [unique, *(number for number, _ in rules)]
    for _, group in itertools.groupby(versions, key=lambda version: version.url_digest):
        *older, newest = group
        for version in older:
            _count_older(version, unique, tally)
        tally.see(newest.seen)
        tally.count(numbers, newest.dropped)
        if newest.dropped is None:
            yield Standing(newest.place, newest.page)
        elif newest.is_sample:
            tally.sample(newest.dropped, newest.url_digest, newest.url, newest.text)


def _count_older(version: Version, unique: int, tally: Tally) -> None:
    fate = (unique, UniqueUrls.REASON)
    tally.count([unique], fate)
    if version.text:
        tally.sample(fate, version.url_digest, version.url, version.text)
