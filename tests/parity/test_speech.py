"""SpeechT5 by transformers: outputs, losses, gradients, texts and spectrograms."""

from pathlib import Path

import pytest

from benchmarks.references.forms import find_references
from benchmarks.references.reference import Reference
from tests.references import FIXTURES, GOLDEN


def _references() -> list[Reference]:
    roots = dict.fromkeys((FIXTURES, GOLDEN))
    folders = [file.parent for root in roots for file in sorted((root / "speech").glob("*/config.json"))]
    listed = [each for folder in folders for each in find_references(folder)]
    assert all(isinstance(each, Reference) for each in listed)
    return [each for each in listed if isinstance(each, Reference)]


@pytest.mark.parametrize(
    "reference", _references(), ids=lambda reference: "/".join(Path(reference.name).parts[-2:])
)
def test_speech_is_that_of_transformers(reference: Reference) -> None:
    reference.compare()
