/*
 * The codes of a bzip2 block, decoded with tables. libbz2 reads each bit by bit, and can stop before any of them; this
 * reads whole symbols from a window of 64 bits while so much input is there that none can end early, and leaves the
 * rest to libbz2.
 */
#ifndef ZV_READ_CODES_H
#define ZV_READ_CODES_H

#include <stdint.h>
#include <string.h>

#include "bzlib_private.h"
#include "move_to_front.h"

#define ZV_CODE_BITS 10

/* build.py adds this member. */
_Static_assert(sizeof(((DState *) 0)->zv_codes[0]) == sizeof(UInt16) << ZV_CODE_BITS, "a place for every ten bits");

/* A run is at most 21 symbols and the one after it, of 20 bits each; and eight bytes are read at once. */
#define ZV_ENOUGH_INPUT 72
#define ZV_LONGEST_CODE 20

/* The symbol that has this place in the order of the codes, times 32, and the length of its code; 0 if there is none. */
static UInt16 zv_code(const DState *s, Int32 t, Int32 index, Int32 length)
{
   if (index < 0 || index >= BZ_MAX_ALPHA_SIZE || s->perm[t][index] > s->nInUse + 1)
      return 0;
   return (UInt16) (s->perm[t][index] << 5 | length);
}

/* What the bits that come next mean, as `zv_code` says it; 0 if the code is longer than that, too. */
static void zv_prepare_codes(DState *s, Int32 t)
{
   UInt16 *codes = s->zv_codes[t];
   Int32 at = 0, length;
   memset(codes, 0, sizeof(s->zv_codes[t]));
   /* As GET_MTF_VAL finds them, whatever the lengths are: the first length whose limit the bits do not exceed. */
   for (length = s->minLens[t]; length <= ZV_CODE_BITS; length++) {
      const Int32 limit = s->limit[t][length] + 1, shift = ZV_CODE_BITS - length;
      const Int32 end = limit > (1 << length) ? 1 << ZV_CODE_BITS : limit << shift;
      for (; at < end; at++) {
         const Int32 index = (at >> shift) - s->base[t][length];
         codes[at] = zv_code(s, t, index, length);
      }
   }
}

/* A code that the table does not hold; 0 if there is none. */
static UInt32 zv_long_code(const DState *s, Int32 t, uint64_t window)
{
   Int32 length;
   for (length = s->minLens[t]; length <= ZV_LONGEST_CODE; length++) {
      const Int32 bits = (Int32) (window >> (64 - length));
      if (bits <= s->limit[t][length]) {
         const Int32 index = bits - s->base[t][length];
         return zv_code(s, t, index, length);
      }
   }
   return 0;
}

/* Where libbz2's decoder of symbols stands. */
typedef struct {
   Int32 symbol; /* read, and still to be decoded */
   Int32 group, left; /* which group of fifty symbols it is from, and how many of that are still to be read */
   Int32 groups, end, blockMax; /* how many groups there are, the symbol that ends the block, and how large that may be */
   Int32 block; /* bytes decoded */
} ZvSymbols;

/* The next symbol into `symbol`; `return BZ_DATA_ERROR` where libbz2 does. */
#define ZV_NEXT_SYMBOL                                              \
   do {                                                             \
      uint64_t more;                                                \
      UInt32 code;                                                  \
      if (left == 0) {                                              \
         if (++group >= at->groups) return BZ_DATA_ERROR;           \
         left = BZ_G_SIZE;                                          \
         codes = s->zv_codes[s->selector[group]];                   \
      }                                                             \
      left--;                                                       \
      memcpy(&more, in, sizeof(more));                              \
      window |= ZV_BIG_ENDIAN(more) >> live;                        \
      in += (63 - live) >> 3;                                       \
      live |= 56;                                                   \
      code = codes[window >> (64 - ZV_CODE_BITS)];                  \
      if (code == 0) {                                              \
         code = zv_long_code(s, s->selector[group], window);        \
         if (code == 0) return BZ_DATA_ERROR;                       \
      }                                                             \
      window <<= code & 31;                                         \
      live -= code & 31;                                            \
      symbol = (Int32) (code >> 5);                                 \
   } while (0)

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define ZV_BIG_ENDIAN(word) (word)
#else
#define ZV_BIG_ENDIAN(word) __builtin_bswap64(word)
#endif

