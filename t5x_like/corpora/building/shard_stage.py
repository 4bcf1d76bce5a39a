"""The last stage: each task writes one file of the corpus, its pages in the order of their URL digests."""

from collections import Counter
from collections.abc import Iterator

from t5x_like.corpora.building.atomic_files import checksum_of_file
from t5x_like.corpora.building.build_plan import BuildPlan
from t5x_like.corpora.building.corpus_formats import EXTENSIONS, write_pages
from t5x_like.corpora.building.partition_stage import remaining_pages
from t5x_like.corpora.building.tally import KEPT, Tally
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.io.worker_pool import report

STAGE = "shards"


def write_shard(plan: BuildPlan, number: int) -> dict[str, object]:
    """Write one file of the corpus; return counts and the file's size and checksum.

    Args:
      plan: The build.
      number: Index of the file.
    """
    shard = plan.shard(number)
    end = len(plan.recipe.steps)
    tally, languages, lengths = Tally(end), Counter[str](), Counter[int]()
    chars = 0

    def pages() -> Iterator[Page]:
        nonlocal chars
        for index, partition in enumerate(shard.partitions):
            report((STAGE, number, index / len(shard.partitions)))
            for position, page in remaining_pages(plan, partition, end, tally):
                tally.sample((end, KEPT), position.url_digest, page.url, page.text)
                languages[page.language or ""] += 1
                lengths[len(page.text).bit_length()] += 1
                chars += len(page.text)
                yield page

    file = shard.file(EXTENSIONS[plan.recipe.format])
    path = f"{plan.output}/{file}"
    write_pages(pages(), path, plan.recipe.format)
    size, checksum = checksum_of_file(path)
    return {
        "tally": tally.to_json(),
        "shard": {
            "file": file,
            "split": shard.split,
            "pages": lengths.total(),
            "chars": chars,
            "bytes": size,
            "crc32c": checksum,
        },
        "languages": languages,
        "lengths": lengths,
    }
