"""Pages of the tutorials, from the notebooks with their outputs."""

import json
import re
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).resolve().parents[1] / "tutorials"
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def pages() -> dict[str, str]:
    """Return one page for each notebook."""
    return {f"tutorials/{file.stem}.md": markdown_of(file) for file in sorted(TUTORIALS.glob("*.ipynb"))}


def markdown_of(file: Path) -> str:
    """Return a notebook's text, code and outputs as markdown; pictures lie inside as data."""
    parts = []
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source:
            parts.append(f"```python\n{source}\n```")
            parts += map(_output, _joined(cell["outputs"]))
    files = f"Files: [`{file.stem}.py`]({file.stem}.py), and `{file.name}` in `docs/tutorials`."
    return "\n\n".join([*filter(None, parts), files, ""])


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return outputs with consecutive streams of text as one."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        if joined and "text" in output and "text" in joined[-1]:
            joined[-1] = {"text": [*joined[-1]["text"], *output["text"]]}
        else:
            joined.append(output)
    return joined


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        shown = "".join(data["image/svg+xml"])
        shown = shown[shown.index("<svg") :]
    elif "image/png" in data:
        shown = f"![output](data:image/png;base64,{''.join(data['image/png']).strip()})"
    elif "text/html" in data:
        shown = "".join(data["text/html"])
    else:
        text = "".join(output.get("text", data.get("text/plain", "")))
        shown = f"````text\n{_COLORS.sub('', text).rstrip()}\n````" if text.strip() else ""
    return f'<div class="cell-output" markdown>\n\n{shown}\n\n</div>' if shown else ""
