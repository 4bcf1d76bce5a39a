"""Pages for files of the repository outside ``docs/`` that documents link to, so that every link works in the site."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|<)([^)\s#]+)(#[^)\s]*)?(?=\))")
_LANGUAGES = {
    ".py": "python",
    ".gin": "python",
    ".sh": "bash",
    ".json": "json",
    ".toml": "toml",
    ".yml": "yaml",
}
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
_PICTURES = {".svg", ".png", ".gif", ".jpg"}
_LONGEST = 200_000  # characters; a longer file is cut


@dataclass
class RepositoryFiles:
    """Pages below ``files/`` for linked files and folders of the repository.

    Attributes:
      pages: page -> its markdown.
    """

    pages: dict[str, str] = field(default_factory=dict)

    def rewrite(self, markdown: str, page: str, origin: Path | None = None) -> str:
        """Return ``markdown`` with links to repository files replaced by links to pages of the site.

        Args:
          markdown: a document.
          page: the document's page, such as ``guides/models.md``.
          origin: the file that relative links are relative to; default the page's place below ``docs/``.
        """
        folder = (origin or DOCS / page).parent

        def replace(link: re.Match[str]) -> str:
            target = Path(os.path.normpath(folder / link[1]))
            if not target.exists() or not target.is_relative_to(ROOT):
                return link[0]
            uri = self._page_of(target)
            return os.path.relpath(uri, PurePosixPath(page).parent) + (link[2] or "")

        return LINK.sub(replace, markdown)

    def _page_of(self, target: Path) -> str:
        """Return the page that shows ``target``, which is made at the first link to it."""
        if target.is_relative_to(DOCS) and target.suffix in {".md", *_PICTURES}:
            return target.relative_to(DOCS).as_posix()
        if target.is_relative_to(DOCS / "tutorials") and target.suffix == ".ipynb":
            return target.relative_to(DOCS).with_suffix(".md").as_posix()
        if target.is_dir() and (target / "README.md").is_file():
            target = target / "README.md"
        name = target.relative_to(ROOT).as_posix()
        uri = f"files/{name}" if target.suffix == ".md" else f"files/{name}.md"
        if uri not in self.pages:
            self.pages[uri] = ""  # pages may link to each other
            self.pages[uri] = self._content(target, name, uri)
        return uri

    def _content(self, target: Path, name: str, uri: str) -> str:
        if target.is_dir():
            entries = sorted(
                entry.name + "/" * entry.is_dir() for entry in target.iterdir() if entry.name[0] not in "._"
            )
            return "\n".join([f"{_NOT_SEARCHED}# {name}/", "", *(f"- `{entry}`" for entry in entries), ""])
        text = target.read_text(encoding="utf-8")[:_LONGEST]
        if target.suffix == ".md":
            return self.rewrite(text, uri, target)
        fence = "`" * max([4, *(len(run) + 1 for run in re.findall(r"`+", text))])
        code = f"{fence}{_LANGUAGES.get(target.suffix, 'text')}\n{text}\n{fence}\n"
        return f"{_NOT_SEARCHED}# {target.name}\n\n`{name}`\n\n{code}"
