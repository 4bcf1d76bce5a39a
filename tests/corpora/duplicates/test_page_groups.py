"""Groups of pages are the connected components of their links, however the pages are spread over partitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from t5x_like.corpora.duplicates.page_groups import (
    EARLIER,
    LATER,
    PAGE,
    all_but_first_pages,
    large_stars,
    num_unsettled,
    settled,
    small_stars,
)


def _links(numbers):
    """Links between pages that have these ranks, int [2, links]."""
    later, earlier = np.maximum(*numbers), np.minimum(*numbers)
    links = np.zeros((len(later), 2), PAGE)
    links["rank_low"] = np.stack([later, earlier], axis=1)
    links["page"] = links["rank_low"]
    return links[later != earlier]


def _ranks(links):
    return set(map(tuple, links["rank_low"].tolist()))


def _expected(numbers, num_pages):
    """Links of each page to the first of its component."""
    graph = coo_matrix((np.ones(len(numbers[0])), tuple(numbers)), (num_pages, num_pages))
    _, component = connected_components(graph, directed=False)
    first = {each: rank for rank, each in reversed(list(enumerate(component.tolist())))}
    pairs = ((rank, first[each]) for rank, each in enumerate(component.tolist()))
    return {(page, earliest) for page, earliest in pairs if page != earliest}


def _in_partitions(links, home):
    """Return settled links and the number of rounds; ``home`` gives the partition of each rank."""
    num_rounds, sizes = 0, [len(links)]
    while True:
        is_own = [home[links["rank_low"]] == part for part in range(home.max() + 1)]
        parts = [(links[own.any(axis=1)], own[own.any(axis=1)]) for own in is_own]
        if not sum(num_unsettled(*part) for part in parts):
            return links, num_rounds, sizes
        links = np.concatenate([large_stars(*part) for part in parts])
        homes = home[links["rank_low"][:, LATER]]
        links = np.concatenate([small_stars(links[homes == part]) for part in range(home.max() + 1)])
        num_rounds += 1
        sizes.append(len(_ranks(links)))


PAIRS = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=30)


@settings(deadline=None)
@given(pairs=PAIRS, home=st.lists(st.integers(0, 4), min_size=20, max_size=20))
def test_groups_are_connected_components_for_any_partitions(pairs, home):
    numbers = np.array(pairs, np.int64).reshape(-1, 2).T
    links, _, _ = _in_partitions(_links(numbers), np.array(home))
    expected = _expected(numbers, 20)
    assert _ranks(links) == _ranks(settled(_links(numbers))) == expected
    assert all_but_first_pages(links)["rank_low"].tolist() == sorted(page for page, _ in expected)


@pytest.mark.parametrize("shape", ["chain", "random"])
def test_rounds_grow_with_the_logarithm_and_links_do_not_grow(shape):
    random = np.random.Generator(np.random.Philox(key=1))
    order = random.permutation(4096)
    chain = np.stack([order[:-1], order[1:]])
    numbers = chain if shape == "chain" else random.integers(0, 4096, (2, 4096))
    links, num_rounds, sizes = _in_partitions(_links(numbers), random.integers(0, 7, 4096))
    assert _ranks(links) == _expected(numbers, 4096)
    assert num_rounds <= 12
    assert sizes == sorted(sizes, reverse=True)


def test_equal_ranks_are_ordered_by_partition_and_page():
    links = np.zeros((2, 2), PAGE)
    links["partition"] = [[2, 1], [2, 2]]
    links["page"] = [[0, 9], [5, 0]]
    firsts = settled(links)[:, EARLIER]
    assert firsts[["partition", "page"]].tolist() == [(1, 9), (1, 9)]
