"""Messages for text that gin's parser can't read."""

import ast
import io
import tokenize

from t5x_like.gin_config.user_error import UserError, gin_text_flag, set_flag


def syntax_mistake(error: SyntaxError | tokenize.TokenError, text: str, file: str | None) -> UserError:
    """Translate a parser's or tokenizer's error about ``text`` into a message with place and hint.

    Args:
      error: Raised by gin's parser or Python's tokenizer.
      text: The file's text, or a binding from the command line.
      file: Name of the file; None for the command line.
    """
    cause = str(error.args[0])
    line: int = error.args[1][0 if isinstance(error, tokenize.TokenError) else 1]
    bracket = _unclosed_bracket(text, line)
    if bracket and (isinstance(error, tokenize.TokenError) or "Expected ','" in cause):
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
