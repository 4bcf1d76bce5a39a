"""The first stage: each task reads input files, applies the rules for single pages and sorts pages by URL digest.

A page dropped by a rule after ``UniqueUrls`` leaves a tombstone. Whether the drop counts is known only when the newest
version of the page is known.
"""

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from t5x_like.corpora.building.blocks import BlockWriter
from t5x_like.corpora.building.build_plan import BuildPlan
from t5x_like.corpora.building.input_files import InputBatch
from t5x_like.corpora.building.intermediate_pages import PageVersion, pack_versions
from t5x_like.corpora.building.tally import SAMPLE_CHARS, RuleOutcome, Tally, apply_rules, page_blocks
from t5x_like.corpora.duplicates.duplicate_rule import PagePosition
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.pages.page_reader import read_pages
from t5x_like.corpora.pages.reading_log import ReadLog
from t5x_like.corpora.rules.rule import PageRule
from t5x_like.corpora.rules.url_lists import normalize_url, url_digest
from t5x_like.io.worker_pool import report

STAGE = "clean"
_REPORT_SECONDS = 1.0
_BUFFER_CHARS = 24 * 10**6  # of buffered text


def first_duplicate_rule(plan: BuildPlan) -> int:
    """Return the index of the first step that this stage leaves to later stages."""
    return next(iter(plan.recipe.duplicate_rules), len(plan.recipe.steps))


def clean(plan: BuildPlan, number: int, batch: InputBatch) -> dict[str, object]:
    """Clean the input files of one task and return counts.

    Args:
      plan: The build.
      number: Index of the task.
      batch: Its input files.

    Raises:
      ValueError: A file is damaged and ``recipe.reading`` doesn't allow it, or a rule failed on a page (the message
        names both).
    """
    cleaner = _Cleaner(plan)
    log = ReadLog()
    reporter = _Reporter(number, batch.size)
    with BlockWriter.open(plan.path(STAGE, number, "pages"), num_readers=plan.num_partitions) as writer:
        for source, file in enumerate(batch.files, start=batch.first):
            pages = read_pages(
                file.path, plan.recipe.reading, log, address=file.address, on_read=reporter.on_read
            )
            record = 0
            for block in page_blocks(cleaner.rules, pages, lambda read: read.page.text):
                try:
                    cleaner.take(source, record, [read.page for read in block])
                except ValueError as error:
                    numbers = (
                        f"page {record}"
                        if len(block) == 1
                        else f"pages {record} to {record + len(block) - 1}"
                    )
                    raise ValueError(f"{file.path}, {numbers}: {error}") from error
                record += len(block)
                if cleaner.waiting_chars >= _BUFFER_CHARS:
                    cleaner.flush(writer)
            reporter.end_file(file.size)
        cleaner.flush(writer)
    return {**cleaner.results(), "reading": _log_in_json(log)}


class _Reporter:
    """Reports once a second how far a task's files are read."""

    def __init__(self, number: int, size: int) -> None:
        self._number, self._size = number, size
        self._before = 0  # bytes of finished files
        self._last = time.monotonic()

    def on_read(self, position: int) -> None:
        """Report the position in the present file, if it is time."""
        if (now := time.monotonic()) - self._last >= _REPORT_SECONDS:
            self._last = now
            report((STAGE, self._number, min((self._before + position) / self._size, 1.0)))

    def end_file(self, size: int) -> None:
        """Go on to the next file."""
        self._before += size


def _log_in_json(log: ReadLog) -> dict[str, object]:
    return {"counts": log.counts, "examples": log.examples}


class _Cleaner:
    def __init__(self, plan: BuildPlan) -> None:
        steps, end = plan.recipe.steps, first_duplicate_rule(plan)
        unique = plan.recipe.unique_urls
        self._plan, self._is_unique = plan, unique is not None
        self._before = plan.recipe.page_rules(0, end if unique is None else unique)
        self._after = plan.recipe.page_rules(end if unique is None else unique + 1, end)
        self._numbers = [step_index for step_index, _ in self._before]
        self._tally = Tally(len(steps))
        self._lengths: Counter[int] = Counter()
        self._chars = self._pages = 0
        self._buffers: defaultdict[int, list[PageVersion]] = defaultdict(list)
        self.waiting_chars = 0

    @property
    def rules(self) -> tuple[tuple[int, PageRule], ...]:
        """All rules that the stage applies, with the indices of their steps."""
        return self._before + self._after

    def take(self, source: int, first: int, pages: Sequence[Page]) -> None:
        """Apply the rules to pages and buffer the results for their partitions.

        Args:
          source: Index of the pages' file among all input files.
          first: Number of the first page in the file.
          pages: Pages that follow each other.
        """
        remaining: list[tuple[PagePosition, Page, RuleOutcome]] = []
        for index, (page, outcome) in enumerate(zip(pages, apply_rules(self._before, pages), strict=True)):
            self._pages += 1
            self._chars += len(page.text)
            self._lengths[len(page.text).bit_length()] += 1
            digest = url_digest(normalize_url(page.url))
            self._tally.see(outcome.seen)
            self._tally.count(self._numbers, outcome.dropped)
            if outcome.dropped is not None:
                self._tally.sample(outcome.dropped, digest, page.url, outcome.page.text)
            else:
                remaining.append((PagePosition(digest, source, first + index), page, outcome))
        outcomes = apply_rules(self._after, [outcome.page for _, _, outcome in remaining])
        for (position, page, _), outcome in zip(remaining, outcomes, strict=True):
            self._keep(position, page, outcome)

    def _keep(self, position: PagePosition, page: Page, outcome: RuleOutcome) -> None:
        text_digest = hashlib.md5(page.text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
        # Of versions that are dropped the next stage samples some: which ones depends on all files.
        text = outcome.page.text if outcome.dropped is None else outcome.page.text[:SAMPLE_CHARS]
        version = PageVersion.of(position, text_digest, outcome, text)
        self._buffers[self._plan.partition_of(position.url_digest)].append(version)
        self.waiting_chars += len(text) + 200  # also counts the memory of tombstones

    def flush(self, writer: BlockWriter) -> None:
        """Write all buffered pages."""
        for partition, versions in sorted(self._buffers.items()):
            writer.write(partition, pack_versions(versions))
        self._buffers.clear()
        self.waiting_chars = 0

    def results(self) -> dict[str, object]:
        """Return the task's counts."""
        counts = {"pages": self._pages, "chars": self._chars, "lengths": self._lengths}
        return {"tally": self._tally.to_json(), **counts}
