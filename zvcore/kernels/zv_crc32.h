/* CRC-32 as in gzip, PNG and zip archives: libdeflate's, else eight bytes at a time. */
#ifndef ZV_CRC32_H
#define ZV_CRC32_H

#include <stddef.h>
#include <stdint.h>

#ifdef ZV_HAVE_LIBDEFLATE

#include <libdeflate.h>

static void zv_crc32_begin(void) {}

static uint32_t zv_crc32(uint32_t value, const uint8_t *data, size_t n) { return libdeflate_crc32(value, data, n); }

#else

static uint32_t zv_crc32_tables[8][256];

/* Once, before anything else. */
static void zv_crc32_begin(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        zv_crc32_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            const uint32_t before = zv_crc32_tables[table - 1][byte];
            zv_crc32_tables[table][byte] = before >> 8 ^ zv_crc32_tables[0][before & 255];
        }
}

static uint32_t zv_crc32(uint32_t value, const uint8_t *data, size_t n) {
    uint32_t crc = ~value;
    for (; n >= 8; n -= 8, data += 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = zv_crc32_tables[7][crc & 255] ^ zv_crc32_tables[6][crc >> 8 & 255] ^ zv_crc32_tables[5][crc >> 16 & 255] ^
              zv_crc32_tables[4][crc >> 24] ^ zv_crc32_tables[3][data[4]] ^ zv_crc32_tables[2][data[5]] ^
              zv_crc32_tables[1][data[6]] ^ zv_crc32_tables[0][data[7]];
    }
    while (n--) crc = crc >> 8 ^ zv_crc32_tables[0][(crc ^ *data++) & 255];
    return ~crc;
}

#endif

#endif
