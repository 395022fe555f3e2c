/* Where zstd's decoder comes to the literals of a block: see literals_ahead.h. For zstd_decompress_block.c. */
#ifndef ZV_READ_AHEAD_H
#define ZV_READ_AHEAD_H

#include "decoder_ahead.h"

/* Fewer are not worth two more loops. */
#define ZV_FEWEST_LITERALS 1024
#define ZV_FEWEST_FOR_HALVES 4096

/* Whether the block begins with literals in four streams; where they lie, and what stands in front of them. As far as
 * ZSTD_decodeLiteralsBlock would look, too, before it decodes them. */
static int zv_find_literals(zv_literals *of) {
    const BYTE *const head = of->block;
    size_t head_size;
    U32 kind;

    if (of->block_size < 5) return 0;
    kind = head[0] & 3;
    if (kind != set_compressed && kind != set_repeat) return 0;
    if (((head[0] >> 2) & 3) == 2) {
        head_size = 4;
        of->count = (MEM_readLE32(head) >> 4) & 0x3FFF;
        of->in_size = MEM_readLE32(head) >> 18;
    } else if (((head[0] >> 2) & 3) == 3) {
        head_size = 5;
        of->count = (MEM_readLE32(head) >> 4) & 0x3FFFF;
        of->in_size = (MEM_readLE32(head) >> 22) + ((size_t) head[4] << 10);
    } else {
        return 0; /* a single stream, or few literals */
    }
    if (of->count < ZV_FEWEST_LITERALS || of->count > of->most || head_size + of->in_size > of->block_size) return 0;
    of->in = head + head_size;
    of->taken = head_size + of->in_size;
    of->has_code = kind == set_compressed;
    return !of->has_code || of->in_size * 16 >= of->count * ZV_LEAST_FOR_TWO
           || !HUF_selectDecoder(of->count, of->in_size);
}

/* The table for the literals: made of the code in front of them, in `own`, or `last`; NULL for none. */
static int zv_find_table(ZSTD_DCtx *dctx, zv_literals *of, HUF_DTable *own, const HUF_DTable *last) {
    size_t code_size;

    of->table = last;
    if (!of->has_code) return last != NULL && ((const BYTE *) last)[1] == 0; /* of one symbol in each entry */
    own[0] = (HUF_DTable) (ZSTD_HUFFDTABLE_CAPACITY_LOG * 0x1000001);
    code_size = HUF_readDTableX1_wksp(own, of->in, of->in_size, dctx->workspace, sizeof(dctx->workspace),
                                      ZSTD_DCtx_get_bmi2(dctx) ? HUF_flags_bmi2 : 0);
    if (HUF_isError(code_size) || code_size >= of->in_size) return 0;
    of->table = own;
    of->in += code_size;
    of->in_size -= code_size;
    return 1;
}

static int zv_read_both(ZSTD_DCtx *dctx, const zv_literals *first, const zv_literals *second) {
    return zv_decode_two_literals(first, second, ZSTD_DCtx_get_bmi2(dctx) ? HUF_flags_bmi2 : 0);
}

/* The literals of this block and of the one behind it, which are then ready. */
static int zv_read_with_next(ZSTD_DCtx *dctx, zv_literals *of) {
    zv_ahead *const ahead = &dctx->ahead;
    zv_literals next;
    const HUF_DTable *const last = dctx->litEntropy ? dctx->HUFptr : NULL;
    HUF_DTable *own = ahead->tables[last == ahead->tables[0]];

    if (ahead->next == NULL) return 0;
    next.block = ahead->next;
    next.block_size = ahead->next_size;
    next.most = ZSTD_blockSizeMax(dctx);
    if (!zv_find_literals(of) || !zv_find_literals(&next) || !zv_find_table(dctx, of, own, last)) return 0;
    /* Of three tables, of which one is the last block's, only those of two are needed from here on. */
    if (of->table == own) own = ahead->tables[own == ahead->tables[0]];
    if (!zv_find_table(dctx, &next, own, of->table)) return 0;
    of->out = ahead->room[0];
    next.out = ahead->room[1];
    if (!zv_read_both(dctx, of, &next)) return 0;
    ahead->ready = next;
    return 1;
}

/* The literals of this block alone, from two places of each stream. */
static int zv_read_alone(ZSTD_DCtx *dctx, zv_literals *of) {
    zv_ahead *const ahead = &dctx->ahead;
    const HUF_DTable *const last = dctx->litEntropy ? dctx->HUFptr : NULL;

    if (!zv_find_literals(of) || of->count < ZV_FEWEST_FOR_HALVES
        || !zv_find_table(dctx, of, ahead->tables[last == ahead->tables[0]], last))
        return 0;
    of->out = ahead->room[0];
    return zv_decode_halves(of, ahead->room[1], sizeof(ahead->room[1]), ZSTD_DCtx_get_bmi2(dctx) ? HUF_flags_bmi2 : 0);
}

/* The literals of a block, where they were read ahead, or can be read together with those of the next one: how many bytes
 * of the block they take; 0 if it is as ever. `most` as in zv_literals. */
static size_t zv_take_literals(ZSTD_DCtx *dctx, const BYTE *block, size_t size, size_t most) {
    zv_literals *const ready = &dctx->ahead.ready;
    zv_literals of;

    if (!dctx->isFrameDecompression) return 0;
    if (ready->block == block && ready->block_size == size && ready->count <= most) {
        of = *ready;
        ready->block = NULL;
    } else {
        of.block = block;
        of.block_size = size;
        of.most = most;
        if (!zv_read_with_next(dctx, &of) && !zv_read_alone(dctx, &of)) return 0;
    }
    dctx->litBuffer = of.out;
    dctx->litBufferEnd = of.out + of.count;
    dctx->litBufferLocation = ZSTD_not_in_dst;
    dctx->litPtr = of.out;
    dctx->litSize = of.count;
    dctx->litEntropy = 1;
    dctx->HUFptr = of.table;
    return of.taken;
}

/* Where ZSTD_decodeLiteralsBlock begins. */
#define ZV_TAKE_LITERALS                                                                                   \
    if (streaming == not_streaming) {                                                                      \
        size_t const zv_taken = zv_take_literals(dctx, (const BYTE *) src, srcSize,                        \
                                                 MIN(ZSTD_blockSizeMax(dctx), dstCapacity));               \
        if (zv_taken) return zv_taken;                                                                     \
    }

int zv_read_first_blocks(ZSTD_DCtx *const dctx[2], zv_literals first[2]) {
    int i;
    for (i = 0; i < 2; i++) {
        first[i].out = dctx[i]->ahead.room[1];
        if (!zv_find_literals(&first[i])) return 0;
    }
    for (i = 0; i < 2; i++)
        if (!zv_find_table(dctx[i], &first[i], dctx[i]->ahead.tables[0], NULL)) return 0;
    return zv_read_both(dctx[0], &first[0], &first[1]);
}

#endif
