"""Turn published weights into a run directory, a run into Hugging Face's format, or merge a run's adapter.

t5x-like convert --from path/to/t5-small --to runs/t5_small              Hugging Face: config.json and safetensors
t5x-like convert --from path/to/t5x/checkpoint_1000000 --to runs/t5      T5X's checkpoints
t5x-like convert --from path/to/elmo --to runs/elmo --vocabulary words.json        ELMo's: options.json and HDF5
t5x-like convert --from path/to/model.Q8_0.gguf --to runs/llama          llama.cpp's files, dequantized
t5x-like convert --from runs/finetune --to path/to/export --export hf --dtype bfloat16
t5x-like convert --from runs/llama --to path/to/export --export gguf --dtype q8_0        model.gguf in that directory
t5x-like convert --from path/to/peft --base path/to/bert --to runs/lora  PEFT's adapters, over the model they are for
t5x-like convert --from runs/lora --to path/to/peft --export peft        the adapter alone, as PEFT saves it
t5x-like convert --from path/to/bert --to runs/student --every 2         a student of every second layer of its teacher
t5x-like convert --from runs/t5 --to runs/student --decoder_layers 0,3   the same, by numbers; the encoder stays whole
t5x-like convert --average 5 --from runs/t5 --to runs/t5_average         the mean of its last five checkpoints
t5x-like convert --average 1 --from runs/a runs/b runs/c --to runs/soup  the mean of several runs
t5x-like convert --average 1 --greedy --from runs/a runs/b --to runs/soup  the same of runs that improve its score
t5x-like convert --average moving --from runs/t5 --to runs/t5_average    the moving average that a run has kept
t5x-like convert --merge --from runs/lora --to runs/merged               a run without adapter that computes the same
t5x-like convert --attribute NAME --from runs/contrastive --to runs/NAME one of several contrastive prefixes

Memory holds one weight at a time (one layer's when importing, all layers' of one when exporting), not the model.
"""

import argparse
from typing import Any

from etils import epath

