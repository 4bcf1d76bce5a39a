"""Transformers' model in PyTorch, to compare with ours; imports nothing of t5x_like.

The argument is a JSON object: ``fields`` of a config.json, ``rows``, ``inputs_length``, ``targets_length``, ``steps``,
and for ``benchmarks.against_pytorch`` also

    directory    weights in Hugging Face's format, instead of fresh ones
    tokens       npz file with ``inputs`` and ``targets``, instead of random ones
    optimizer    "adamw", or "adafactor" of transformers
    measure      of "train", "forward", "greedy" and "beam_4"; only "train" if left out
    new_tokens   length of what is generated
    weights      type of the weights that generate, such as "bfloat16"; "float32" if left out
    outputs      npz file to write: the logits of the forward pass, and generated ids
    compile      true to compile the model with ``torch.compile`` for training and the forward pass
    profile      true for the seconds of each operation of one call, without those that it calls: ``operations``

Prints a JSON object.
"""

import contextlib
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

_CLASSES = {
    "t5": "AutoModelForSeq2SeqLM",
    "bert": "AutoModelForMaskedLM",
    "llama": "AutoModelForCausalLM",
    "gpt2": "AutoModelForCausalLM",
}


def main() -> None:
    """Build the model from its configuration, and time what is asked for."""
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")

    request = json.loads(sys.argv[1])
    fields = dict(request["fields"])
    kind = fields.pop("model_type")
    config = transformers.AutoConfig.for_model(kind, **fields)
    if kind == "t5":
        config.decoder_start_token_id = 0
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model_class = getattr(transformers, _CLASSES[kind])
    if "directory" in request:
        model = model_class.from_pretrained(request["directory"], config=config)
    else:
        with torch.device(device):
            model = model_class.from_config(config)
    model = model.to(device).train()
    model.gradient_checkpointing_disable()
    if request.get("optimizer") == "adafactor":
        optimizer = transformers.Adafactor(
            model.parameters(), lr=1e-3, relative_step=False, scale_parameter=True
        )
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    # Shapes never change, so that programs of other shapes need not be tried.
    called = torch.compile(model, dynamic=False) if request.get("compile") else model

    def random_tokens(length: int) -> Any:
        return torch.randint(2, config.vocab_size, (request["rows"], length), device=device)

    if "tokens" in request:
        arrays = importlib.import_module("numpy").load(request["tokens"])
        inputs, labels = (torch.from_numpy(arrays[name]).to(device) for name in ("inputs", "targets"))
    else:
        inputs = random_tokens(request["inputs_length"] or request["targets_length"])
        both = request["inputs_length"] and request["targets_length"]
        labels = random_tokens(request["targets_length"]) if both else inputs

    losses = []

    def step() -> None:
        with torch.autocast(device, torch.bfloat16) if device == "cuda" else contextlib.nullcontext():
            loss = called(input_ids=inputs, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if device == "cuda":
            torch.cuda.synchronize()

    def forward() -> Any:
        further = {"decoder_input_ids": labels} if kind == "t5" else {}
        return called(input_ids=inputs, **further).logits

    def generate(num_beams: int) -> Any:
        model.generation_config.eos_token_id = None
        return model.generate(
            input_ids=inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=request["new_tokens"],
            num_beams=num_beams,
            do_sample=False,
            pad_token_id=0,
        )

    measures: dict[str, Callable[[], Any]] = {
        "forward": forward,
        "greedy": lambda: generate(1),
        "beam_4": lambda: generate(4),
    }
    requested, weights = request.get("measure", ["train"]), request.get("weights")
    results: dict[str, Any] = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "compute_dtype": weights or ("bfloat16 by autocast" if device == "cuda" else "float32"),
        "attention": model.config._attn_implementation,
        "compiled": bool(request.get("compile")),
        "parameters": sum(each.numel() for each in model.parameters()),
    }
    outputs, operations = {}, {}

    def profile(name: str, function: Callable[[], Any]) -> None:
        if not request.get("profile"):
            return
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            function()
        operations[name] = {each.key: each.self_cpu_time_total / 1e6 for each in profiler.key_averages()}

    def call_and_wait(name: str) -> Any:
        result = measures[name]()
        if device == "cuda":
            torch.cuda.synchronize()
        return result

    for name in requested:
        if name == "train":
            continue
        model.eval()
        model.to(getattr(torch, weights or "float32"))
        with torch.no_grad():
            outputs[name] = measures[name]().cpu().numpy()
            results[f"{name}_seconds"] = _median_seconds(partial(call_and_wait, name), request["steps"])
            profile(name, measures[name])
    if "train" in requested:
        model.train()
        median = _median_seconds(step, request["steps"], num_warming=2)
        profile("train", step)
        count = request["rows"] * (request["inputs_length"] + request["targets_length"])
        results |= {
            "seconds_per_step": median,
            "tokens_per_second": count / median,
            "first_loss": losses[0],
        }
    if operations:
        results["operations"] = operations
    if device == "cuda":
        results["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    if "outputs" in request:
        importlib.import_module("numpy").savez(request["outputs"], **outputs)
    print(json.dumps(results))


def _median_seconds(function: Callable[[], Any], num_calls: int, *, num_warming: int = 1) -> float:
    seconds = []
    for _ in range(num_warming + num_calls):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[num_warming:])  # the first ones warm caches up


if __name__ == "__main__":
    main()
