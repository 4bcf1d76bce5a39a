"""Write what tasks ask and answer as files that a corpus recipe keeps out of its pages.

t5x-like corpus evaluation_texts glue_rte_v002 super_glue_boolq_v102 --output evaluation
t5x-like corpus build --recipe gin/corpora/c4_en_every_rule.gin --gin.EVALUATION_TEXTS="'evaluation/*.jsonl'" …

Writes DIR/TASK-SPLIT.jsonl, an example a line.
"""

import argparse
from typing import Any

from t5x_like.cli.arguments import EXPERIMENT, add_gin_arguments, import_users_modules, load_part
from t5x_like.gin_config.user_error import Mistake


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``t5x-like corpus evaluation_texts``."""
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    parser.add_argument("tasks", nargs="+", metavar="TASK", help="tasks, or mixtures for all of their tasks")
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder for the files")
    parser.add_argument(
        "--split", action="append", default=[], help="only this split; may be repeated (all but train)"
    )
    add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes a file for each task and split; mistakes are raised."""
    from t5x_like.io.files import write_jsonl
    from t5x_like.text import registry
    from t5x_like.text.seqio_bridge.evaluation_texts import evaluation_texts

    import_users_modules(arguments)
    if arguments.gin_file:
        tasks: Any = load_part(arguments, EXPERIMENT, "tasks", "TASKS")
        registry.register(tasks)
    for task in dict.fromkeys(name for given in arguments.tasks for name in registry.names_of_tasks(given)):
        splits = arguments.split or [split for split in registry.splits_of(task) if split != "train"]
        if not splits:
            raise Mistake(
                f"task {task!r} has nothing but a split train", hint="give --split train if you mean it"
            )
        for split in splits:
            rows = list(evaluation_texts(task, split))
            file = f"{arguments.output}/{task}-{split}.jsonl"
            write_jsonl(file, rows)
            print(f"{file}: {len(rows):,} examples")
    return 0
