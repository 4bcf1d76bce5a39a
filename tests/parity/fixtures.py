"""The reference models: where they are, and which of them are called once."""

import functools
from pathlib import Path

from benchmarks.references.models import ModelFolder
from tests.references import FIXTURES, read_arrays, references

# The repository's models are always compared; those of the larger set, where it is, under names with this prefix.
LARGER = "larger/"
LARGER_SET = references() / "models" if references() != FIXTURES else None


@functools.cache
def fixture(name: str) -> ModelFolder:
    """One model, read once."""
    folder = LARGER_SET if name.startswith(LARGER) else FIXTURES / "models"
    assert folder is not None
    return ModelFolder(folder / name.removeprefix(LARGER))


def names(recording: str = "", *, larger: bool = True) -> list[str]:
    """Every model that is called once, and of which an array of the name ``recording`` is kept."""
    result = _names_in(FIXTURES / "models", recording)
    if larger and LARGER_SET is not None:
        result += [LARGER + name for name in _names_in(LARGER_SET, recording)]
    return result


def _names_in(folder: Path, recording: str) -> list[str]:
    models = sorted(path.parent for path in folder.glob("*/config.json"))
    return [
        model.name
        for model in models
        if not model.name.startswith(("unilm", "transfo", "xlnet", "eps_xlnet"))
        and (not recording or recording in read_arrays(model / "io.npz"))
    ]
