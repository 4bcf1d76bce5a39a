"""Train step of transformers' model in PyTorch, for ``benchmarks.accelerator --pytorch``; needs nothing of t5x_like.

The argument is a JSON object: ``fields`` of a config.json, ``rows``, ``inputs_length``, ``targets_length``, ``steps``.
Prints a JSON object.
"""

import contextlib
import importlib
import json
import statistics
import sys
import time
from typing import Any

_CLASSES = {"t5": "AutoModelForSeq2SeqLM", "bert": "AutoModelForMaskedLM", "llama": "AutoModelForCausalLM"}


def main() -> None:
    """Build the model from its configuration, and time training steps with random tokens."""
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")

    request = json.loads(sys.argv[1])
    fields = dict(request["fields"])
    kind = fields.pop("model_type")
    config = transformers.AutoConfig.for_model(kind, **fields)
    if kind == "t5":
        config.decoder_start_token_id = 0
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = getattr(transformers, _CLASSES[kind]).from_config(config).to(device).train()
    model.gradient_checkpointing_disable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")

    def tokens(length: int) -> Any:
        return torch.randint(2, config.vocab_size, (request["rows"], length), device=device)

    inputs = tokens(request["inputs_length"] or request["targets_length"])
    both = request["inputs_length"] and request["targets_length"]
    labels = tokens(request["targets_length"]) if both else inputs

    def step() -> None:
        with torch.autocast(device, torch.bfloat16) if device == "cuda" else contextlib.nullcontext():
            loss = model(input_ids=inputs, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()

    seconds = []
    for _ in range(request["steps"] + 2):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[2:])  # the first ones warm caches up
    count = request["rows"] * (request["inputs_length"] + request["targets_length"])
    found = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "compute_dtype": "bfloat16 by autocast" if device == "cuda" else "float32",
        "attention": config._attn_implementation,
        "parameters": sum(each.numel() for each in model.parameters()),
        "seconds_per_step": median,
        "tokens_per_second": count / median,
    }
    if device == "cuda":
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(json.dumps(found))


if __name__ == "__main__":
    main()
