"""The pages of one partition after any number of steps: the input of every stage after the first.

The first of these stages takes the newest version of each page; later ones apply the removals of the last rule for
duplicates.
"""

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np

from t5x_like.corpora.building import cleaning_stage
from t5x_like.corpora.building.blocks import BlockWriter, read_blocks
from t5x_like.corpora.building.build_plan import BuildPlan
from t5x_like.corpora.building.duplicate_stages import read_removed, stage_name, write_keys
from t5x_like.corpora.building.intermediate_pages import (
    PageVersion,
    RemainingPage,
    read_remaining_pages,
    unpack_versions,
    write_remaining_pages,
)
from t5x_like.corpora.building.recipe import UniqueUrls
from t5x_like.corpora.building.tally import RuleOutcome, Tally, apply_rules, page_blocks, rule_failed
from t5x_like.corpora.duplicates.duplicate_rule import KEY, DuplicateRule


def compute_keys(plan: BuildPlan, partition: int, step: int) -> dict[str, object]:
    """Write a partition's pages as they come to a rule for duplicates, and their keys; return counts.

    Args:
      plan: The build.
      partition: The partition.
      step: Index of the rule for duplicates.
    """
    rule: DuplicateRule = plan.recipe.steps[step]
    tally = Tally(len(plan.recipe.steps))
    keys = [np.zeros(0, KEY)]

    def pages() -> Iterator[RemainingPage]:
        for index, remaining in enumerate(remaining_pages(plan, partition, step, tally)):
            try:
                computed = rule.keys(remaining.page, remaining.position)
            except Exception as error:
                raise rule_failed(rule.NAME, remaining.page, error) from error
            computed["partition"], computed["page"] = partition, index
            keys.append(computed)
            yield remaining

    with BlockWriter.open(plan.path(stage_name("pages", step), partition, "pages"), num_readers=1) as writer:
        write_remaining_pages(writer, pages())
    num_keys = write_keys(plan, partition, step, np.concatenate(keys))
    return {"tally": tally.to_json(), "keys": num_keys}


def remaining_pages(plan: BuildPlan, partition: int, step: int, tally: Tally) -> Iterator[RemainingPage]:
    """Yield a partition's pages in the order of their URL digests, as they come to a step.

    Args:
      plan: The build.
      partition: The partition.
      step: Index of the step; the number of steps for the finished corpus.
      tally: Counts what happens to the pages.
    """
    earlier = [step_index for step_index in plan.recipe.duplicate_rules if step_index < step]
    if not earlier:
        yield from _newest(plan, partition, tally)
        return
    last = earlier[-1]
    rules = plan.recipe.page_rules(last + 1, step)
    numbers = [last, *(step_index for step_index, _ in rules)]
    pages = _after_removal(plan, partition, last, tally)
    for block in page_blocks(rules, pages, lambda item: item[0].page.text):
        kept = [removed.page for _, removed in block if removed.dropped is None]
        outcomes = iter(apply_rules(rules, kept))
        for remaining, removed in block:
            tally.see(removed.seen)
            outcome = removed
            if removed.dropped is None:
                outcome = next(outcomes)
                tally.see(outcome.seen)
            tally.count(numbers, outcome.dropped)
            if outcome.dropped is None:
                yield RemainingPage(remaining.position, outcome.page)
            else:
                digest = remaining.position.url_digest
                tally.sample(outcome.dropped, digest, remaining.page.url, outcome.page.text)


def _after_removal(
    plan: BuildPlan, partition: int, step: int, tally: Tally
) -> Iterator[tuple[RemainingPage, RuleOutcome]]:
    rule: DuplicateRule = plan.recipe.steps[step]
    removals = read_removed(plan, partition, step)
    pages = read_remaining_pages(plan.path(stage_name("pages", step), partition, "pages"))
    all_parts = removals["part"].astype(np.int64)
    starts = np.searchsorted(removals["page"], np.arange(int(removals["page"].max(initial=0)) + 2)).tolist()
    for index, remaining in enumerate(pages):
        first, end = starts[index : index + 2] if index + 1 < len(starts) else (0, 0)
        counts: Counter[str] = Counter()
        parts = all_parts[first:end]
        try:
            result = rule.remove(remaining.page, parts, counts)
        except Exception as error:
            raise rule_failed(rule.NAME, remaining.page, error) from error
        if len(parts):
            tally.repeated[step].add(rule.texts(remaining.page, parts))
        yield remaining, RuleOutcome(remaining.page).followed_by(step, result, counts)


def _newest(plan: BuildPlan, partition: int, tally: Tally) -> Iterator[RemainingPage]:
    """Yield pages sorted by URL digest: one for each URL if the recipe says so; tombstones are counted only."""
    versions: list[PageVersion] = []
    for path in plan.sources(cleaning_stage.STAGE, "pages", plan.num_batches):
        for block in read_blocks(path, partition):
            versions += unpack_versions(block)
    versions.sort(key=lambda version: version[:8])
    unique = plan.recipe.unique_urls
    if unique is None:
        for version in versions:
            yield RemainingPage(version.position, version.page)
        return
    rules = plan.recipe.page_rules(unique + 1, cleaning_stage.first_duplicate_rule(plan))
    numbers = [unique, *(step_index for step_index, _ in rules)]
    for _, group in itertools.groupby(versions, key=lambda version: version.url_digest):
        *older, newest = group
        for version in older:
            outcome = (unique, UniqueUrls.REASON)
            tally.count([unique], outcome)
            tally.sample(outcome, version.url_digest, version.url, version.text)
        tally.see(newest.seen)
        tally.count(numbers, newest.dropped)
        if newest.dropped is None:
            yield RemainingPage(newest.position, newest.page)
        else:
            tally.sample(newest.dropped, newest.url_digest, newest.url, newest.text)