from t5x_like.cli.arguments import add_module_argument, import_users_modules
from t5x_like.cli.number_types import non_negative, positive
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import as_path
from t5x_like.text.vocabularies.opening import vocabulary_contents


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like convert``."""
    parser.add_argument(
        "--from",
        dest="sources",
        required=True,
        metavar="PATH",
        nargs="+",
        help="what to read; several to average",
    )
    parser.add_argument(
        "--to", dest="target", required=True, metavar="DIR", help="what to write; new or empty"
    )
    parser.add_argument(
        "--export",
        choices=["hf", "gguf", "peft"],
        help="read a run and write Hugging Face's format, llama.cpp's, or its adapter in PEFT's (else: the other way)",
    )
    parser.add_argument(
        "--base", metavar="PATH", help="the model that an adapter of PEFT was trained on, in any format"
    )
    parser.add_argument(
        "--vocabulary", default="", metavar="PATH", help="the words that ELMo's published weights shall read"
    )
    parser.add_argument(
        "--merge", action="store_true", help="read a run with an adapter (LoRA, IA3), and write one without"
    )
    parser.add_argument(
        "--attribute",
        metavar="NAME",
        help="read a run with contrastive prefixes, and write one with that of a task",
    )
    parser.add_argument(
        "--average",
        metavar="N",
        help="average the last N checkpoints of each run, or write the moving average that a run has kept",
    )
    parser.add_argument(
        "--greedy",
        action="store_true",
        help="average only runs with which the score doesn't fall, on the held-out rows of the first run's tasks",
    )
    parser.add_argument(
        "--metric", metavar="TASK/METRIC", help="the score of --greedy (mean of all tasks' first metrics)"
    )
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="rows of each task that --greedy reads (all)"
    )
    parser.add_argument("--step", type=non_negative, help="the step to export or merge (the newest)")
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16", "float16", "q8_0"],
        help="how to store an export (float32); q8_0 is GGUF's",
    )
    add_module_argument(parser)
    parser.add_argument("--license", help="of an export, such as apache-2.0, for its model card (unknown)")
    student = parser.add_argument_group("students", "keep some layers of a run or of published weights")
    student.add_argument(
        "--every", type=positive, metavar="N", help="every N-th layer of each stack, from the first"
    )
    listed: dict[str, Any] = {"type": _layers, "metavar": "0,2,4"}
    student.add_argument("--layers", **listed, help="these layers of each stack")
    student.add_argument("--encoder_layers", **listed, help="these layers of the encoder")
    student.add_argument("--decoder_layers", **listed, help="these layers of the decoder")


def run(arguments: argparse.Namespace) -> int:
    """Convert, and print what was written."""
    target, arguments.source = as_path(arguments.target), arguments.sources[0]
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(
            f"--to {target} exists already; nothing was written", hint="give a new or an empty directory"
        )
    if arguments.module:
        import_users_modules(arguments)
    _check_source(arguments)
    # These import JAX and Orbax.
    from t5x_like.pretrained import conversion, tokenizer_files

    if arguments.merge:
        conversion.merge_run(arguments.source, target, step=arguments.step)
    elif arguments.attribute:
        conversion.take_attribute(arguments.source, target, arguments.attribute, step=arguments.step)
    elif keeps := _chosen_layers(arguments):
        kept = conversion.make_student(arguments.source, target, keeps, step=arguments.step)
        print("layers kept:", ", ".join(f"{name} {' '.join(map(str, each))}" for name, each in kept.items()))
    elif arguments.average:
        last = None if arguments.average == "moving" else int(arguments.average)
        sources = _greedily(arguments, last) if arguments.greedy and last else arguments.sources
        conversion.average_runs(sources, target, last=last)
    elif arguments.export:
        _export(arguments, target)
    elif arguments.base:
        conversion.import_peft(arguments.source, arguments.base, target)
    else:
        conversion.import_checkpoint(arguments.source, target, vocabulary=arguments.vocabulary)
    files = {}
    if arguments.export != "hf":  # which has written its own
        for source in filter(None, (arguments.base, arguments.source)):
            files |= tokenizer_files.tokenizer_contents(source)
    files |= vocabulary_contents(arguments.vocabulary) if arguments.vocabulary else {}
    for name, content in files.items():
        (target / name).write_bytes(content)
    print(f"written to {target}")
    return 0


def _greedily(arguments: argparse.Namespace, last: int) -> list[str]:
    """Print a line for each run, and return those that stay in a greedy soup."""
    from t5x_like.training import model_soup  # imports JAX

    kept = []
    options = {"last": last, "metric": arguments.metric, "limit": arguments.limit}
    for each in model_soup.greedy_soup(arguments.sources, **options):
        kept += [each.run] if each.is_kept else []
        print(
            f"{each.run}: {each.score:.4g} alone, {each.soup_score:.4g} in the soup, "
            f"{'kept' if each.is_kept else 'left out'}",
            flush=True,
        )
    return kept


def _check_source(arguments: argparse.Namespace) -> None:
    source = as_path(arguments.source)
    if arguments.vocabulary and not (source / "options.json").is_file():
        raise UserError(
            f"--vocabulary is for ELMo's published weights, and --from {arguments.source} has no options.json",
            hint="leave it out: the vocabulary next to other weights is theirs",
        )
    if len(arguments.sources) > 1 and not arguments.average:
        raise UserError(
            f"--from has {len(arguments.sources)} directories; one is converted at a time",
            hint="to average the weights of several runs add --average 1",
        )
    of_greedy = [name for name in ("metric", "limit") if getattr(arguments, name) is not None]
    if of_greedy and not arguments.greedy:
        raise UserError(f"--{of_greedy[0]} is for --greedy", hint="add --average 1 --greedy")
    if arguments.greedy and (not (arguments.average or "").isdecimal() or len(arguments.sources) < 2):
        raise UserError(
            "--greedy chooses among several runs whose last checkpoints are averaged",
            hint="give --average 1 and two runs or more by --from",
        )
    if arguments.merge or arguments.average or arguments.attribute:
        _check_makes_run(arguments)
        return
    if not source.is_dir() and (arguments.export or source.suffix != ".gguf" or not source.is_file()):
        raise UserError(
            f"--from {arguments.source} is not a directory" + ("" if arguments.export else " or a .gguf file")
        )
    _check_base(arguments)
    of_exports = {"--dtype": arguments.dtype, "--step": arguments.step, "--license": arguments.license}
    export_flags = [flag for flag, value in of_exports.items() if value is not None]
    keeps = _chosen_layers(arguments)
    if keeps and arguments.export:
        raise UserError(
            f"--{next(iter(keeps))} makes a run; --export {arguments.export} writes a whole run",
            hint="leave --export out, and export the student by a second command",
        )
    if keeps:
        export_flags = [flag for flag in export_flags if flag != "--step"]
    if not arguments.export and export_flags:
        raise UserError(
            f"{export_flags[0]} is for exports; a run keeps its weights in float32",
            hint="to write Hugging Face's format add --export hf",
        )
    if arguments.export == "hf" and arguments.dtype == "q8_0":
        raise UserError("--dtype q8_0 is for --export gguf", hint="give float32, bfloat16 or float16")
    if arguments.export in ("gguf", "peft") and arguments.license:
        raise UserError("--license is for the model card of --export hf", hint="leave it out")
    if arguments.export == "peft" and arguments.dtype:
        raise UserError("--dtype is not for --export peft: adapters are float32", hint="leave it out")
    if not arguments.export and not keeps and (as_path(arguments.source) / "model.json").is_file():
        raise UserError(
            f"--from {arguments.source} is a run already",
            hint="to write Hugging Face's format add --export hf",
        )


def _check_base(arguments: argparse.Namespace) -> None:
    is_adapter = not arguments.export and (as_path(arguments.source) / "adapter_config.json").is_file()
    if is_adapter and not arguments.base:
        raise UserError(
            f"--from {arguments.source} is an adapter of PEFT",
            hint="give the model that it was trained on with --base",
        )
    if arguments.base and not is_adapter:
        raise UserError(
            f"--base is for an adapter of PEFT, and --from {arguments.source} has no adapter_config.json",
            hint="leave it out",
        )


def _chosen_layers(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the given flags that choose layers, and their values.

    Raises:
      UserError: they contradict each other.
    """
    names = ("every", "layers", "encoder_layers", "decoder_layers")
    choices = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if len(choices) > 1 and choices.keys() & {"every", "layers"}:
        raise UserError(
            f"{' and '.join('--' + name for name in choices)} choose layers twice",
            hint="give --every or --layers alone, or --encoder_layers and --decoder_layers",
        )
    if choices.get("every", 1) < 1:
        raise UserError(f"--every is {choices['every']}", hint="give 2 for every second layer")
    return choices


