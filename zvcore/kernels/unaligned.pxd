"""Little-endian loads and stores at any address, on any host: the compiler turns each into one instruction."""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t


cdef extern from "zv_bytes.h" nogil:
    uint16_t load_u16 "zv_load_le16"(const void *source)
    uint32_t load_u32 "zv_load_le32"(const void *source)
    uint64_t load_u64 "zv_load_le64"(const void *source)
    int64_t load_i64 "zv_load_le64"(const void *source)
    void store_u32 "zv_store_le32"(void *target, uint32_t value)
    void store_u64 "zv_store_le64"(void *target, uint64_t value)
    void store_i64 "zv_store_le64"(void *target, int64_t value)
