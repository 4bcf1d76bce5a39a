"""Gin's grammar: text to statements, by gin's own parser, and messages for text that it can't read.

The only importer of gin.
"""

import ast
import contextlib
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Any

from t5x_like.gin_config.statements import (
    REQUIRED,
    BindingStatement,
    BlockStatement,
    ConfigurableReference,
    ImportStatement,
    IncludeStatement,
    MacroReference,
    Origin,
    PlainText,
    Setting,
    Statement,
)
from t5x_like.gin_config.user_error import UserError, gin_text_flag, set_flag

Override = str | Setting

_MAX_NESTING = 64  # brackets inside each other
_QUOTED = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\#.*""")


def parse(text: str, file: str | None) -> Iterator[Statement]:
    """Yield the statements of a text, as gin's parser reads them.

    Args:
      text: A file's text, or a binding of the command line.
      file: Name of the file; None for the command line.

    Raises:
      UserError: Gin can't read it.
    """
    from gin import config_parser

    class Delegate(config_parser.ParserDelegate):
        def configurable_reference(
            self, scoped_configurable_name: str, evaluate: bool
        ) -> ConfigurableReference:
            *scopes, name = scoped_configurable_name.split("/")
            return ConfigurableReference(tuple(scopes), name, evaluate)

        def macro(self, macro_name: str) -> object:
            return REQUIRED if macro_name in ("gin.REQUIRED", "REQUIRED") else MacroReference(macro_name)

    def origin(location: Any) -> Origin:
        source = location.line_content.split("\n")[0] if file else f"--gin.{text}"
        return Origin(file, location.line_num, source)

    _check_nesting(text, file)
    try:
        for statement in config_parser.ConfigParser(io.StringIO(text), Delegate()):
            where = origin(statement.location)
            match statement:
                case config_parser.BindingStatement():
                    yield BindingStatement(
                        statement.scope, statement.selector, statement.arg_name, statement.value, where
                    )
                case config_parser.IncludeStatement():
                    yield IncludeStatement(statement.filename, where)
                case config_parser.BlockDeclaration():
                    yield BlockStatement(statement.selector, where)
                case config_parser.ImportStatement() if not statement.module.startswith("__gin__."):
                    whole_path = not statement.is_from and not statement.alias
                    yield ImportStatement(statement.module, statement.bound_name(), whole_path, where)
    except (SyntaxError, tokenize.TokenError) as error:
        raise _syntax_mistake(error, text, file) from error


def as_binding(override: Override) -> BindingStatement:
    """Return the binding that a flag of the command line gives.

    Raises:
      UserError: It can't be read, or is another statement.
    """
    if isinstance(override, Setting):
        return _plain_binding(override)
    binding = _single_binding(override)
    if binding is None:
        raise UserError(f"--gin.{override} is not of the form --gin.NAME=value", where="command line")
    return binding


def _single_binding(text: str) -> BindingStatement | None:
    """Return the binding that a text is; ``None`` for other statements, and for several."""
    match list(parse(text, None)):
        case [BindingStatement() as binding]:
            return binding
    return None


def _plain_binding(setting: Setting) -> BindingStatement:
    """Return a binding whose value waits for its type."""
    origin = Origin(None, 1, setting.flag)
    named, read = None, None
    with contextlib.suppress(ValueError):
        named = _single_binding(f"{setting.name} = 0")
    with contextlib.suppress(ValueError):
        read = _single_binding(f"X = {setting.text}")
    if named is None:
        raise UserError(f"{setting.name!r} is no name", where=str(origin), source=setting.flag)
    literal, is_readable = (None, False) if read is None else (read.value, True)
    value = PlainText(setting.name, setting.text, literal, is_readable)
    return named._replace(value=value, origin=origin)


def _check_nesting(text: str, file: str | None) -> None:
    """Refuse brackets that would exhaust the stack of gin's parser, which calls itself for each.

    Raises:
      UserError: Brackets are nested too deeply.
    """
    depth = 0
    for bracket in re.findall(r"[(\[{)\]}]", _QUOTED.sub("", text)):
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        if depth > _MAX_NESTING:
            raise UserError(
                f"brackets are nested too deeply, over {_MAX_NESTING} times", where=file or "command line"
            )


def _syntax_mistake(error: SyntaxError | tokenize.TokenError, text: str, file: str | None) -> UserError:
    """Translate a parser's or tokenizer's error about ``text`` into a message with place and hint.

    Args:
      error: Raised by gin's parser or Python's tokenizer.
      text: The file's text, or a binding from the command line.
      file: Name of the file; None for the command line.
    """
    cause = str(error.args[0])
    is_of_tokenizer = isinstance(error, tokenize.TokenError)
    line: int = error.args[1][0 if is_of_tokenizer else 1]
    bracket = _unclosed_bracket(text, line)
    if bracket and (is_of_tokenizer or "Expected ','" in cause):
        line, symbol = bracket
        cause, hint = f"this {symbol!r} is never closed", ""
    else:
        cause, hint = _plain_cause(
            cause, text.splitlines()[line - 1] if line <= len(text.splitlines()) else text, file
        )
    lines = text.splitlines() or [""]
    source = lines[min(line, len(lines)) - 1]
    where = f"{file}:{line}" if file else "command line"
    return UserError(cause, where=where, source=source if file else f"--gin.{source}", hint=hint)


def _plain_cause(cause: str, line: str, file: str | None) -> tuple[str, str]:
    """Return a syntax error's cause in plain words, and a hint."""
    name, equals, value = (part.strip() for part in line.partition("="))
    if not equals and not file:
        return f"--gin.{line} gives no value", f"write --gin.{line}=value"
    if equals and not value:
        return f"{name} is given no value", f"write {name} = value" if file else f"write --gin.{name}=value"
    if equals and value.lower() in ("true", "false", "none", "null"):
        return f"{value!r} is not a gin value", f"write {'None' if value[0] in 'nN' else value.capitalize()}"
    if equals and value[0] in "'\"" and value.count(value[0]) % 2:
        return "this text has no closing quote", ""
    if equals and not any(symbol in value for symbol in "'\"()[]{}@%") and not _is_literal(value):
        quoted = (
            f"{name} = '{value}'" if file else f"{gin_text_flag(name, value)}, or {set_flag(name, value)}"
        )
        return f"{value!r} is not a gin value", f"text needs quotes: {quoted}"
    return f"gin can't read this line: {' '.join(cause.split()).rstrip('.')}", ""


def _is_literal(value: str) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return False
    return True


def _unclosed_bracket(text: str, last_line: int) -> tuple[int, str] | None:
    """Return line and symbol of the innermost bracket that is still open at the start of ``last_line``."""
    opened: list[tuple[int, str]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.start[0] >= last_line and token.start[0] > 1 and opened:
                break
            if token.type == tokenize.OP and token.string in "([{":
                opened.append((token.start[0], token.string))
            elif token.type == tokenize.OP and token.string in ")]}" and opened:
                opened.pop()
    except (tokenize.TokenError, SyntaxError):
        pass
    return opened[-1] if opened else None
