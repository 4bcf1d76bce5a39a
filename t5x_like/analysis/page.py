"""Files of an analysis: a page with its pictures, and its numbers as JSON."""

from t5x_like.analysis.analysis import AnalysisResult, as_json
from t5x_like.io.files import PathLike, as_path, write_json, write_text
from t5x_like.reports.rendering import Tile, number, render, words

PAGE, VALUES = "analysis.html", "analysis.json"


def write_result(
    directory: PathLike, result: AnalysisResult, *, title: str, introduction: str, options: dict[str, object]
) -> None:
    """Write ``analysis.html`` and ``analysis.json``.

    Args:
      directory: Directory, which is made.
      result: Result of the analysis.
      title: Heading of the page.
      introduction: Sentences below the heading.
      options: Model, texts and options, for the JSON file.
    """
    tiles = [Tile(words(name), number(value), "", True) for name, value in result.headlines.items()]
    page = render(
        "analysis.html.j2",
        title=title,
        introduction=introduction,
        headlines=tiles,
        figures=result.figures,
        tables=result.tables,
    )
    home = as_path(directory)
    write_json(home / VALUES, {**options, **as_json(result.values)})
    write_text(home / PAGE, page)
