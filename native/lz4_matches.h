/* What lz4's decoder copies its longer matches by: as libdeflate's are copied (copy_match.h). For lz4.c.
 *
 * Those of labels are some 40 bytes long, each another length, and its loop of 32 bytes at a time ends where the processor
 * did not foresee it: labels take 0.8 to 0.95 of the time. So many bytes must be free behind a match; nearer to the end
 * of the result it is as it was. A match that begins where it ends is none: the format has no offset of 0, of which lz4
 * makes zeros.
 */
#ifndef ZV_LZ4_MATCHES_H
#define ZV_LZ4_MATCHES_H

typedef BYTE u8;
typedef U16 u16;
typedef U32 u32;
typedef U64 u64;
#ifdef _MSC_VER
#define forceinline __forceinline
#else
#define forceinline inline __attribute__((always_inline))
#endif
#define ZV_ASK_AT_16 1
#include "copy_match.h"

/* Its loop asks for 32 bytes behind literals, too. */
#define ZV_FREE_BEHIND_MATCH (ZV_COPIED_AT_ONCE + 32)

#endif
