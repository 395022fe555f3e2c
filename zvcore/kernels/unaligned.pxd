"""Little-endian loads and stores at any address, on any host: the compiler turns each into one instruction."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef inline uint16_t load_u16(const uint8_t *p) noexcept nogil:
    return <uint16_t> (p[0] | (p[1] << 8))


cdef inline uint32_t load_u32(const uint8_t *p) noexcept nogil:
    return <uint32_t> p[0] | (<uint32_t> p[1] << 8) | (<uint32_t> p[2] << 16) | (<uint32_t> p[3] << 24)


cdef inline uint64_t load_u64(const uint8_t *p) noexcept nogil:
    return (
        <uint64_t> p[0] | (<uint64_t> p[1] << 8) | (<uint64_t> p[2] << 16) | (<uint64_t> p[3] << 24)
        | (<uint64_t> p[4] << 32) | (<uint64_t> p[5] << 40) | (<uint64_t> p[6] << 48) | (<uint64_t> p[7] << 56)
    )


cdef inline int64_t load_i64(const uint8_t *p) noexcept nogil:
    return <int64_t> load_u64(p)


cdef inline void store_u32(uint8_t *p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t> value
    p[1] = <uint8_t> (value >> 8)
    p[2] = <uint8_t> (value >> 16)
    p[3] = <uint8_t> (value >> 24)


cdef inline void store_i64(uint8_t *p, int64_t signed_value) noexcept nogil:
    cdef uint64_t value = <uint64_t> signed_value
    p[0] = <uint8_t> value
    p[1] = <uint8_t> (value >> 8)
    p[2] = <uint8_t> (value >> 16)
    p[3] = <uint8_t> (value >> 24)
    p[4] = <uint8_t> (value >> 32)
    p[5] = <uint8_t> (value >> 40)
    p[6] = <uint8_t> (value >> 48)
    p[7] = <uint8_t> (value >> 56)
