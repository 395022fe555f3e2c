/* CRC-32C on x86-64. Included by zv_crc32c.h, where the arithmetic is explained.
 *
 * The crc32 instruction takes 8 bytes a cycle when three streams hide its latency. Folding takes a register and
 * multiplies it (two 64 x 32 bit carry-less products for each 16 bytes) so that it can be added to what comes later
 * in the message; that runs on another port. With 128-bit registers both are about equally fast, so the SSE4.2 path
 * runs both at once, as that with 256-bit registers does, for some processors take as long to multiply one as the other;
 * with 512-bit registers folding alone is four times as fast as either.
 */
#ifndef ZV_CRC32C_X86_H
#define ZV_CRC32C_X86_H

#include <immintrin.h>

#define ZV_TARGET_SSE42 __attribute__((target("sse4.2,pclmul")))
#define ZV_TARGET_AVX2 __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))
#define ZV_TARGET_AVX512 __attribute__((target("sse4.2,pclmul,avx512f,avx512bw,avx512dq,avx512vl,vpclmulqdq")))

/* Both constants for folding 16 bytes over a distance: the first 8 bytes are 8 further away from the target. */
typedef struct {
    uint64_t first, second;
} zv_fold_key;

/* One block of the SSE4.2 path: `rounds` of 64 bytes for folding, then three streams of `rounds` of 24 bytes. */
typedef struct {
    size_t rounds;
    uint32_t over_streams[3]; /* what moves the folded part, the first and the second stream to the block's end */
} zv_mixed_block;

enum { ZV_MIXED_ROUND = 64 + 3 * 24, ZV_MIXED_KINDS = 3, ZV_MIXED_LONG = 120 };

static zv_mixed_block zv_mixed_blocks[ZV_MIXED_KINDS] = {{ZV_MIXED_LONG, {0}}, {7, {0}}, {2, {0}}};
static zv_fold_key zv_fold_16, zv_fold_32, zv_fold_48, zv_fold_64, zv_fold_128, zv_fold_192, zv_fold_256;
/* Data that comes from memory: eight pages side by side, so that as many lines are on their way at once and the next
 * eight are asked for meanwhile; one after the other, a core waits for each. */
enum { ZV_PAGE = 4096, ZV_PAGE_COUNT = 8, ZV_PAGES = ZV_PAGE_COUNT * ZV_PAGE, ZV_PAGES_FROM = 1 << 20 };
static zv_fold_key zv_fold_page, zv_fold_pages_step;
/* Brings the four 16-byte lanes of a 64-byte register onto the last one. */
static uint64_t zv_fold_lanes[8];

static zv_fold_key zv_fold_key_for(size_t bytes) {
    const zv_fold_key key = {zv_crc32c_shift_key(bytes + 8), zv_crc32c_shift_key(bytes)};
    return key;
}

static void zv_crc32c_prepare_x86(void) {
    for (int kind = 0; kind < ZV_MIXED_KINDS; kind++)
        for (int part = 0; part < 3; part++)
            zv_mixed_blocks[kind].over_streams[part] =
                zv_crc32c_shift_key(zv_mixed_blocks[kind].rounds * 24 * (3 - (size_t)part));
    zv_fold_16 = zv_fold_key_for(16);
    zv_fold_32 = zv_fold_key_for(32);
    zv_fold_48 = zv_fold_key_for(48);
    zv_fold_64 = zv_fold_key_for(64);
    zv_fold_128 = zv_fold_key_for(128);
    zv_fold_192 = zv_fold_key_for(192);
    zv_fold_256 = zv_fold_key_for(256);
    zv_fold_page = zv_fold_key_for(ZV_PAGE);
    zv_fold_pages_step = zv_fold_key_for(ZV_PAGES - ZV_PAGE + 64);
    const zv_fold_key lanes[4] = {zv_fold_48, zv_fold_32, zv_fold_16, {0, 0}};
    memcpy(zv_fold_lanes, lanes, sizeof lanes);
}

