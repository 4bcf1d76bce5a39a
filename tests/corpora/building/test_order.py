"""A corpus has the same bytes for any number of workers, partitions and input files."""

import hashlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t5x_like.corpora.building import build_plan, duplicate_stages, group_stages
from t5x_like.corpora.building.recipe import UniqueUrls
from t5x_like.corpora.duplicates.near_duplicates import NearDuplicates
from t5x_like.corpora.rules.url_lists import normalize_url
from t5x_like.io.engines import cluster_engine
from tests.corpora.building.tiny import (
    LINES,
    STEPS,
    MinChars,
    build,
    contents,
    page,
    rows,
    step,
    write_files,
)

URLS = [f"http://{protocol}example.org/{n}" for n in range(6) for protocol in ("", "www.")]
LINE = st.sampled_from(["same", "Same ", "other", "more of it", "page 7", "a", "é\u2028"])
PAGES = st.lists(
    st.builds(
        page,
        url=st.sampled_from(URLS),
        text=st.lists(LINE, min_size=1, max_size=4).map("\n".join),
        timestamp=st.sampled_from(["2019", "2020"]),
    ),
    max_size=14,
)
SOME = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture
def many(tmp_path):
    """Some hundred pages with lines in common, in five files."""
    files = [
        [
            page(
                f"http://a.org/{n * k % 90}",
                f"line {'x' * (n % 7)}\nshared {'y' * (k * n % 9)}\nown {'z' * n}",
            )
            for n in range(60)
        ]
        for k in range(1, 6)
    ]
    return write_files(tmp_path / "in", files)


@SOME
@given(PAGES, st.randoms())
def test_the_distribution_of_pages_over_files_makes_no_difference(tmp_path_factory, pages, random):
    folder = tmp_path_factory.mktemp("spread")
    shuffled = random.sample(pages, len(pages))
    cut = random.randint(0, len(pages))
    one = write_files(folder / "one", [pages])
    two = write_files(folder / "two", [shuffled[:cut], shuffled[cut:]])
    first, second = build(one, folder / "a"), build(two, folder / "b")
    assert contents(folder / "a") == contents(folder / "b")
    assert first["steps"] == second["steps"]
    assert first["lengths"] == second["lengths"]


