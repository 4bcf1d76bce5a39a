"""Serve a model over HTTP, for demonstrations and evaluation harnesses: OpenAI's completions, chats and embeddings.

t5x-like serve --checkpoint runs/finetune                 http://127.0.0.1:8000: a page to try it, /docs, /v1/…
t5x-like serve --checkpoint path/to/gpt2 --port 8001      Hugging Face directories, GGUF files and others, too

Needs pip install 't5x-like[serve]'. Requests that wait are computed together. There is no encryption and no password:
the server is reachable from this machine only, unless --host says otherwise. SIGTERM or Ctrl-C ends it.
"""

import argparse
import sys

from t5x_like.cli.arguments import add_module_argument, import_users_modules
from t5x_like.cli.number_types import non_negative, port, positive, positive_number
from t5x_like.gin_config.user_error import UserError
from t5x_like.serving.request_fields import Limits

_LIMITS = {
    "body_bytes": "bytes of a request",
    "prompts": "prompts of a request",
    "prompt_tokens": "tokens of each prompt",
    "new_tokens": "max_tokens of a request",
    "choices": "n of a request",
    "rows": "completions or embeddings that are computed together",
    "waiting": "requests that wait for the one in work",
    "seconds": "time of a request, waiting included",
}

_TYPES = {"waiting": non_negative, "seconds": positive_number}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like serve``."""
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="a run, a Hugging Face directory, a GGUF file …"
    )
    parser.add_argument("--step", type=non_negative, metavar="N", help="a run's step, not its newest")
    parser.add_argument(
        "--dtype", choices=["float32", "bfloat16"], default="float32", help="type of computation (float32)"
    )
    parser.add_argument("--name", default="", help="name of the model in answers (that of the directory)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="interface to listen on (127.0.0.1: this machine only)"
    )
    parser.add_argument("--port", type=port, default=8000, help="port; 0 for a free one (8000)")
    add_module_argument(parser)
    limits = parser.add_argument_group("limits", "requests above them are refused, but for rows")
    for name, text in _LIMITS.items():
        default = getattr(Limits, name)
        limits.add_argument(
            f"--max_{name}",
            type=_TYPES.get(name, positive),
            default=default,
            metavar="N",
            help=f"{text} (%(default)s)",
        )


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    limits = Limits(**{name: getattr(arguments, f"max_{name}") for name in _LIMITS})
    try:
        from t5x_like.serving import server  # imports JAX and uvicorn
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise UserError(f"{error.name} isn't installed", hint="pip install 't5x-like[serve]'") from error
    if arguments.module:
        import_users_modules(arguments)
    if arguments.host not in server.LOOPBACK:
        _say(
            f"warning: --host {arguments.host} lets other machines use this server, which asks for no password"
        )
    server.serve(
        arguments.checkpoint,
        name=arguments.name,
        host=arguments.host,
        port=arguments.port,
        limits=limits,
        say=_say,
        step=arguments.step,
        dtype=arguments.dtype,
    )
    return 0


def _say(text: str) -> None:
    print(f"t5x-like: {text}", file=sys.stderr, flush=True)