ZV_TARGET_SSE42 static inline uint32_t zv_crc32c_serial(uint32_t state, const uint8_t *data, size_t size) {
    uint64_t wide = state;
    for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, zv_load_le64(data));
    state = (uint32_t)wide;
    if (size & 4) {
        state = _mm_crc32_u32(state, zv_load_le32(data));
        data += 4;
    }
    if (size & 2) {
        state = _mm_crc32_u16(state, (uint16_t)(data[0] | data[1] << 8));
        data += 2;
    }
    return size & 1 ? _mm_crc32_u8(state, *data) : state;
}

/* The state of a message of the 16 bytes in `folded`, from the state 0. */
ZV_TARGET_SSE42 static inline uint64_t zv_crc32c_reduce(__m128i folded) {
    const uint64_t first = (uint64_t)_mm_cvtsi128_si64(folded), second = (uint64_t)_mm_extract_epi64(folded, 1);
    return _mm_crc32_u64(_mm_crc32_u64(0, first), second);
}

ZV_TARGET_SSE42 static inline __m128i zv_fold(__m128i value, __m128i key, __m128i next) {
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(value, key, 0x00), _mm_clmulepi64_si128(value, key, 0x11)),
                         next);
}

/* `state` times a shift key; feed it to the crc32 instruction to reduce it. */
ZV_TARGET_SSE42 static inline uint64_t zv_crc32c_shifted(uint64_t state, uint32_t key) {
    const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)state), _mm_cvtsi64_si128(key), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

#define ZV_KEY128(key) _mm_loadu_si128((const __m128i *)&(key))
#define ZV_LOAD128(address) _mm_loadu_si128((const __m128i *)(address))

/* The three streams of a mixed block, and the states of what was read of them. */
typedef struct {
    const uint8_t *first, *second, *third;
    uint64_t one, two, three;
} zv_streams;

static inline zv_streams zv_streams_of(const uint8_t *data, const zv_mixed_block *block) {
    const size_t rounds = block->rounds;
    const uint8_t *first = data + 64 * rounds, *second = first + 24 * rounds, *third = second + 24 * rounds;
    const zv_streams streams = {first, second, third, 0, 0, 0};
    return streams;
}

/* Long blocks come in a row, from memory: the next one is asked for meanwhile. Short ones are the end of the data. */
ZV_TARGET_SSE42 static inline void zv_ask_for_next(const uint8_t *data, const zv_streams *streams,
                                                   const zv_mixed_block *block) {
    const size_t ahead = block->rounds == ZV_MIXED_LONG ? block->rounds * ZV_MIXED_ROUND : 0;
    _mm_prefetch((const char *)data + ahead, _MM_HINT_T0);
    _mm_prefetch((const char *)streams->first + ahead, _MM_HINT_T0);
    _mm_prefetch((const char *)streams->second + ahead, _MM_HINT_T0);
    _mm_prefetch((const char *)streams->third + ahead, _MM_HINT_T0);
}

/* 8 bytes of each stream. */
ZV_TARGET_SSE42 static inline void zv_read_streams(zv_streams *streams) {
    streams->one = _mm_crc32_u64(streams->one, zv_load_le64(streams->first));
    streams->two = _mm_crc32_u64(streams->two, zv_load_le64(streams->second));
    streams->three = _mm_crc32_u64(streams->three, zv_load_le64(streams->third));
    streams->first += 8;
    streams->second += 8;
    streams->third += 8;
}

/* The state of a mixed block: of 64 bytes that were folded, and 24 of each stream that are left. */
ZV_TARGET_SSE42 static inline uint32_t zv_end_mixed(__m128i a, __m128i b, __m128i c, __m128i d, zv_streams *streams,
                                                    const zv_mixed_block *block) {
    zv_read_streams(streams);
    zv_read_streams(streams);
    const uint64_t one = _mm_crc32_u64(streams->one, zv_load_le64(streams->first));
    const uint64_t two = _mm_crc32_u64(streams->two, zv_load_le64(streams->second));
    c = zv_fold(a, ZV_KEY128(zv_fold_32), c);
    d = zv_fold(b, ZV_KEY128(zv_fold_32), d);
    const uint64_t folded = zv_crc32c_reduce(zv_fold(c, ZV_KEY128(zv_fold_16), d));
    /* The reduction of all three products rides on the last 8 bytes of the third stream. */
    const uint64_t carried = zv_crc32c_shifted(folded, block->over_streams[0]) ^
                             zv_crc32c_shifted(one, block->over_streams[1]) ^
                             zv_crc32c_shifted(two, block->over_streams[2]);
    return (uint32_t)_mm_crc32_u64(streams->three, zv_load_le64(streams->third) ^ carried);
}

