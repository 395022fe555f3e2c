/*
 * The sorting of libbz2, by suffixes: libsais takes linear time, whatever the block holds. libbz2's own takes ten times as
 * long where much is repeated (labels). What is written is the same to the bit, since no two rotations of a block are
 * equal; blocks of which some are, which repeat one piece and hold nothing else, are left to libbz2.
 *
 * Rotations are to be sorted, libsais sorts suffixes, of which the shorter comes first where one is the beginning of
 * another. Both orders are one for the least rotation of a block: behind the shorter suffix goes on what the whole
 * begins with, and that is less than anything that the longer one may go on with.
 */
#ifndef ZV_SORT_ROTATIONS_H
#define ZV_SORT_ROTATIONS_H

#include <string.h>

#include "bzlib_private.h"
#include "libsais.h"

/* Where the least rotation of a block begins; -1 if there are several, because it is one piece, repeated. */
static Int32 zv_least_rotation(const UChar *block, Int32 n)
{
   /* Two candidates, and how far both are known to be equal: whichever is greater is passed over as far as that. */
   Int32 one = 0, other = 1, same = 0;
   while (one < n && other < n && same < n) {
      Int32 a = one + same, b = other + same;
      UChar left = block[a < n ? a : a - n], right = block[b < n ? b : b - n];
      if (left == right) {
         same++;
         continue;
      }
      if (left > right) one += same + 1; else other += same + 1;
      if (one == other) other++;
      same = 0;
   }
   if (same == n)
      return -1;
   return one < other ? one : other;
}

/* Put the order of the block's rotations into `ptr`; False if libbz2 shall do it. */
static Bool zv_sort_rotations(EState *s)
{
   const Int32 n = s->nblock;
   Int32 *order = (Int32 *) s->arr1;
   UChar *block = s->block, *rotated = block;
   Int32 begin = zv_least_rotation(block, n);
   Int32 i;
   if (begin < 0)
      return False;
   if (begin != 0) {
      /* Behind the block lies what libbz2 would sort with: three times as much. */
      rotated = block + n;
      memcpy(rotated, block + begin, n - begin);
      memcpy(rotated + n - begin, block, begin);
   }
   if (libsais(rotated, order, n, 100000 * s->blockSize100k - n, NULL) != 0)
      return False;
   if (begin != 0)
      for (i = 0; i < n; i++) {
         Int32 at = order[i] + begin;
         order[i] = at < n ? at : at - n;
      }
   return True;
}

#endif