def _layers(text: str) -> tuple[int, ...]:
    return tuple(map(non_negative, text.split(",")))


def _check_makes_run(arguments: argparse.Namespace) -> None:
    """Check the flags of --merge, --average and --attribute, which write a run."""
    flag = "--merge" if arguments.merge else "--average" if arguments.average else "--attribute"
    values = {f"--{name}": getattr(arguments, name) for name in ("export", "base", "dtype", "license")}
    values |= {f"--{name}": value for name, value in _chosen_layers(arguments).items()}
    if arguments.average:
        values["--step"] = arguments.step
    if flag != "--attribute":
        values |= {"--attribute": arguments.attribute}
    if flag != "--average":
        values |= {"--average": arguments.average}
    for other in (name for name, value in values.items() if value is not None):
        raise UserError(
            f"{other} is not for {flag}, which writes a run", hint="use it on that run in a second command"
        )
    for source in arguments.sources:
        if not (as_path(source) / "model.json").is_file():
            raise UserError(f"--from {source} is not a run directory: it has no model.json")
    if arguments.average == "moving":
        if len(arguments.sources) > 1:
            raise UserError("--average moving is of one run", hint="average several runs by --average 1")
    elif arguments.average and not (arguments.average.isdecimal() and int(arguments.average)):
        raise UserError(f"--average is {arguments.average!r}; give a number of checkpoints, or moving")
    elif arguments.average == "1" and len(arguments.sources) == 1:
        raise UserError(
            "--average 1 of one run is its newest checkpoint", hint="give a larger number, or several runs"
        )


def _export(arguments: argparse.Namespace, target: epath.Path) -> None:
    # These import JAX.
    from t5x_like.pretrained import (
        conversion,
        exported_tokenizer,
        gguf_export,
        hugging_face_export,
        model_card,
        open_checkpoint,
        weight_sources,
    )

    source, step, dtype = arguments.source, arguments.step, arguments.dtype or "float32"
    if not weight_sources.is_run(source):
        raise UserError(f"--from {source} is not a run directory: it has no model.json")
    if arguments.export == "peft":
        conversion.export_peft(source, target, step=step)
        return
    with open_checkpoint.open_unread(source, step=step) as opened:
        if arguments.export == "gguf":
            gguf_export.write_gguf(
                opened.config,
                opened.params,
                target / "model.gguf",
                special_ids=opened.special_ids,
                tokenizer=opened.found_tokenizer,
                dtype=dtype,
            )
            return
        embedding = opened.sentence_embedding
        hugging_face_export.write_hugging_face(
            opened.config,
            opened.params,
            target,
            fields=opened.fields,
            special_ids=exported_tokenizer.exported_ids(opened),
            classes=opened.class_names,
            companions=exported_tokenizer.exported_tokenizer(opened),
            card=model_card.card_of(source, step=step, license=arguments.license or ""),
            json_files={} if embedding is None else embedding.files(opened.config.model_dim),
            dtype=dtype,
        )
