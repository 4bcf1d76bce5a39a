"""Tiny tokenizers with chat templates, in the files that transformers writes."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ("<|end|>", "<|user|>", "<|assistant|>", "<|im_start|>", "<|im_end|>")

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# As Llama 2's: its own bos and eos, and roles that must alternate.
LLAMA_2 = (
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + message['content'].strip() + ' [/INST]' }}{% else %}"
    "{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}{% endfor %}"
)
# As Phi 3's, whose special tokens take the white space after them, with the tags that templates of others have.
PHI_3 = """{%- for message in messages %}
    {%- if message.role == 'system' %}
        {{- message | tojson }}
        {%- continue %}
    {%- endif %}
    {%- if message.role == 'user' %}
{{ '<|user|>\n' ~ message.content | trim ~ '<|end|>\n' }}
    {%- else %}
        {%- generation %}{{ '<|assistant|>\n' ~ message.content ~ '<|end|>\n' }}{% endgeneration %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif -%}
"""


def of_bytes(special: tuple[str, ...] = SPECIAL, *, rstrip: bool = False) -> Tokenizer:
    """BPE over bytes without merges."""
    pieces = {piece: index for index, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return with_special(tokenizer, ("<|endoftext|>", *special), rstrip=rstrip)


def of_words(special: tuple[str, ...] = SPECIAL, *, rstrip: bool = False) -> Tokenizer:
    """A unigram model of letters, which marks the space before the first word alone."""
    letters = [chr(code) for code in range(33, 127)]
    pieces = [
        ("<unk>", 0.0),
        ("<s>", 0.0),
        ("</s>", 0.0),
        ("▁", -2.0),
        *((letter, -4.0) for letter in letters),
    ]
    tokenizer = Tokenizer(models.Unigram([*pieces, ("\n", -5.0), ("▁the", -1.0)], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return with_special(tokenizer, ("<unk>", "<s>", "</s>", *special), rstrip=rstrip)


def with_special(tokenizer: Tokenizer, special: tuple[str, ...], *, rstrip: bool) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(each, rstrip=rstrip, normalized=False) for each in special])
    return tokenizer


def write(folder: Path, tokenizer: Tokenizer, template: str, *, in_own_file: bool = False) -> Path:
    """Write a tokenizer and its template, in ``tokenizer_config.json`` or in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    is_of_bytes = tokenizer.token_to_id("<s>") is None
    ends = ("<|endoftext|>", "<|endoftext|>") if is_of_bytes else ("<s>", "</s>")
    configuration = dict(zip(("bos_token", "eos_token"), ends, strict=True))
    if in_own_file:
        (folder / "chat_template.jinja").write_text(template)
        template = "{{ 'another template' }}"  # which the file overrules
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template, **configuration})
    )
    return folder
