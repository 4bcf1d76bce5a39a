"""Decompression of Unix ``compress`` (``.Z`` files), which Python's standard library can't read."""

# The algorithm: T. Welch, "A Technique for High-Performance Data Compression", IEEE Computer 17(6), 1984.
# The format: compress(1) of 4.3BSD, https://en.wikipedia.org/wiki/Compress_(software).
_CLEAR = 256  # in block mode this code empties the dictionary
_FIRST_WIDTH = 9


def decompress(content: bytes) -> bytes:
    """Return the content of a whole ``.Z`` file, given with its header of three bytes.

    >>> decompress(bytes.fromhex("1f9d90 6184 8d06"))
    b'aaab'
    """
    if content[:2] != b"\x1f\x9d":
        raise ValueError("not a .Z file: it does not start with the bytes 1f 9d")
    return _decode(content[3:], max_width=content[2] & 0x1F, block_mode=bool(content[2] & 0x80))


def _decode(packed: bytes, *, max_width: int, block_mode: bool) -> bytes:
    first_free = 257 if block_mode else 256
    strings = [bytes([value]) for value in range(256)] + [b""] * (first_free - 256)
    width, section_start, bit = _FIRST_WIDTH, 0, 0
    num_bits = 8 * len(packed)
    output: list[bytes] = []
    previous = b""

    def next_section(at_bit: int) -> int:
        # The writer flushes codes eight at a time, so a change of width skips to the end of that group.
        group = 8 * width
        return section_start + -(-(at_bit - section_start) // group) * group

    while bit + width <= num_bits:
        if len(strings) > (1 << width) - 1 and width < max_width and len(strings) > first_free:
            section_start = bit = next_section(bit)
            width += 1
            continue
        window = int.from_bytes(packed[bit >> 3 : (bit >> 3) + 4], "little")
        code = (window >> (bit & 7)) & ((1 << width) - 1)
        bit += width
        if block_mode and code == _CLEAR:
            section_start = bit = next_section(bit)
            width, previous = _FIRST_WIDTH, b""
            del strings[first_free:]
            continue
        if code > len(strings) or (code == len(strings) and not previous):
            raise ValueError(f"damaged .Z data: code {code} with {len(strings)} strings known")
        string = strings[code] if code < len(strings) else previous + previous[:1]
        if previous and len(strings) < 1 << max_width:
            strings.append(previous + string[:1])
        output.append(string)
        previous = string
    return b"".join(output)
