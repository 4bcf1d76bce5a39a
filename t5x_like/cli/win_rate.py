"""Compare the answers of two models to the same prompts by a judge: a reward model, or a function of yours.

t5x-like win_rate runs/dpo runs/base --judge runs/reward                answers of two runs' evaluations
t5x-like win_rate a.jsonl b.jsonl --judge my_judges.concise --output_dir compared    tables of t5x-like predict

A function gets a prompt, a first and a second answer. It returns a number above 0 if the first one is better, below 0
if the second one is, and 0 for a tie.
"""

import argparse
import sys
from pathlib import Path

from t5x_like.cli import predict
from t5x_like.cli.arguments import add_module_argument, import_users_modules
from t5x_like.cli.number_types import positive, positive_number
from t5x_like.evaluation.judgments import FunctionJudge, Judge, compare_answers, write_win_rate
from t5x_like.evaluation.paired_answers import pair_answers, read_answers
from t5x_like.gin_config.imported_names import import_module
from t5x_like.gin_config.user_error import UserError
from t5x_like.reports.score_tables import win_rate_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like win_rate``."""
    add = parser.add_argument
    add(
        "first",
        metavar="FIRST",
        help="a table with prompts and predictions, a run, or an evaluation's folder",
    )
    add("second", metavar="SECOND", help="the same of the other model, with answers to the same prompts")
    add(
        "--judge",
        required=True,
        metavar="NAME",
        help="a reward model's directory, or package.module.function",
    )
    add("--task", metavar="NAME", help="the task to compare, where an evaluation has several")
    add("--prompt_column", metavar="NAME", help="column of the prompts (prompt, input, question or text)")
    add(
        "--prediction_column", metavar="NAME", default="prediction", help="column of the answers (prediction)"
    )
    add("--time_limit", type=positive_number, metavar="SECONDS", help="for one call of a function (60)")
    add("--batch_size", type=positive, metavar="N", help="answers that a reward model reads at once (16)")
    add("--output_dir", metavar="DIR", help="write win_rate.json and judgments.jsonl there, too")
    add_module_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the win rate of the first answers, and that of the longer ones."""
    names = (arguments.first, arguments.second)
    columns = {"prompt_column": arguments.prompt_column, "answer_column": arguments.prediction_column}
    first, second = (read_answers(str(_table_of(name, arguments.task)), **columns) for name in names)
    pairs = pair_answers(first, second, names=names)
    scores, judgments = compare_answers(pairs, _judge(arguments))
    result = {"first": names[0], "second": names[1], "judge": arguments.judge, **scores}
    print(win_rate_table(result))
    if arguments.output_dir:
        write_win_rate(arguments.output_dir, result, judgments)
        print(f"written to {arguments.output_dir}")
    return 0


def _table_of(name: str, task: str | None) -> Path:
    """Return the table of a side; of a run that of its evaluation.

    Raises:
      UserError: There is no such file or evaluation, or it has several tasks.
    """
    path = Path(name)
    if path.is_file():
        return path
    if not path.is_dir():
        raise UserError(f"{name}: there is no such file or folder")
    folder = path / "evaluation" if (path / "evaluation").is_dir() else path
    tables = {each.parent.name: each for each in sorted(folder.glob(f"{task or '*'}/predictions.jsonl"))}
    if not tables:
        what = f"of task {task!r} " if task else ""
        raise UserError(
            f"{folder} has no predictions {what}(TASK/predictions.jsonl)",
            hint="run t5x-like evaluate first, or give a table that t5x-like predict wrote",
        )
    if len(tables) > 1:
        raise UserError(f"{folder} has several tasks: {', '.join(tables)}", hint="say which: --task NAME")
    return next(iter(tables.values()))


def _judge(arguments: argparse.Namespace) -> Judge:
    """Return the judge that ``--judge`` names."""
    import_users_modules(arguments)
    name = arguments.judge
    is_model = Path(name).is_dir()
    flag = "time_limit" if is_model else "batch_size"
    if getattr(arguments, flag) is not None:
        what = "a reward model" if is_model else "a function"
        raise UserError(f"--{flag} has no effect: the judge {name} is {what}; leave it out")
    if is_model:
        return predict.open_judge(name, batch_size=arguments.batch_size)
    module, _, function = name.rpartition(".")
    if not module or not all(part.isidentifier() for part in name.split(".")):
        raise UserError(
            f"--judge {name}: there is no such directory",
            hint="name a reward model's directory, or a function as package.module.function",
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    judge = getattr(import_module(module, where=f"--judge {name}"), function, None)
    if not callable(judge):
        raise UserError(f"--judge {name}: {module} has no function {function!r}")
    return FunctionJudge(function=judge, name=name, time_limit=arguments.time_limit or 60.0)
