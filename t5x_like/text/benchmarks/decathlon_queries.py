"""decaNLP's WikiSQL: a question about a table becomes a query (Zhong et al. 2017, https://arxiv.org/abs/1709.00103).

Question, context and answer are those of https://github.com/salesforce/decaNLP, text/torchtext/datasets/generic.py.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.decathlon_template import QuestionContext, question_template
from t5x_like.text.benchmarks.record_files import RecordFiles, json_objects
from t5x_like.text.benchmarks.source import BenchmarkSource, Download, FileLayout, files_in
from t5x_like.text.metrics.structured_answers import logical_form_em
from t5x_like.text.tasks.rows import BadRow, RawRow, partition
from t5x_like.text.templates import RowValues

QUESTION = "What is the translation from English to SQL?"
AGGREGATES = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
COMPARISONS = ("=", ">", "<", "OP")
_KEY_WORDS = (
    *AGGREGATES[1:],
    *COMPARISONS,
    *("SELECT", "WHERE", "AND", "COL", "TABLE", "CAPTION", "PAGE", "SECTION"),
    *("OP", "COND", "QUESTION", "AGG", "AGGOPS", "CONDOPS"),
)


def written(query: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Return a query of WikiSQL as text: ``SELECT COUNT name FROM table WHERE age > 3 AND town = Oslo``.

    Args:
      query: Numbers of the column and the aggregate, and conditions ``[column, comparison, value]``.
      columns: Names of the table's columns.
    """
    selected = f"SELECT {AGGREGATES[query['agg']]} {columns[query['sel']]} FROM table"
    conditions = [
        f"{columns[column]} {COMPARISONS[comparison]} {value}" for column, comparison, value in query["conds"]
    ]
    return " ".join(f"{selected}{' WHERE ' if conditions else ''}{' AND '.join(conditions)}".split())


def _read_queries(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read questions and their queries; ``train.tables.jsonl`` lies next to ``train.jsonl``. See ``source.Reader``.

    Raises:
      ValueError: The file of the tables is absent.
    """
    stem, dot, ending = file.partition(".jsonl")
    columns_of = _columns_of_tables(f"{stem}.tables{dot}{ending}")
    return RecordFiles(parse=functools.partial(_rows, columns_of))(file, split)


def _rows(columns_of: Mapping[str, list[str]], record: RowValues) -> Iterator[dict[str, object]]:
    table = record["table_id"]
    if table not in columns_of:
        raise ValueError(f"no table {table!r} in the file of tables")
    columns = columns_of[table]
    try:
        query = written(record["sql"], columns)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"its sql doesn't fit the table's {len(columns)} columns: {error}") from None
    yield {"question": record["question"], "columns": columns, "query": query}


@functools.lru_cache(maxsize=4)
def _columns_of_tables(file: str) -> dict[str, list[str]]:
    columns = dict[str, list[str]]()
    try:
        for table in partition(json_objects(file))[0]:
            columns[table.values["id"]] = list(table.values["header"])
    except FileNotFoundError:
        raise ValueError(f"no file {file}, which has the columns of the tables; put it there") from None
    except KeyError as error:
        raise ValueError(f"{file}: a table has no {error}; is it WikiSQL's file of tables?") from None
    return columns


def ask_query(row: RowValues) -> QuestionContext:
    """Ask for the query; the context has the table's columns, SQL's key words and the user's question."""
    columns = ", ".join(row["columns"])
    context = f"The table has columns {columns} and key words {', '.join(_KEY_WORDS)}-- {row['question']}"
    return QuestionContext(QUESTION, context, (row["query"],))


_SPOKEN = (
    "MAX, MIN, COUNT, SUM, AVG, =, >, <, OP, SELECT, WHERE, AND, COL, TABLE, CAPTION, PAGE, SECTION, OP, COND, "
    "QUESTION, AGG, AGGOPS, CONDOPS"
)


def _example(question: str, query: str, *columns: str) -> GoldenExample:
    context = f"The table has columns {', '.join(columns)} and key words {_SPOKEN}-- {question}"
    formatted = {"inputs": f"question: {QUESTION} context: {context}", "targets": query}
    return GoldenExample(
        {"question": question, "columns": list(columns), "query": query},
        ({**formatted, "question": QUESTION, "context": context},),
    )


WIKI_SQL = Benchmark(
    name="decanlp_wikisql",
    title="decaNLP: WikiSQL, a question about a table as a query",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("WikiSQL/data", "wikisql/data", "wikisql"),
                    {"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"},
                ),
                read=_read_queries,
            ),
        ),
        rows={"train": 56_355, "validation": 8_421, "test": 15_878},
        downloads=(
            Download(
                url="https://github.com/salesforce/WikiSQL/raw/master/data.tar.bz2", unpack={"": "wikisql/"}
            ),
        ),
        home="https://github.com/salesforce/WikiSQL",
        citation="Zhong et al. 2017, https://arxiv.org/abs/1709.00103; McCann et al. 2018, "
        "https://arxiv.org/abs/1806.08730",
        license="BSD 3-clause",
        columns={"question": "text", "columns": "texts", "query": "text"},
    ),
    word=question_template(ask_query),
    question_columns=("question", "columns"),
    metrics=(logical_form_em,),
    extras={"question": "text", "context": "text"},
    examples=(
        _example(
            "Tell me what the notes are for South Australia",
            "SELECT Notes FROM table WHERE Current slogan = SOUTH AUSTRALIA",
            *("State/territory", "Current slogan", "Notes"),
        ),
        _example("How many mills are old?", "SELECT COUNT Name FROM table WHERE Age > 100", "Name", "Age"),
        _example("Which mills?", "SELECT Name FROM table", "Name"),
    ),
)