/* Decode as long as enough input is there; BZ_OK if it ends or the block does, or what libbz2 would say. */
static int zv_read_symbols(DState *s, ZvSymbols *at)
{
   ZV_LIST UChar list[256];
   Int32 counts[256] = {0}; /* of each byte */
   bz_stream *strm = s->strm;
   const UChar *in = (const UChar *) strm->next_in, *const begin = in;
   const UChar *const enough = in + strm->avail_in - ZV_ENOUGH_INPUT;
   /* The bits that libbz2 has read but not used are the first of the window; below them are zeros, or what is there. */
   UInt32 live = (UInt32) s->bsLive;
   uint64_t window = live == 0 ? 0 : (uint64_t) s->bsBuff << (64 - live);
   Int32 symbol = at->symbol, group = at->group, left = at->left, block = at->block, i;
   const UInt16 *codes = s->zv_codes[s->selector[group]];
   UInt32 *out = s->tt;

   for (i = 0; i < 256; i++)
      list[i] = s->mtfa[s->mtfbase[i / MTFL_SIZE] + i % MTFL_SIZE];

   while (in <= enough && symbol != at->end) {
      if (symbol > BZ_RUNB) {
         UChar byte;
         if (block >= at->blockMax) return BZ_DATA_ERROR;
         byte = s->seqToUnseq[zv_take_to_front(list, (UInt32) (symbol - 1))];
         counts[byte]++;
         out[block++] = byte;
         ZV_NEXT_SYMBOL;
      } else {
         Int32 run = 0, weight = 1;
         const UChar byte = s->seqToUnseq[list[0]];
         do {
            if (weight >= 2 * 1024 * 1024) return BZ_DATA_ERROR;
            run += symbol == BZ_RUNA ? weight : 2 * weight;
            weight *= 2;
            ZV_NEXT_SYMBOL;
         } while (symbol == BZ_RUNA || symbol == BZ_RUNB);
         if (run > at->blockMax - block) return BZ_DATA_ERROR;
         counts[byte] += run;
         for (i = 0; i < run; i++) out[block + i] = byte;
         block += run;
      }
   }

   /* Whole bytes of the window go back. */
   in -= live >> 3;
   live &= 7;
   s->bsLive = (Int32) live;
   s->bsBuff = live == 0 ? 0 : (UInt32) (window >> (64 - live));
   i = (Int32) (in - begin);
   strm->next_in += i;
   strm->avail_in -= (UInt32) i;
   strm->total_in_lo32 += (UInt32) i;
   if (strm->total_in_lo32 < (UInt32) i) strm->total_in_hi32++;
   for (i = 0; i < 256; i++) s->unzftab[i] += counts[i];
   for (i = 0; i < 256; i++) {
      const Int32 base = MTFA_SIZE - 256;
      s->mtfa[base + i] = list[i];
      s->mtfbase[i / MTFL_SIZE] = base + i / MTFL_SIZE * MTFL_SIZE;
   }
   at->symbol = symbol;
   at->group = group;
   at->left = left;
   at->block = block;
   return BZ_OK;
}

/* In libbz2's loop over symbols: go on from where it stands, and leave its variables as it would have them. */
#define ZV_READ_SYMBOLS                                                             \
   if (!s->smallDecompress && s->strm->avail_in >= 2 * ZV_ENOUGH_INPUT) {           \
      ZvSymbols at = {nextSym, groupNo, groupPos, nSelectors, EOB, nblockMAX, nblock}; \
      if (zv_read_symbols(s, &at) != BZ_OK) RETURN(BZ_DATA_ERROR);                  \
      nextSym = at.symbol;                                                          \
      groupNo = at.group;                                                           \
      groupPos = at.left;                                                           \
      nblock = at.block;                                                            \
      gSel = s->selector[groupNo];                                                  \
      gMinlen = s->minLens[gSel];                                                   \
      gLimit = &s->limit[gSel][0];                                                  \
      gPerm = &s->perm[gSel][0];                                                    \
      gBase = &s->base[gSel][0];                                                    \
   }

#endif
