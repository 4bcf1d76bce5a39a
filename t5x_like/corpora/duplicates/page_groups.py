"""Groups of linked pages, computed by partitions: links are rewritten until each leads to the first page of its group.

The alternation of large stars and small stars: Kiveris et al. 2014, "Connected Components in MapReduce and Beyond",
https://doi.org/10.1145/2670979.2670997. Neither kind adds links. All links of a page lie in one
partition, so memory is that of a partition. Rounds grow with the logarithm of the longest chain.
"""

import numpy as np

from t5x_like.corpora.duplicates.duplicate_rule import KEY, shared_keys

# A page; the field order is the order of pages.
PAGE = np.dtype([("rank_high", "<u8"), ("rank_low", "<u8"), ("partition", "<u4"), ("page", "<u4")])
_PAGE_FIELDS = PAGE.names or ()

# Links are ``PAGE`` [links, 2]: the later page and the earlier page.
LATER, EARLIER = 0, 1


def links_of(keys: np.ndarray) -> np.ndarray:
    """Return ``PAGE`` [links, 2] from each page to the first page with the same hash.

    Args:
      keys: ``KEY`` [keys], all of the corpus with the same hashes.
    """
    shared, first = shared_keys(keys)
    pages = np.zeros(len(shared), PAGE)
    for name in _PAGE_FIELDS:
        pages[name] = shared[name]
    firsts = pages[first][np.cumsum(first) - 1]
    ordered, numbers = _numbered(np.stack([pages, firsts], axis=1)[~first])
    return ordered[_distinct(numbers)]


def large_stars(links: np.ndarray, is_own: np.ndarray) -> np.ndarray:
    """Link all later neighbors of the partition's own pages to the earliest page that the own page is linked to.

    Args:
      links: ``PAGE`` [links, 2], at least all links of the own pages.
      is_own: bool [links, 2], True for pages of the partition.
    """
    pages, numbers = _numbered(links)
    lowest = _lowest_neighbors(numbers, len(pages))
    later, earlier = numbers[is_own[:, EARLIER]].T
    return pages[_distinct(np.stack([later, lowest[earlier]], axis=1))]


def small_stars(links: np.ndarray) -> np.ndarray:
    """Link each later page, and all earlier pages that it is linked to, to the earliest of these.

    Args:
      links: ``PAGE`` [links, 2], all links of some later pages.
    """
    pages, numbers = _numbered(links)
    lowest = _lowest_neighbors(numbers, len(pages))[numbers[:, LATER]]
    new = np.concatenate([np.stack([numbers[:, column], lowest], axis=1) for column in (LATER, EARLIER)])
    return pages[_distinct(new[new[:, LATER] != new[:, EARLIER]])]


def num_unsettled(links: np.ndarray, is_own: np.ndarray) -> int:
    """Return the number of own pages that have several earlier neighbors, or earlier and later ones.

    If it is 0 in all partitions, each later page is linked to the first page of its group and to no other.

    Args:
      links: ``PAGE`` [links, 2], at least all links of the own pages.
      is_own: bool [links, 2], True for pages of the partition.
    """
    pages, numbers = _numbered(links)
    own = np.zeros(len(pages), bool)
    own[numbers[is_own]] = True
    numbers = _distinct(numbers)
    num_earlier = np.bincount(numbers[:, LATER], minlength=len(pages))
    has_later = np.bincount(numbers[:, EARLIER], minlength=len(pages)) > 0
    return int((own & (num_earlier > 0) & ((num_earlier > 1) | has_later)).sum())


def all_but_first_pages(links: np.ndarray) -> np.ndarray:
    """Return ``KEY`` [pages] of part 0 for the later page of each link.

    Args:
      links: ``PAGE`` [links, 2], settled.
    """
    later = np.unique(links[:, LATER])
    removed = np.zeros(len(later), KEY)
    for name in _PAGE_FIELDS:
        removed[name] = later[name]
    return removed


def settled(links: np.ndarray) -> np.ndarray:
    """Return the links of each page to the first page of its group, as one partition."""
    while num_unsettled(links, is_own := np.ones(links.shape, bool)):
        links = small_stars(large_stars(links, is_own))
    return links


def _numbered(links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replace the pages of links by their positions in the order of pages.

    Returns:
      ``PAGE`` [pages], in order; int64 [links, 2], the numbers of each link's pages.
    """
    flat = links.reshape(-1)
    order = np.lexsort([flat[name] for name in reversed(_PAGE_FIELDS)])
    ordered = flat[order]
    new = np.ones(len(flat), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    numbers = np.empty(len(flat), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return ordered[new], numbers.reshape(links.shape)


def _lowest_neighbors(numbers: np.ndarray, num_pages: int) -> np.ndarray:
    """Return int64 [pages]: the earliest of each page and its neighbors."""
    lowest = np.arange(num_pages)
    np.minimum.at(lowest, numbers[:, LATER], numbers[:, EARLIER])
    return lowest


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """Return each row of int64 [links, 2] once; numbers are below 2^31."""
    joined = np.unique(numbers[:, LATER] << 32 | numbers[:, EARLIER])
    return np.stack([joined >> 32, joined & 0xFFFFFFFF], axis=1)
