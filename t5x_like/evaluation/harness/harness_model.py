"""``lm_eval --model t5x_like``: the lm-evaluation-harness' language model, for any of our checkpoints.

Needs ``lm-eval`` (Gao et al., https://github.com/EleutherAI/lm-evaluation-harness). As in its Hugging Face model,
contexts that are too long lose their beginning, and a continuation is scored without an end of sequence.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lm_eval.api.model import TemplateLM  # pyright: ignore[reportMissingImports] - optional
from tqdm import tqdm

from t5x_like.evaluation.harness.requests import Likelihood, RequestRunner, rolling_windows
from t5x_like.index_checks import check_token_ids
from t5x_like.inference.generator import GenerationConfig
from t5x_like.inference.scorer import LikelihoodRequest
from t5x_like.model.model_traits import traits_of
from t5x_like.nested_values import one_or_several
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import row_groups
from t5x_like.pretrained.open_checkpoint import open_checkpoint

_NO_LIMIT = {"decoder": 2048, "encoder_decoder": 512}  # tokens, for models without a limit
_DEFAULT_BATCH = 32
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens")
_DECODING = (*_LENGTHS, "until", "do_sample", "temperature", "top_k", "top_p", "num_beams", "seed")


class HarnessModel(TemplateLM):
    """A run or a Hugging Face directory behind the harness' interface.

    Args:
      checkpoint: The directory.
      pretrained: The harness' name for ``checkpoint``.
      step: Step of a run; its newest by default.
      vocabulary: Vocabulary, if the checkpoint has none.
      num_sentinels: Sentinel ids of the vocabulary; by default those that the model was trained with.
      max_length: Tokens of a request; by default the model's positions.
      max_gen_toks: Tokens of a continuation, unless the task sets them.
      begin_id: Id that begins every input; by default as the model's own files say, and 0 for decoders trained here.
      score_end: Also score the end of sequence after a continuation, as T5 was trained to write it.
      dtype: Type of activations; by default the checkpoint's.
      batch_size: Requests in a batch.
      data: Devices along the mesh's axis of copies; -1 for the rest.
      fsdp: Devices along the axis that splits weights.
      model: Devices along the axis inside layers.
      device: Ignored; the mesh decides.
      max_batch_size: Ignored.
    """

    def __init__(
        self,
        checkpoint: str = "",
        *,
        pretrained: str = "",
        step: int | None = None,
        vocabulary: str = "",
        num_sentinels: int | None = None,
        max_length: int | None = None,
        max_gen_toks: int = 256,
        begin_id: int | None = None,
        score_end: bool = False,
        dtype: str | None = None,
        batch_size: int | str | None = None,
        data: int = -1,
        fsdp: int = 1,
        model: int = 1,
        device: str | None = None,  # noqa: ARG002 - the mesh says which devices
        max_batch_size: int | None = None,  # noqa: ARG002
        **unknown: object,
    ):
        super().__init__()
        if unknown:
            raise ValueError(
                f"model_args has {', '.join(sorted(unknown))}, which a t5x_like model doesn't know; it takes "
                "checkpoint, step, vocabulary, num_sentinels, max_length, max_gen_toks, begin_id, score_end, dtype, "
                "data, fsdp, model"
            )
        checkpoint = str(checkpoint or pretrained)
        if not checkpoint:
            raise ValueError("say which weights: checkpoint=DIRECTORY, a run or a Hugging Face directory")
        mesh = MeshConfig(data=data, fsdp=fsdp, model=model).build()
        loaded = open_checkpoint(
            checkpoint,
            mesh=mesh,
            step=step,
            vocabulary=str(vocabulary),
            num_sentinels=num_sentinels,
            needs_tokenizer=True,
        )
        if loaded.kind == "encoder":
            raise ValueError(
                f"{checkpoint} is an encoder, which writes nothing and has no likelihoods; the harness needs a decoder "
                "or an encoder-decoder"
            )
        if dtype not in (None, "auto"):
            loaded = loaded.computing_in(dtype)
        self._encoder = replace(loaded.prompt_encoder, empty_ids=())
        if begin_id is not None:
            check_token_ids(begin_id, "begin_id", loaded.config.vocab_size)
            self._encoder = replace(self._encoder, prefix_ids=(begin_id,))
        self.backend = "causal" if loaded.kind == "decoder" else "seq2seq"
        self._checkpoint = checkpoint
        self._loaded, self._score_end = loaded, score_end
        self._max_gen_toks = max_gen_toks
        rows = row_groups(mesh)
        # "auto" gives our default.
        requested = int(str(batch_size)) if str(batch_size).isdecimal() else _DEFAULT_BATCH
        self.batch_size = max(-(-requested // rows) * rows, rows)
        self.max_length = max_length or loaded.max_positions or _NO_LIMIT[loaded.kind]
        if loaded.max_positions is not None and self.max_length > loaded.max_positions:
            raise ValueError(
                f"max_length={self.max_length}, and the model has {loaded.max_positions} learned positions"
            )
        self._runner = RequestRunner(loaded, batch_size=self.batch_size, max_length=self.max_length)

    @property
    def eot_token_id(self) -> int:
        """Id that ends a text."""
        if not self._loaded.end_ids:
            raise ValueError(f"{self._checkpoint}: the vocabulary has no id that ends a text")
        return self._loaded.end_ids[0]

    @property
    def prefix_token_id(self) -> int:
        """Id that precedes a text without context."""
        if self._encoder.prefix_ids:
            return self._encoder.prefix_ids[0]
        begin = self._loaded.tokenizer.special.bos
        return self.eot_token_id if begin is None or self.backend == "seq2seq" else begin

    @property
    def tokenizer_name(self) -> str:
        """Name the vocabulary where the harness keeps requests."""
        return f"t5x_like-{self._loaded.tokenizer.fingerprint[:16]}"

    def tok_encode(
        self,
        string: str,
        add_special_tokens: bool | None = None,
        **kwargs: object,  # noqa: ARG002
    ) -> list[int]:
        """Return the ids of a text, by default with those that begin it and, for an encoder, end it.

        Args:
          string: Text to tokenize.
          add_special_tokens: Add the ids that begin and end a text; None for the model's default.
          **kwargs: Unused; the harness passes further settings.
        """
        ids = self._loaded.tokenizer.encode(string)
        return ids if add_special_tokens is False else self._encoder.with_special_ids(ids)

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        **_: object,
    ) -> list[tuple[float, bool]]:
        end = self._loaded.end_ids[:1] if self._score_end else ()
        requested = [
            LikelihoodRequest(tuple(context), (*continuation, *end)) for _, context, continuation in requests
        ]
        with tqdm(total=len(requested), desc="Running loglikelihood requests", disable=disable_tqdm) as bar:

            def answered(index: int, likelihood: Likelihood) -> None:
                bar.update()
                self.cache_hook.add_partial("loglikelihood", requests[index][0], tuple(likelihood))

            likelihoods = self._runner.score(requested, answered)
        return [tuple(likelihood) for likelihood in likelihoods]  # pyright: ignore[reportReturnType]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Score whole texts, in windows if they are longer than the model can read.

        An encoder-decoder reads the text before a window as its input, and the window is the target.

        Args:
          requests: Requests of the harness with one text each.
          disable_tqdm: Show no progress.
        """
        windows: list[LikelihoodRequest] = []
        counts = []
        for (text,) in (request.args for request in requests):
            ids = self.tok_encode(text, add_special_tokens=False)
            windows_of_text = rolling_windows(ids, prefix=self.prefix_token_id, max_length=self.max_length)
            counts.append(len(windows_of_text))
            windows += windows_of_text[:1] + [
                one._replace(prompt=(*one.prompt, *self._encoder.suffix_ids)) for one in windows_of_text[1:]
            ]
        with tqdm(total=len(windows), desc="Running rolling_windows requests", disable=disable_tqdm) as bar:
            likelihoods = self._runner.score(windows, lambda *_: bar.update())
        answers, start = [], 0
        for request, count in zip(requests, counts, strict=True):
            answers.append(sum(one.log_likelihood for one in likelihoods[start : start + count]))
            start += count
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answers[-1])
        return answers

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Generate a continuation of each context, up to one of the task's stop texts.

        Args:
          requests: Requests of the harness with context and settings.
          disable_tqdm: Show no progress.
        """
        groups: dict[tuple[GenerationConfig, tuple[str, ...]], list[int]] = {}
        for request_index, request in enumerate(requests):
            groups.setdefault(_generation_of(request.args[1], self._max_gen_toks), []).append(request_index)
        texts = [""] * len(requests)
        with tqdm(total=len(requests), desc="Running generate_until requests", disable=disable_tqdm) as bar:
            for (generation, stops), numbers in groups.items():
                prompts = [
                    self.tok_encode(requests[request_index].args[0]) or [self.prefix_token_id]
                    for request_index in numbers
                ]

                def answered(index: int, text: str, numbers: list[int] = numbers) -> None:
                    bar.update()
                    self.cache_hook.add_partial("generate_until", requests[numbers[index]].args, text)

                written = self._runner.generate(prompts, generation, stops=stops, answered=answered)
                for request_index, text in zip(numbers, written, strict=True):
                    texts[request_index] = text
        return texts

    def apply_chat_template(self, chat_history: object, add_generation_prompt: bool = True) -> str:  # noqa: ARG002
        """Raise an error: chat templates are not supported.

        Args:
          chat_history: Unused.
          add_generation_prompt: Unused.
        """
        raise ValueError(
            "chat templates write special ids as text, and our vocabularies read text literally: leave "
            "apply_chat_template out"
        )

    def get_model_info(self) -> dict[str, object]:
        """Return facts that the harness writes next to the scores."""
        step = self._loaded.step
        return {
            "model_num_parameters": self._loaded.num_parameters,
            "model_dtype": traits_of(self._loaded.config).compute_dtype,
            "model_revision": "" if step is None else f"step {step}",
            "model_sha": self._loaded.identity,
        }


def _generation_of(settings: dict[str, Any], max_gen_toks: int) -> tuple[GenerationConfig, tuple[str, ...]]:
    """Convert a task's generation settings; return them with the stop texts.

    Raises:
      ValueError: A setting is unknown; ignoring it would score something else.
    """
    unknown = sorted(set(settings) - set(_DECODING))
    if unknown:
        raise ValueError(
            f"the task's generation_kwargs have {', '.join(unknown)}; a t5x_like model knows {', '.join(_DECODING)}"
        )
    stops = one_or_several(settings.get("until") or None)
    length = next((settings[name] for name in _LENGTHS if settings.get(name) is not None), max_gen_toks)
    temperature = float(settings.get("temperature") or 0.0)
    drawn = settings.get("do_sample", temperature > 0)
    generation = GenerationConfig(
        max_new_tokens=int(length),
        num_beams=int(settings.get("num_beams") or 1),
        temperature=(temperature or 1.0) if drawn else 0.0,
        top_k=settings.get("top_k") if drawn else None,
        top_p=settings.get("top_p") if drawn else None,
        seed=int(settings.get("seed") or 0),
    )
    return generation, stops
