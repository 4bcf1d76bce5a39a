"""MkDocs hooks: generated pages, their sections of the navigation, and pages of linked repository files."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # a hook is loaded from its path
    sys.path.insert(0, str(ROOT))

from docs.site import command_line, gin_macros, notebooks, python_api, recipes, results  # noqa: E402
from docs.site.repository_files import RepositoryFiles  # noqa: E402

DOCS = ROOT / "docs"
# What a page, and a style sheet, fetches without being asked to.
_FETCHED_BY_PAGE = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|icon)[^>]*\bhref=["']?(?:https?:)?//"""
)
_FETCHED_BY_STYLE = re.compile(r"""@import|url\(["']?(?:https?:)?//""")


def generated_pages() -> dict[str, str]:
    """Return all generated pages: page -> markdown."""
    found: dict[str, str] = {}
    for generator in (recipes, command_line, gin_macros, python_api, results, notebooks):
        found |= generator.pages()
    return found


def site_pages() -> dict[str, str]:
    """Return every page of the site, with links that work in it."""
    files = RepositoryFiles()
    written = {
        path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(DOCS.rglob("*.md"))
    }
    pages = {page: files.rewrite(text, page) for page, text in (written | generated_pages()).items()}
    return pages | files.pages


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace the names of generated sections in the navigation by their pages."""
    sections = {
        "recipes": ["recipes/index.md", *(f"recipes/{folder}.md" for folder in recipes.recipes())],
        "python": sorted(page for page in python_api.pages() if page.startswith("reference/python/")),
        "guides": sorted(f"guides/{file.name}" for file in (DOCS / "guides").glob("*.md")),
        "decisions": sorted(f"decisions/{file.name}" for file in (DOCS / "decisions").glob("*.md")),
    }
    sections["python"].sort(key=lambda page: not page.endswith("index.md"))
    config.nav = _filled(config.nav, sections)
    return config


def _filled(entry: Any, sections: dict[str, list[str]]) -> Any:
    if isinstance(entry, list):
        return [_filled(member, sections) for member in entry]
    if isinstance(entry, dict):
        return {title: _filled(member, sections) for title, member in entry.items()}
    return sections.get(entry, entry)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace documents by their text for the site, and add generated ones."""
    for page, text in site_pages().items():
        known = files.get_file_from_path(page)
        if known is not None:
            files.remove(known)
        files.append(File.generated(config, page, content=text))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site whose pages fetch anything from a server.

    Raises:
      PluginError: A page or style sheet names a script, picture, font or style sheet elsewhere.
    """
    folder = Path(config.site_dir)
    for kind, pattern in (("*.html", _FETCHED_BY_PAGE), ("*.css", _FETCHED_BY_STYLE)):
        for file in sorted(folder.rglob(kind)):
            if found := pattern.search(file.read_text(encoding="utf-8")):
                raise PluginError(f"{file}: a reader would fetch from a server: {found[0]}")
