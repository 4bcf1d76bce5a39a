"""Special ids of vocabularies and models, by the roles that Hugging Face's files name."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SpecialTokenIds:
    """Special ids of a vocabulary, or of the model that reads it; None for absent ones.

    Attributes:
      pad: Padding.
      eos: End of sequence.
      bos: Beginning of sequence.
      unk: Unknown piece.
      cls: Classification.
      sep: Separation.
      mask: Mask.
      decoder_start: First id that an encoder-decoder's decoder reads. Training here shifts in 0.
      further_eos: Further ids of which each ends a sequence, as some models' files list them.
    """

    pad: int | None = None
    eos: int | None = None
    bos: int | None = None
    unk: int | None = None
    cls: int | None = None
    sep: int | None = None
    mask: int | None = None
    decoder_start: int = 0
    further_eos: tuple[int, ...] = ()

    @property
    def by_role(self) -> dict[str, int | None]:
        """Ids of the roles that pieces of a vocabulary have, in a fixed order."""
        roles = ("pad", "eos", "bos", "unk", "cls", "sep", "mask")
        return {role: getattr(self, role) for role in roles}

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Ids of which each ends a sequence."""
        return () if self.eos is None else (self.eos, *self.further_eos)

    @property
    def zero_is_padding(self) -> bool:
        """True if id 0 is padding and nothing else. Many decoders' tokenizers pad with their end, which is learned."""
        return [role for role, token_id in self.by_role.items() if token_id == 0] == ["pad"]

    @property
    def fill(self) -> int:
        """Id of positions that nobody reads: padding, or 0 without one."""
        return 0 if self.pad is None else self.pad
