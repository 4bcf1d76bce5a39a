"""Registration of ``--model t5x_like`` with the lm-evaluation-harness. Imports nothing heavy.

The harness has no entry points (0.4.13), so the model must be added to its registry. ``t5x-like lm_eval`` does so.
"""

import sysconfig
from pathlib import Path

NAME = "t5x_like"
_TARGET = "t5x_like.evaluation.harness.harness_model:HarnessModel"
_FILE = "t5x_like_lm_eval.pth"  # written into the environment by earlier versions


def register() -> None:
    """Add the model to the harness' registry; the model's code is imported on first use.

    Raises:
      ValueError: The harness isn't installed.
    """
    try:
        from lm_eval.api.registry import (  # pyright: ignore[reportMissingImports] - optional
            model_registry,
        )
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] != "lm_eval":
            raise
        raise ValueError(
            "the lm-evaluation-harness isn't installed; pip install 'lm-eval>=0.4.13', or t5x-like[harness]"
        ) from error
    if NAME not in model_registry:
        model_registry.register(NAME, target=_TARGET)


def site_file() -> Path:
    """Return the path at which earlier versions wrote a ``.pth`` file into this Python's environment."""
    return Path(sysconfig.get_paths()["purelib"]) / _FILE


def remove_site_file() -> Path:
    """Remove the ``.pth`` file that earlier versions wrote, and return its path."""
    site_file().unlink(missing_ok=True)
    return site_file()
