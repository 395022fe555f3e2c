FRAMINGS: dict[str, int]

def codec_table(
    framing: str, sniff: bool, block_size: int, acceleration: int, level: int, checksum: bool
) -> object: ...
