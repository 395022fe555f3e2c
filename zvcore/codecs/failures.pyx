"""Which errors the failures of codecs become."""

from libc.stdint cimport int32_t

from zvcore.codecs.abi cimport (
    ZV_CHECKSUM,
    ZV_CORRUPT,
    ZV_INTERNAL,
    ZV_NOMEM,
    ZV_PARAM,
    ZV_SIZE_UNKNOWN,
    ZV_SPACE,
    zv_codec,
    zv_error,
)

from zvcore.errors import CorruptDataError, OutOfMemoryError, UnsupportedError, ZvcoreError

# What happened -> (the error, what is said when the codec itself says nothing, the same for encoding if it differs).
FAILURES = {
    ZV_SPACE: (CorruptDataError, "the decoded data is too long", "the stream holds more bytes than bound() allows"),
    ZV_CORRUPT: (CorruptDataError, "not a valid stream", "the data cannot be encoded"),
    ZV_CHECKSUM: (CorruptDataError, "the checksum does not match", None),
    ZV_PARAM: (UnsupportedError, "the configuration cannot do this", None),
    ZV_NOMEM: (OutOfMemoryError, "out of memory", None),
    ZV_INTERNAL: (ZvcoreError, "the library failed", None),
    WRONG_SIZE: (CorruptDataError, "the decoded data has the wrong size", None),
    TOO_LONG: (CorruptDataError, "the decoded data is too long", None),
    RAISED: (CorruptDataError, "{type}: {error}", None),
}


def too_long(codec, most, found=None):
    """The error for a stream that wants more memory than it may have."""
    return _of_size(TOO_LONG, codec, f"at most {most} bytes", found)


def wrong_size(codec, expected, found=None):
    """The error for a stream of another size than the chunk's."""
    return _of_size(WRONG_SIZE, codec, f"{expected} bytes", found)


def _of_size(status, codec, expected, found):
    error, text, _ = FAILURES[status]
    return error(text, codec=codec, expected=expected, found="more" if found is None else str(found))


cdef object raised(object error, kind, str text, object name):
    # What zvcore raises says what is wrong; what is no mistake in the data (Ctrl-C) stays what it is.
    if isinstance(error, ZvcoreError) or not isinstance(error, Exception):
        return error
    if isinstance(error, MemoryError):
        kind, text = FAILURES[ZV_NOMEM][:2]
    wrapped = kind(text.format(type=type(error).__name__, error=error), codec=name)
    wrapped.__cause__ = error
    return wrapped


cdef str said_by(const zv_error *said):
    # The text is the plugin's: its end is not taken for granted.
    return (<bytes> said.msg[:sizeof(said.msg)]).split(b"\0", 1)[0].decode("utf-8", "replace")


cdef object codec_error(const CodecFailure *failure, const zv_codec *table, object name):
    cdef int32_t status = failure.status
    kind, text, when_encoding = FAILURES.get(status, (ZvcoreError, f"unknown status {status}", None))
    if status == WRONG_SIZE or status == TOO_LONG:
        found = None if failure.found == ZV_SIZE_UNKNOWN else failure.found
        return (wrong_size if status == WRONG_SIZE else too_long)(name, failure.expected, found)
    if not failure.decoding:
        text = when_encoding or text
        # There are no stored bytes yet that could be wrong.
        kind = ZvcoreError if kind is CorruptDataError else kind
    if status == RAISED:
        return raised(<object> failure.exception, kind, text, name)
    said = said_by(&failure.said)
    if said:
        text = f"checksum mismatch: {said}" if status == ZV_CHECKSUM and "checksum" not in said else said
    facts = []
    if table != NULL and table.lib_version != NULL and table.lib_version[0]:
        facts.append(table.lib_version.decode("utf-8", "replace"))
    if failure.said.lib_code:
        facts.append(f"code {failure.said.lib_code}")
    if facts:
        text += f" [{', '.join(facts)}]"
    return kind(text, codec=name)
