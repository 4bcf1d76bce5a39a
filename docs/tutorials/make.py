"""Run the tutorials' scripts as notebooks and write the notebooks with their outputs.

python -m docs.tutorials.make            all of them
python -m docs.tutorials.make own_task   one
"""

import argparse
import os
import sys
import time
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent
NAMES = ("pretrain_t5", "fine_tune_bert", "own_task", "clean_a_crawl")


def main() -> int:
    """Return 0 after every notebook is written."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    for name in parser.parse_args().names or NAMES:
        start = time.monotonic()
        notebook = run(name)
        jupytext.write(notebook, FOLDER / f"{name}.ipynb")
        print(f"{name}: {time.monotonic() - start:.0f} s")
    return 0


def run(name: str) -> NotebookNode:
    """Return the notebook of a script with the outputs of its cells.

    Raises:
      nbclient.exceptions.CellExecutionError: A cell failed.
    """
    notebook = jupytext.read(FOLDER / f"{name}.py")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"{name}-{number}"  # the same at each run
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER.parents[1])}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
    notebook.metadata.pop("widgets", None)
    return notebook


if __name__ == "__main__":
    sys.exit(main())