ZV_TARGET_SSE42 static uint32_t zv_crc32c_mixed(uint32_t state, const uint8_t *data, const zv_mixed_block *block) {
    const __m128i by_64 = ZV_KEY128(zv_fold_64);
    zv_streams streams = zv_streams_of(data, block);
    __m128i a = _mm_xor_si128(ZV_LOAD128(data), _mm_cvtsi32_si128((int)state));
    __m128i b = ZV_LOAD128(data + 16), c = ZV_LOAD128(data + 32), d = ZV_LOAD128(data + 48);
    for (size_t round = 1; round < block->rounds; round++) {
        data += 64;
        zv_ask_for_next(data, &streams, block);
        zv_read_streams(&streams);
        a = zv_fold(a, by_64, ZV_LOAD128(data));
        b = zv_fold(b, by_64, ZV_LOAD128(data + 16));
        zv_read_streams(&streams);
        c = zv_fold(c, by_64, ZV_LOAD128(data + 32));
        d = zv_fold(d, by_64, ZV_LOAD128(data + 48));
        zv_read_streams(&streams);
    }
    return zv_end_mixed(a, b, c, d, &streams, block);
}

#define ZV_LOAD256(address) _mm256_loadu_si256((const __m256i *)(address))

ZV_TARGET_AVX2 static inline __m256i zv_fold256(__m256i value, __m256i key, __m256i next) {
    return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(value, key, 0x00),
                                             _mm256_clmulepi64_epi128(value, key, 0x11)),
                            next);
}

ZV_TARGET_AVX2 static uint32_t zv_crc32c_mixed256(uint32_t state, const uint8_t *data, const zv_mixed_block *block) {
    const __m256i by_64 = _mm256_broadcastsi128_si256(ZV_KEY128(zv_fold_64));
    zv_streams streams = zv_streams_of(data, block);
    __m256i a = _mm256_xor_si256(ZV_LOAD256(data), _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)state)));
    __m256i b = ZV_LOAD256(data + 32);
    for (size_t round = 1; round < block->rounds; round++) {
        data += 64;
        zv_ask_for_next(data, &streams, block);
        zv_read_streams(&streams);
        a = zv_fold256(a, by_64, ZV_LOAD256(data));
        zv_read_streams(&streams);
        b = zv_fold256(b, by_64, ZV_LOAD256(data + 32));
        zv_read_streams(&streams);
    }
    return zv_end_mixed(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1), _mm256_castsi256_si128(b),
                        _mm256_extracti128_si256(b, 1), &streams, block);
}

/* All blocks of each kind that there is room for, the longest first. */
ZV_TARGET_SSE42 static uint32_t zv_crc32c_blocks(uint32_t state, const uint8_t *data, size_t size,
                                                 uint32_t (*mixed)(uint32_t, const uint8_t *, const zv_mixed_block *)) {
    for (int kind = 0; kind < ZV_MIXED_KINDS; kind++) {
        const size_t block = zv_mixed_blocks[kind].rounds * ZV_MIXED_ROUND;
        for (; size >= block; data += block, size -= block) state = mixed(state, data, &zv_mixed_blocks[kind]);
    }
    return zv_crc32c_serial(state, data, size);
}

static uint32_t zv_crc32c_sse42(uint32_t state, const uint8_t *data, size_t size) {
    return zv_crc32c_blocks(state, data, size, zv_crc32c_mixed);
}

static uint32_t zv_crc32c_avx2(uint32_t state, const uint8_t *data, size_t size) {
    return zv_crc32c_blocks(state, data, size, zv_crc32c_mixed256);
}

#define ZV_KEY512(key) _mm512_broadcast_i32x4(ZV_KEY128(key))

