/* Frames of zstd and the blocks in them, as far as their literals are read ahead: see literals_ahead.h. For
 * zstd_decompress.c. */
#ifndef ZV_TWO_FRAMES_H
#define ZV_TWO_FRAMES_H

#include "decoder_ahead.h"

/* Whether no more of a frame is to be decoded than what lies before `out`. */
static int zv_is_enough(const ZSTD_DCtx *dctx, const BYTE *out) {
    return dctx->ahead.enough != NULL && out >= dctx->ahead.enough;
}

/* Before a block is decoded, of `size` bytes at `block`, to `out`: the one behind it. `rest` bytes are left from `block`
 * on. */
static void zv_see_next(ZSTD_DCtx *dctx, const BYTE *block, size_t size, size_t rest, const blockProperties_t *is,
                        const BYTE *out) {
    blockProperties_t next;
    size_t next_size;

    dctx->ahead.next = NULL;
    if (is->lastBlock || is->blockType != bt_compressed) return;
    if (dctx->ahead.enough != NULL && (size_t) (dctx->ahead.enough - out) <= dctx->fParams.blockSizeMax) return;
    block += size;
    rest -= size;
    next_size = ZSTD_getcBlockSize(block, rest, &next);
    if (ZSTD_isError(next_size) || next.blockType != bt_compressed || next_size > rest - ZSTD_blockHeaderSize) return;
    dctx->ahead.next = block + ZSTD_blockHeaderSize;
    dctx->ahead.next_size = next_size;
}

/* In zstd_decompress_block.c (read_ahead.h): whether the literals of both blocks were read. */
int zv_read_first_blocks(ZSTD_DCtx *const dctx[2], zv_literals first[2]);

/* The content of the only block of a frame that decodes to `size` bytes, if it is compressed. */
static int zv_find_only_block(const BYTE *frame, size_t n, size_t size, zv_literals *of) {
    ZSTD_FrameHeader header;
    blockProperties_t is;
    size_t block_size;

    if (ZSTD_getFrameHeader(&header, frame, n) != 0 || header.frameType != ZSTD_frame || header.dictID != 0
        || header.frameContentSize != size || header.headerSize > n)
        return 0;
    frame += header.headerSize;
    n -= header.headerSize;
    block_size = ZSTD_getcBlockSize(frame, n, &is);
    if (ZSTD_isError(block_size) || is.blockType != bt_compressed || !is.lastBlock
        || block_size > n - ZSTD_blockHeaderSize)
        return 0;
    of->block = frame + ZSTD_blockHeaderSize;
    of->block_size = block_size;
    of->most = MIN(header.blockSizeMax, size);
    return 1;
}

/* Whether both frames are of one block, with literals that were worth to be decoded together, and decode to exactly so
 * many bytes. */
ZSTDLIB_API int zv_zstd_decompress_two(ZSTD_DCtx *const dctx[2], void *const out[2], const size_t out_size[2],
                                       const void *const in[2], const size_t in_size[2]);
int zv_zstd_decompress_two(ZSTD_DCtx *const dctx[2], void *const out[2], const size_t out_size[2],
                           const void *const in[2], const size_t in_size[2]) {
    zv_literals first[2];
    int i;

    for (i = 0; i < 2; i++)
        if (!zv_find_only_block((const BYTE *) in[i], in_size[i], out_size[i], &first[i])) return 0;
    if (!zv_read_first_blocks(dctx, first)) return 0;
    for (i = 0; i < 2; i++) {
        zv_ahead *const ahead = &dctx[i]->ahead;
        size_t decoded;
        ahead->ready = first[i];
        ahead->keep = 1;
        decoded = ZSTD_decompressDCtx(dctx[i], out[i], out_size[i], in[i], in_size[i]);
        ahead->keep = 0;
        zv_forget_ahead(ahead);
        if (decoded != out_size[i]) return 0;
    }
    return 1;
}

static size_t ZSTD_decompressFrame(ZSTD_DCtx *dctx, void *dst, size_t dstCapacity, const void **srcPtr,
                                   size_t *srcSizePtr);

/* Whether the first bytes were decoded of a frame that decodes to `out_size` and has no checksum. */
ZSTDLIB_API int zv_zstd_decompress_first(ZSTD_DCtx *dctx, void *out, size_t out_size, size_t first, const void *in,
                                         size_t in_size);
int zv_zstd_decompress_first(ZSTD_DCtx *dctx, void *out, size_t out_size, size_t first, const void *in, size_t in_size) {
    ZSTD_FrameHeader header;
    size_t decoded;

    if (ZSTD_getFrameHeader(&header, in, in_size) != 0 || header.frameType != ZSTD_frame || header.dictID != 0
        || header.frameContentSize != out_size || header.checksumFlag || first > out_size
        || out_size - first < header.blockSizeMax)
        return 0;
    if (ZSTD_isError(ZSTD_decompressBegin_usingDict(dctx, NULL, 0))) return 0;
    ZSTD_checkContinuity(dctx, out, out_size);
    dctx->ahead.enough = (const BYTE *) out + first;
    decoded = ZSTD_decompressFrame(dctx, out, out_size, &in, &in_size);
    dctx->ahead.enough = NULL;
    zv_forget_ahead(&dctx->ahead);
    return !ZSTD_isError(decoded) && decoded >= first;
}

#endif
