/* What a decoder of zstd keeps of the blocks whose literals it reads ahead: see literals_ahead.h. For
 * zstd_decompress_internal.h, as a part of ZSTD_DCtx. */
#ifndef ZV_DECODER_AHEAD_H
#define ZV_DECODER_AHEAD_H

#include "literals_ahead.h"

typedef struct {
    /* The block behind the one that is decoded now, in the same frame; NULL if there is none, or it is not compressed. */
    const BYTE *next;
    size_t next_size;
    zv_literals ready; /* what was read ahead */
    int keep;          /* It was read before the frame began. */
    const BYTE *enough; /* no more than up to here is to be decoded; NULL: all of the frame */
    HUF_DTable tables[2][HUF_DTABLE_SIZE(ZSTD_HUFFDTABLE_CAPACITY_LOG)];
    BYTE room[2][ZSTD_BLOCKSIZE_MAX + WILDCOPY_OVERLENGTH];
} zv_ahead;

static inline void zv_forget_ahead(zv_ahead *ahead) {
    ahead->next = NULL;
    if (!ahead->keep) ahead->ready.block = NULL;
    ahead->keep = 0;
}

static inline void zv_new_ahead(zv_ahead *ahead) {
    ahead->keep = 0;
    ahead->enough = NULL;
    zv_forget_ahead(ahead);
}

#endif
