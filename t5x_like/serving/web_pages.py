"""Pages for people: one to try the model, one with the description of the server. They need nothing from elsewhere."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).with_name("pages")


def try_it_page() -> str:
    """Return the page that sends requests to the server."""
    return _file("try_it.html").replace("/*STYLE*/", _file("style.css"))


def documentation_page(document: Mapping[str, Any]) -> str:
    """Return the description as an HTML page."""
    sections = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            sections.append(f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(operation['summary'])}.</p>")
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                rows = "".join(
                    f"<tr><td><code>{escape(name)}</code></td><td>{escape(each['description'])}</td>"
                    f"<td>{escape(_range(each))}</td></tr>"
                    for name, each in schema["properties"].items()
                )
                sections.append(
                    f"<table><tr><th>field</th><th>meaning</th><th>values</th></tr>{rows}</table>"
                )
    title = escape(document["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_file('style.css')}</style><main><h1>{title}</h1>"
        f'<p><a href="/">Try it</a> · <a href="/openapi.json">openapi.json</a></p>{"".join(sections)}</main></html>'
    )


def _range(schema: Mapping[str, Any]) -> str:
    parts = [schema["type"]] if "type" in schema else []
    if "minimum" in schema:
        parts.append(f"from {schema['minimum']:g}")
    if "maximum" in schema:
        parts.append(f"to {schema['maximum']:g}")
    if "enum" in schema:
        parts.append(" or ".join(map(str, schema["enum"])))
    if "default" in schema:
        parts.append(f"(default {schema['default']})")
    return " ".join(parts)


def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
