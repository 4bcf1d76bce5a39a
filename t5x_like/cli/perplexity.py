"""Measure what texts cost a decoder: perplexity for each token, word and byte.

t5x-like perplexity --checkpoint RUN|HF_DIR book.txt              overlapping windows, every token scored once
t5x-like perplexity --checkpoint HF_DIR --stride 256 a.txt b.txt  each text, and all together
"""

import argparse

import t5x_like
from t5x_like.cli.arguments import add_module_argument, import_users_modules
from t5x_like.cli.number_types import non_negative, positive
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import write_json
from t5x_like.io.text_encoding import text_of
from t5x_like.reports.score_tables import perplexities_table
from t5x_like.text.metrics.perplexity import perplexities


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like perplexity``."""
    add = parser.add_argument
    add("texts", nargs="+", metavar="FILE", help="plain text, UTF-8")
    add("--checkpoint", default="", metavar="DIR", help="a run, or a directory in Hugging Face's layout")
    add("--step", type=non_negative, metavar="N", help="a run's checkpoint of this step, not its newest")
    add("--vocabulary", default="", metavar="PATH", help="where it is not next to the weights")
    add(
        "--num_sentinels",
        type=non_negative,
        metavar="N",
        help="ids at the vocabulary's end (as the model was trained)",
    )
    add(
        "--inputs_length", type=positive, metavar="N", help="tokens of a window (what the model reads; 1,024)"
    )
    add(
        "--stride",
        type=positive,
        metavar="N",
        help="tokens from one window over a text to the next (half of it)",
    )
    add("--batch_size", type=positive, metavar="N", help="windows at once (8 for each device)")
    add_module_argument(parser)
    add("--output_dir", metavar="DIR", help="write perplexities.json there, too")


def run(arguments: argparse.Namespace) -> int:
    """Print the perplexities of texts, one after the other and together."""
    if not arguments.checkpoint:
        raise UserError("say which weights: --checkpoint RUN_DIR, or a directory in Hugging Face's layout")
    texts = [text_of(file).replace("\r\n", "\n") for file in arguments.texts]
    empty = [file for file, text in zip(arguments.texts, texts, strict=True) if not text.strip()]
    if empty:
        raise UserError(f"{empty[0]}: nothing is in it to be measured")
    if arguments.module:
        import_users_modules(arguments)
    from t5x_like.evaluation import perplexity  # imports JAX

    mesh = t5x_like.MeshConfig().build()
    model = t5x_like.open_checkpoint(
        arguments.checkpoint,
        mesh=mesh,
        step=arguments.step,
        vocabulary=arguments.vocabulary,
        num_sentinels=arguments.num_sentinels,
        needs_tokenizer=True,
    )
    costs = perplexity.measure_texts(
        model,
        texts,
        length=arguments.inputs_length,
        stride=arguments.stride,
        batch_size=arguments.batch_size or 8 * mesh.size,
        shown=True,
    )
    total = costs[0]
    for cost in costs[1:]:
        total += cost
    named = dict(zip(arguments.texts, costs, strict=True)) | ({"together": total} if len(costs) > 1 else {})
    print(perplexities_table({name: (cost, perplexities(cost)) for name, cost in named.items()}))
    if arguments.output_dir:
        measured = {name: cost._asdict() | perplexities(cost) for name, cost in named.items()}
        write_json(f"{arguments.output_dir}/perplexities.json", measured)
        print(f"written to {arguments.output_dir}/perplexities.json")
    return 0
