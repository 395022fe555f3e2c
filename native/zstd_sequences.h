/* How zstd's decoder takes the sequences of a block, each some literals and a match. For zstd_decompress_block.c.
 *
 * Two things are done in another way than libzstd does them, for processors that foresee branches and pay for those that
 * they did not foresee. Matches are copied as those of libdeflate are (copy_match.h), where the block has room behind them:
 * labels take 0.85 to 0.9 of the time. And where every other match, or every fourth, is so long that its length has bits
 * behind its code, these are taken without asking whether there are any: 0.85 to 0.95 again. Where matches are short, as
 * in noise, to ask costs nothing, and the next sequence need not wait for an answer that is known to be none.
 */
#ifndef ZV_ZSTD_SEQUENCES_H
#define ZV_ZSTD_SEQUENCES_H

typedef BYTE u8;
typedef U16 u16;
typedef U32 u32;
typedef U64 u64;
#define forceinline FORCE_INLINE_ATTR inline
#define likely LIKELY
#define ZV_ASK_AT_16 1
#include "copy_match.h"

/* In ZSTD_execSequence, before all else. What it does for other sequences remains. */
#define ZV_COPY_SEQUENCE                                                                                     \
    if (LIKELY(iLitEnd <= litLimit && sequenceLength + ZV_WRITTEN_AFTER_MATCH < (size_t) (oend - op)         \
               && sequence.offset - 1 < (size_t) (oLitEnd - prefixStart))) {                                 \
        ZSTD_copy16(op, *litPtr);                                                                            \
        if (UNLIKELY(sequence.litLength > 16))                                                               \
            ZSTD_wildcopy(op + 16, *litPtr + 16, (ptrdiff_t) sequence.litLength - 16, ZSTD_no_overlap);      \
        *litPtr = iLitEnd;                                                                                   \
        zv_copy_match(match, oLitEnd, oMatchEnd, (U32) sequence.offset);                                     \
        return sequenceLength;                                                                               \
    }

/* A third kind of ZSTD_longOffset_e, which means nothing but for 32 bits. */
#define ZV_LENGTHS_VARY ((ZSTD_longOffset_e) 2)

/* In ZSTD_decodeSequence. */
#define ZV_TAKE_LENGTH                                                                                       \
    if (longOffsets == ZV_LENGTHS_VARY) seq.matchLength += BIT_readBits(&seqState->DStream, mlBits);         \
    else

/* So few sequences do not pay for a look at the table. */
#define ZV_FEW_SEQUENCES 256

/* Whether a length of a match may, or may not, have bits behind its code: of each state of the table as many sequences are
 * to be expected. */
static int zv_lengths_vary(const ZSTD_seqSymbol *table, int sequences) {
    U32 const states = (U32) 1 << ((const ZSTD_seqSymbol_header *) table)->tableLog;
    U32 with_bits = 0;
    U32 i;
    if (sequences < ZV_FEW_SEQUENCES) return 0;
    for (i = 1; i <= states; i++) with_bits += table[i].nbAdditionalBits != 0;
    return with_bits * 8 >= states && with_bits * 8 <= states * 7;
}

/* ZSTD_decompressSequences_bmi2 once more. */
#define ZV_SEQUENCES_OF_VARYING_LENGTHS                                                                      \
    static BMI2_TARGET_ATTRIBUTE size_t DONT_VECTORIZE zv_sequences_of_varying_lengths(                      \
        ZSTD_DCtx *dctx, void *dst, size_t maxDstSize, const void *seqStart, size_t seqSize, int nbSeq,      \
        const ZSTD_longOffset_e isLongOffset) {                                                              \
        (void) isLongOffset;                                                                                 \
        return ZSTD_decompressSequences_body(dctx, dst, maxDstSize, seqStart, seqSize, nbSeq,                \
                                             ZV_LENGTHS_VARY);                                               \
    }
/* In the place of its call. */
#define ZV_CHOOSE_SEQUENCES                                                                                  \
    if (MEM_64bits() && zv_lengths_vary(dctx->MLTptr, nbSeq))                                                \
        return zv_sequences_of_varying_lengths(dctx, dst, maxDstSize, seqStart, seqSize, nbSeq, isLongOffset);

#endif
