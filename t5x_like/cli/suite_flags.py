"""Adds the flags of ``t5x-like evaluate`` for benchmarks, by what they are about."""

import argparse

# Flags that are fields of SuiteRun under the same name.
FIELDS = (
    "output_dir",
    "split",
    "method",
    "num_shots",
    "shot_seed",
    "inputs_length",
    "max_new_tokens",
    "num_beams",
    "normalisation",
    "batch_size",
    "limit",
    "resamples",
    "vocabulary",
    "num_sentinels",
    "classes",
    "data_dir",
    "step",
    "on_bad_row",
)


def add_suite_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags for benchmarks."""
    _what(parser.add_argument_group("benchmarks, what is evaluated"))
    _how(parser.add_argument_group("benchmarks, how answers are given"))
    _submissions(parser.add_argument_group("submissions to the servers of GLUE and SuperGLUE"))
    _others(parser.add_argument_group("other figures"))


def _what(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--recipe", metavar="NAME", help="glue, super_glue, or a gin file that configures a SuiteRun")
    add("--tasks", nargs="+", metavar="TASK", help="these tasks, by seqio's names: glue_cola_v002 …")
    add("--data_dir", metavar="DIR", help="where the benchmarks' files are ($T5X_LIKE_DATA)")
    add(
        "--skip_missing",
        action="store_true",
        help="leave out tasks whose files are missing, or that the model has no head for, and say which",
    )
    add(
        "--on_bad_row",
        choices=["fail", "skip"],
        help="stop at a row that can't be read, or leave it out and count it (fail)",
    )
    add("--limit", type=int, metavar="N", help="only the first N questions of each task")
    add("--step", type=int, metavar="N", help="a run's checkpoint of this step, not its newest")
    add("--every_checkpoint", action="store_true", help="every step that a run has")
    add("--watch", action="store_true", help="every step, and then each as it is saved, to the run's last")
    add("--vocabulary", metavar="PATH", help="the model's vocabulary, where it is not beside the weights")
    add(
        "--num_sentinels",
        type=int,
        metavar="N",
        help="ids at the vocabulary's end that stand for spans (as the model was trained)",
    )


def _how(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--method",
        choices=["generate", "rank", "head"],
        help="written, the likeliest of a task's answers, or told by a head (by what the model is)",
    )
    add(
        "--classes",
        nargs="+",
        metavar="WORD",
        help="the head's classes in the order of its scores, in the task's words (as its config.json names them)",
    )
    add("--num_shots", type=int, metavar="K", help="solved training examples before each question (0)")
    add("--shot_seed", type=int, metavar="S", help="which examples (0)")
    add("--prompt", metavar="TEXT", help="how a question is put, with {inputs} in it")
    add("--answer", metavar="TEXT", help="how an example's answer is written, with {targets} in it")
    add(
        "--normalisation",
        choices=["none", "tokens", "bytes"],
        help="likelihoods of ranked answers over their length (none)",
    )
    add("--batch_size", type=int, metavar="N", help="questions at once (32)")
    add(
        "--inputs_length",
        type=int,
        metavar="N",
        help="longest question in tokens, the rest is cut and counted (what the model can read; 512, decoders 2,048)",
    )
    add("--max_new_tokens", type=int, metavar="N", help="longest answer in tokens (what the task's take)")
    add("--num_beams", type=int, metavar="N", help="beams of written answers (1)")
    add("--resamples", type=int, metavar="N", help="draws for the intervals of scores (1000); 0 for none")


def _submissions(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--submission", metavar="FILE.zip", help="answer the test split, and write the file for the server")
    add(
        "--submission_of",
        nargs="+",
        metavar="DIR",
        help="put --submission together from finished evaluations of the test split, as of encoders with a head for "
        "each task",
    )
    add(
        "--check_submission",
        metavar="FILE.zip",
        help="tell what is in it and all that its server would refuse, and nothing else",
    )


def _others(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--text", nargs="+", metavar="FILE", help="perplexity of a decoder on these texts, and nothing else")
    add("--stride", type=int, metavar="N", help="tokens from one window over a text to the next (half of it)")
    add(
        "--mean_of",
        nargs="+",
        metavar="DIR",
        help="mean and deviation over finished evaluations, and nothing else",
    )