def test_samples_of_dropped_versions_do_not_depend_on_the_files_they_lie_in(tmp_path):
    """Each outcome has more pages than samples, and most URLs have versions that a later rule drops."""
    pages = [
        page(f"http://{protocol}example.org/{n}", f"page {n} {text}", timestamp)
        for n in range(12)
        for protocol, text, timestamp in (("", "7", "2019"), ("www.", "8", "2020"), ("", "9", "2018"))
        if n % 3 or timestamp != "2020"
    ]
    build(write_files(tmp_path / "one", [pages]), tmp_path / "a")
    build(write_files(tmp_path / "many", [[each] for each in pages]), tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    samples = [json.loads(line) for line in (tmp_path / "a/samples.jsonl").read_text().splitlines()]
    assert [row["fate"] for row in samples] == ["filtered:duplicate_url"] * 5 + ["filtered:digits"] * 5


@SOME
@given(PAGES)
def test_the_newest_page_of_a_url_stays(tmp_path_factory, pages):
    folder = tmp_path_factory.mktemp("newest")
    manifest = build(write_files(folder / "in", [pages[::2], pages[1::2]]), folder / "out", UniqueUrls())
    newest = {}
    for each in pages:
        key, old = normalize_url(each["url"]), newest.get(normalize_url(each["url"]))
        newest[key] = max(old or _age(each), _age(each))
    made = {normalize_url(row["url"]): _age(row) for row in rows(folder / "out")}
    assert made == newest
    urls = step(manifest, "duplicate-url-filter")
    assert (urls["kept"], urls["dropped"].get("filtered:duplicate_url", 0)) == (
        len(newest),
        len(pages) - len(newest),
    )


def _age(each):
    return each["timestamp"], hashlib.md5(each["text"].encode()).digest(), each["url"]


@pytest.mark.parametrize("lines", [LINES, NearDuplicates()])
def test_the_number_of_shards_only_splits_the_same_pages(tmp_path, many, lines):
    steps = (MinChars(), UniqueUrls(), lines)
    build(many, tmp_path / "one", *steps, num_shards=1)
    build(many, tmp_path / "seven", *steps, num_shards=7)
    assert len(list((tmp_path / "seven").glob("train-*-of-00007.jsonl.zst"))) == 7
    assert len(list((tmp_path / "seven").glob("validation-*-of-00002.jsonl.zst"))) == 2
    for split in ("train", "validation"):
        assert rows(tmp_path / "one", split) == rows(tmp_path / "seven", split) != []


def test_two_rules_for_duplicates_in_a_row(tmp_path, many):
    steps = (*STEPS, NearDuplicates(), MinChars(chars=4), LINES)
    manifest = build(many, tmp_path / "three", *steps, num_shards=3)
    counts = [(each["in"], each["kept"]) for each in manifest["steps"]]
    assert [kept for _, kept in counts[:-1]] == [num_seen for num_seen, _ in counts[1:]]
    build(many, tmp_path / "one", *steps, num_shards=1)
    assert rows(tmp_path / "three", "train") == rows(tmp_path / "one", "train")


def test_one_process_two_and_beam_write_the_same_bytes(tmp_path, many):
    made = {}
    made["one"] = build(many, tmp_path / "one", num_shards=3)
    made["two"] = build(many, tmp_path / "two", num_shards=3, workers=2)
    made["beam"] = build(many, tmp_path / "beam", num_shards=3, engine=cluster_engine("DirectRunner"))
    for name in ("two", "beam"):
        assert contents(tmp_path / name) == contents(tmp_path / "one")
        assert made[name]["steps"] == made["one"]["steps"]
    assert not (tmp_path / "beam" / ".work").exists()


def test_without_unique_urls_all_pages_of_a_url_stay(tmp_path):
    pages = [page("http://a.org", "first"), page("http://a.org", "second"), page("http://a.org", "first")]
    build(write_files(tmp_path / "in", [pages[:1], pages[1:]]), tmp_path / "out", MinChars(chars=1))
    assert sorted(row["text"] for row in rows(tmp_path / "out")) == ["first", "first", "second"]


def test_gathering_many_files_changes_nothing(tmp_path, many, monkeypatch):
    steps = (UniqueUrls(), LINES, NearDuplicates(), LINES)
    plain = build(many, tmp_path / "plain", *steps, num_shards=7)
    monkeypatch.setattr(build_plan, "GATHER_ABOVE", 4)
    monkeypatch.setattr(build_plan, "GATHERED", 3)
    monkeypatch.setattr(duplicate_stages, "GATHERED", 3)
    gathered = build(many, tmp_path / "gathered", *steps, num_shards=7)
    assert contents(tmp_path / "gathered") == contents(tmp_path / "plain")
    assert gathered["steps"] == plain["steps"]
    names = {stage["name"]: stage["tasks"] for stage in gathered["stages"]}
    assert names["gather-clean"] == 2  # of five files
    assert (
        names["gather-pages-2"] == names["gather-match-2"] == names["gather-match-3"] == 3
    )  # of seven and two


@pytest.fixture
def chain(tmp_path):
    """Pages of a long text: each shares words with the next, and the first with the last by way of all."""
    words = [f"w{index}" for index in range(400)]
    pages = [page(f"http://a.org/{n}", " ".join(words[4 * n : 4 * n + 200])) for n in range(40)]
    return write_files(tmp_path / "chain", [pages[:20], pages[20:]])


@pytest.mark.parametrize("gathered", [False, True])
def test_pages_are_grouped_by_partitions_in_as_many_rounds_as_it_takes(
    tmp_path, chain, monkeypatch, gathered
):
    steps = (UniqueUrls(), NearDuplicates())
    build(chain, tmp_path / "whole", *steps, num_shards=7)
    for module in (build_plan, duplicate_stages, group_stages):
        monkeypatch.setattr(module, "PARTITIONS_A_RANGE", 1)
    if gathered:
        monkeypatch.setattr(build_plan, "GATHER_ABOVE", 4)
    made = build(chain, tmp_path / "parts", *steps, num_shards=7)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert len(rows(tmp_path / "parts")) == 1
    names = {stage["name"]: stage["tasks"] for stage in made["stages"]}
    assert (
        names["large-2-2"] == names["small-2-1"] == names["resolve-2"] == 9
    )  # seven of train, two of validation
    assert ("gather-small-2-1" in names) == gathered


def test_a_build_stopped_between_rounds_continues_to_the_same_bytes(tmp_path, chain, monkeypatch):
    for module in (build_plan, duplicate_stages, group_stages):
        monkeypatch.setattr(module, "PARTITIONS_A_RANGE", 1)
    steps, seen = (UniqueUrls(), NearDuplicates()), []
    whole = build(chain, tmp_path / "whole", *steps, num_shards=3)

    def stopping(function, work):
        for piece in work:
            seen.append((piece.stage, piece.number))
            function(piece)
            if len(seen) % 3 == 0:
                raise InterruptedError

    while True:
        try:
            manifest = build(chain, tmp_path / "stopped", *steps, num_shards=3, run_all=stopping)
            break
        except InterruptedError:
            continue
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    assert len(seen) == len(set(seen)) == sum(stage["tasks"] for stage in whole["stages"])
    assert [stage["name"] for stage in manifest["stages"]] == [stage["name"] for stage in whole["stages"]]
