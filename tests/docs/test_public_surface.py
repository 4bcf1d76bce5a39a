"""No public name changes without a line in the changelog."""

import pytest

from docs.site.public_surface import RECORD, ROOT, broken_promises, surface, unmentioned
from t5x_like.io.files import read_json
from t5x_like.version import __version__

CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n- {words}\n\n## [1.0.0]\n\n- `--other` and `OTHER` were added.\n"
)
BEFORE = {"python": ["train", "train.experiment"], "commands": ["train --limit"], "macros": ["STEPS"]}


def test_the_changelog_mentions_every_change_since_the_last_release():
    missing = unmentioned(
        read_json(RECORD, dict), surface(), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    )
    assert not missing, (
        "public names changed, and CHANGELOG.md's [Unreleased] doesn't mention them:\n" + "\n".join(missing)
    )


def test_names_of_this_major_version_still_work():
    recorded = read_json(RECORD, dict)
    if recorded["version"].partition(".")[0] == __version__.partition(".")[0]:
        assert broken_promises(recorded, surface()) == []


def test_a_removed_name_needs_a_successor():
    before = {"python": ["Pretrained.embed.takes", "train"], "commands": ["evaluate --normalisation"]}
    assert broken_promises(before, {"python": [], "commands": []}) == ["train"]


@pytest.mark.parametrize(
    ("kind", "after", "words", "missing"),
    [
        ("commands", [], "", ["removed: train --limit"]),
        ("commands", [], "`--limit` is gone, give LIMIT.", []),
        ("macros", ["STEPS", "OTHER"], "", ["added: OTHER"]),
        ("macros", ["STEPS", "OTHER"], "`OTHER` sets it.", []),
        ("python", ["train"], "", ["removed: train.experiment"]),
        ("python", [*BEFORE["python"], "fit", "fit.rows"], "`fit` is new.", []),
        ("python", [*BEFORE["python"], "train.seed"], "`train` is new.", ["added: train.seed"]),
    ],
)  # fmt: skip
def test_a_change_is_missing_until_the_unreleased_part_names_it(kind, after, words, missing):
    assert unmentioned(BEFORE, BEFORE | {kind: after}, CHANGELOG.format(words=words)) == missing