ZV_TARGET_AVX512 static inline __m512i zv_fold512(__m512i value, __m512i key, __m512i next) {
    const __m512i first = _mm512_clmulepi64_epi128(value, key, 0x00), second = _mm512_clmulepi64_epi128(value, key, 0x11);
    return _mm512_ternarylogic_epi64(first, second, next, 0x96); /* the exclusive or of all three */
}

/* Folds `size` bytes, a positive multiple of ZV_PAGES, into 64. */
ZV_TARGET_AVX512 static __m512i zv_fold_pages(__m512i head, const uint8_t *data, size_t size) {
    const __m512i by_64 = ZV_KEY512(zv_fold_64), to_next = ZV_KEY512(zv_fold_pages_step);
    __m512i pages[ZV_PAGE_COUNT];
    pages[0] = _mm512_xor_si512(head, _mm512_loadu_si512(data));
    for (int page = 1; page < ZV_PAGE_COUNT; page++) pages[page] = _mm512_loadu_si512(data + page * ZV_PAGE);
    for (;;) {
        for (size_t at = 64; at < ZV_PAGE; at += 64) {
#pragma GCC unroll 8
            for (int page = 0; page < ZV_PAGE_COUNT; page++) {
                const uint8_t *const address = data + (size_t)page * ZV_PAGE + at;
                _mm_prefetch((const char *)address + ZV_PAGES, _MM_HINT_T0);
                pages[page] = zv_fold512(pages[page], by_64, _mm512_loadu_si512(address));
            }
        }
        data += ZV_PAGES;
        size -= ZV_PAGES;
        if (!size) break;
        for (int page = 0; page < ZV_PAGE_COUNT; page++)
            pages[page] = zv_fold512(pages[page], to_next, _mm512_loadu_si512(data + page * ZV_PAGE));
    }
    const __m512i by_page = ZV_KEY512(zv_fold_page);
    for (int page = 1; page < ZV_PAGE_COUNT; page++) pages[page] = zv_fold512(pages[page - 1], by_page, pages[page]);
    return pages[ZV_PAGE_COUNT - 1];
}

ZV_TARGET_AVX512 static uint32_t zv_crc32c_avx512(uint32_t state, const uint8_t *data, size_t size) {
    if (size < 64) return zv_crc32c_serial(state, data, size);
    __m512i last = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state));
    if (size >= ZV_PAGES_FROM) {
        const size_t whole = size / ZV_PAGES * ZV_PAGES;
        last = zv_fold_pages(last, data, whole);
        data += whole;
        size -= whole;
    } else {
        last = _mm512_xor_si512(last, _mm512_loadu_si512(data));
        data += 64;
        size -= 64;
    }
    if (size >= 192) {
        __m512i a = last, b = _mm512_loadu_si512(data), c = _mm512_loadu_si512(data + 64);
        __m512i d = _mm512_loadu_si512(data + 128);
        const __m512i by_256 = ZV_KEY512(zv_fold_256);
        data += 192;
        size -= 192;
        for (; size >= 256; data += 256, size -= 256) {
            a = zv_fold512(a, by_256, _mm512_loadu_si512(data));
            b = zv_fold512(b, by_256, _mm512_loadu_si512(data + 64));
            c = zv_fold512(c, by_256, _mm512_loadu_si512(data + 128));
            d = zv_fold512(d, by_256, _mm512_loadu_si512(data + 192));
        }
        last = zv_fold512(c, ZV_KEY512(zv_fold_64), d);
        last = zv_fold512(b, ZV_KEY512(zv_fold_128), last);
        last = zv_fold512(a, ZV_KEY512(zv_fold_192), last);
    }
    for (; size >= 64; data += 64, size -= 64) last = zv_fold512(last, ZV_KEY512(zv_fold_64), _mm512_loadu_si512(data));
    const __m512i lanes = _mm512_loadu_si512(zv_fold_lanes);
    const __m512i moved = _mm512_xor_si512(_mm512_clmulepi64_epi128(last, lanes, 0x00),
                                           _mm512_clmulepi64_epi128(last, lanes, 0x11));
    const __m256i halves = _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));
    const __m128i folded = _mm_xor_si128(_mm_xor_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)),
                                         _mm512_extracti32x4_epi32(last, 3));
    return zv_crc32c_serial((uint32_t)zv_crc32c_reduce(folded), data, size);
}

#endif
