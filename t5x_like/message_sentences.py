"""Messages that other messages continue."""


def sentence(message: object) -> str:
    """Return a message as a whole sentence, whether or not it ends with a full stop itself.

    >>> f"{sentence('no space left')} Training continues"
    'no space left. Training continues'

    Args:
      message: A message, an error, or whatever a library calls its reason.
    """
    text = str(message).rstrip()
    return text if text.endswith(("?", "!", "…")) else f"{text.rstrip('. ')}."
