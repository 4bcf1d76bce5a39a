"""Text description of a benchmark: its content, source, wording and metrics."""

import json
from typing import Any

from t5x_like.text.benchmarks import catalogue


def short_card(name: str) -> str:
    """Describe a benchmark or a mixture in a few lines."""
    if name in catalogue.mixtures():
        return _mixture_card(name)
    benchmark = catalogue.benchmark(name)
    splits = ", ".join(f"{split} {benchmark.source.rows[split]:,}" for split in benchmark.splits)
    lines = [f"{name} (benchmark)", f"  what        {benchmark.title}", f"  splits      {splits}"]
    if benchmark.metrics:
        lines.append(f"  metrics     {', '.join(metric.__name__ for metric in benchmark.metrics)}")
    return "\n".join(lines)


def card(name: str) -> str:
    """Describe a benchmark or a mixture in full, with source, head format and golden examples."""
    if name in catalogue.mixtures():
        return _mixture_card(name)
    benchmark = catalogue.benchmark(name)
    source = benchmark.source
    about = {
        "answers": ", ".join(benchmark.labels) or "open",
        "for a head": "" if benchmark.head is None else type(benchmark.head).__name__,
        "from": source.home,
        "cite": source.citation,
        "license": source.license,
    }
    lines = [short_card(name), *(f"  {key:<11} {value}" for key, value in about.items() if value)]
    for example in benchmark.examples:
        lines += ["", f"raw      {_json(example.row)}"]
        if not example.worded:
            lines.append("         left out")
        for worded in example.worded:
            lines += [f"inputs   {worded['inputs']}", f"targets  {worded['targets']}"]
    return "\n".join(lines)


def _mixture_card(name: str) -> str:
    mixture = catalogue.mixtures()[name]
    assert isinstance(mixture.rates, dict)
    total = sum(mixture.rates.values())
    shares = [
        f"{task} {rate / total:.1%}" if rate else f"{task} (evaluated only)"
        for task, rate in mixture.rates.items()
    ]
    return f"{name} (mixture of benchmarks)\n  mixed       {', '.join(shares)}"


def _json(row: Any) -> str:
    return json.dumps(dict(row), ensure_ascii=False)
