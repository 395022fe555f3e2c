"""The numbers by which liblzma, and with it numcodecs and its documents, name presets and filters."""

EXTREME = 1 << 31
FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW = 1, 2, 3
CRC64 = 4
# The working memory that a stream may ask for. The largest preset's streams ask for 65 MiB.
MEMORY_LIMIT = 256 << 20
