"""The C libraries that `build.py` builds: where their sources are, how they are compiled, what we change in them."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Another processor than this one, for `.ci/arm`.
MACHINE = os.environ.get("ZVCORE_NATIVE_FOR", platform.machine()).lower()
X86 = MACHINE in ("x86_64", "amd64")
ARM = MACHINE in ("aarch64", "arm64")

# The same flags for every library. All of them choose instructions when they run, so nothing names a processor.
FLAGS = ["-O3", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-g0"]


@dataclass(frozen=True)
class Change:
    """A piece of a library's source that occurs once in a file, and what stands in its place in our build."""

    path: str
    theirs: str
    ours: str


@dataclass(frozen=True)
class Library:
    """One C library: which files of which crate make it, and what it needs."""

    crate: str
    folder: str
    package: str
    archive: str
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    without: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()  # files beside this one that are part of it
    changes: tuple[Change, ...] = ()
    include: tuple[str, ...] = (".",)
    flags: tuple[str, ...] = ()
    flags_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # What is compiled once more with other flags, by the flag.
    again: dict[str, tuple[str, ...]] = field(default_factory=dict)
    uses: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    version_header: str = ""
    # Programs without which it is not built: codecs do without it.
    programs: tuple[str, ...] = ()
    # What those that use it are compiled with.
    tells: tuple[str, ...] = ()
    licences: tuple[str, ...] = ("LICENSE",)


COUNT_LENGTHS = """for (len = 0; len <= max_codeword_len; len++)
		len_counts[len] = 0;
	for (sym = 0; sym < num_syms; sym++)
		len_counts[lens[sym]]++;"""
SORT_BY_LENGTHS = "for (sym = 0; sym < num_syms; sym++)\n\t\tsorted_syms[offsets[lens[sym]]++] = sym;"
SKIP_UNUSED = "sorted_syms += offsets[0];"
DEFLATE_HEADER = '#include "deflate_constants.h"'
NEAR_COPY = "if (UNALIGNED_ACCESS_IS_FAST && offset >= WORDBYTES)"
FIRST_DECODER = "#define FUNCNAME deflate_decompress_default"
BEFORE_LOOP = "if (in_next >= in_fastloop_end || out_next >= out_fastloop_end)"
CHOICE = "#ifdef arch_select_decompress_func"
AFTER_CODES = "/*\n * Clear the Huffman symbol frequency counters."
BLOCK_STATE = "struct block_split_stats {"
AT_BEGIN = "os.overflow = false;"
IS_ENOUGH = "if (cur_len >= nice_len)"
WRITE_BLOCK = "deflate_flush_block(c, os, block_begin, block_length, sequences,\n\t\t\t    is_final_block)"
COUNTED = "\n\tstats->num_new_observations++;"
COUNT_LITERAL = f"stats->new_observations[((lit >> 5) & 0x6) | (lit & 1)]++;{COUNTED}"
COUNT_MATCH = f"stats->new_observations[NUM_LITERAL_OBSERVATION_TYPES +\n\t\t\t\t(length >= 9)]++;{COUNTED}"
CODE_LENGTHS = "deflate_compute_full_len_codewords(c, codes);"
NOTE_USED = "for (i = 0; i < data_len; i++)\n\t\tused[data[i]] = 1;"
SEARCH = "return ZSTD_compressBlock_doubleFast_noDict_{0}(ms, seqStore, rep, src, srcSize);"
SEARCH_SAMPLES = "return zv_search_block(ms, seqStore, rep, src, srcSize, ZSTD_compressBlock_doubleFast_noDict_{0});"
# For two_literals.h, half_streams.h, read_ahead.h and two_frames.h, which read literals of zstd at two places at once.
LITERALS_LOOP = "= HUF_decompress4X1_usingDTable_internal_fast_c_loop;"
LITERALS_DECODER = (
    "#if HUF_NEED_BMI2_FUNCTION\nstatic BMI2_TARGET_ATTRIBUTE\nsize_t HUF_decompress4X1_usingDTable_internal_bmi2("
)
LITERALS_END = "HUF_DECODER_FAST_TABLELOG);\n            if (args.op[i] != segmentEnd) return"
LITERALS_TABLE = "return DTime1 < DTime0;"
DCTX_ROOM = "    BYTE litExtraBuffer["
DCTX_NEW = "    dctx->staticSize  = 0;\n    dctx->ddict       = NULL;"
DCTX_BEGIN = "    dctx->HUFptr = dctx->entropy.hufTable;\n    return 0;"
DCTX = "struct ZSTD_DCtx_s\n{"
LITERALS = "/*! ZSTD_decodeLiteralsBlock() :"
LITERALS_BEGIN = "    {   const BYTE* const istart = (const BYTE*) src;\n        SymbolEncodingType_e const litEncType"
# For zstd_sequences.h.
SEQUENCE_BEGIN = (
    "#if defined(__aarch64__)\n    /* prefetch sequence starting from match that will be used for copy later */"
)
SEQUENCE_LENGTH = "        if (mlBits > 0)"
SEQUENCES = "static BMI2_TARGET_ATTRIBUTE size_t\nDONT_VECTORIZE\nZSTD_decompressSequencesSplitLitBuffer_bmi2("
SEQUENCES_CALL = "        return ZSTD_decompressSequences_bmi2("
FRAME = "/*! ZSTD_decompressFrame() :"
BLOCK = "        switch(blockProperties.blockType)"
CHOOSE_MATCH = "static forceinline void\ndeflate_choose_match("
TABS = "\t" * 6
NO_MATCH_FASTEST = f"deflate_choose_literal(c, *in_next++, false,\n{TABS}       seq);\n\t\t\t}}\n\n"
NO_MATCH_GREEDY = f"deflate_choose_literal(c, *in_next++, true,\n{TABS}       seq);\n\t\t\t}}\n\n"
NO_MATCH_LAZY = f"deflate_choose_literal(c, *in_next++, true,\n{TABS}       seq);\n\t\t\t\tcontinue;"
PASS = "in_next = zv_pass(c, seq, &in_cur_base, in_next, in_max_block_end, next_hashes);"
PASS_FASTEST = "in_next = zv_pass_fastest(c, seq, &in_cur_base, in_next, in_max_block_end, &next_hash);"
BZLIB = '#include "bzlib_private.h"'
MTF_SIZE = "#define MTFA_SIZE 4096"
READ_SYMBOLS = "GET_MTF_VAL(BZ_X_MTF_1, BZ_X_MTF_2, nextSym);\n\n      while (True) {"
MOVE_TO_FRONT = """            register UChar  rtmp;
            register UChar* ryy_j;
            register UChar  rll_i;
            rtmp  = yy[1];
            yy[1] = yy[0];
            ryy_j = &(yy[1]);
            rll_i = ll_i;
            while ( rll_i != rtmp ) {
               register UChar rtmp2;
               ryy_j++;
               rtmp2  = rtmp;
               rtmp   = *ryy_j;
               *ryy_j = rtmp2;
            };
            yy[0] = rtmp;
            j = ryy_j - &(yy[0]);
"""
# For blosc_lz4.c, which has another way for planes of shuffled values.
LZ4_OUTPUT = "(char *)dest, (size_t)maxout, "
SHUFFLES = "/*  Define function pointer types for shuffle/unshuffle routines. */"
PLANE = "(doshuffle || (dobitshuffle && typesize > 1))"
# For lz4_matches.h.
LZ4_DECODER = "LZ4_FORCE_INLINE int\nLZ4_decompress_generic("
LZ4_DISTANCE = "#define FASTLOOP_SAFE_DISTANCE 64"
LZ4_MATCH = """            if (unlikely(offset<16)) {
                LZ4_memcpy_using_offset(op, match, cpy, offset);
            } else {
                LZ4_wildCopy32(op, match, cpy);
            }
"""
LZ4_OUR_MATCH = """            if (unlikely(offset == 0)) goto _output_error;
            zv_copy_match(match, op, cpy, (u32) offset);
"""
LZ4_OFFSET = "if ((checkOffset) && (unlikely(match + dictSize < lowPrefix))) goto _output_error;"
# Of libjpeg-turbo, what is compiled for samples of 16 bits, and besides it for those of 12.
JPEG_16 = tuple(
    f"{name}.c"
    for name in (
        *("jcapistd", "jccolor", "jcdiffct", "jclossls", "jcmainct", "jcprepct", "jcsample", "jdapistd", "jdcolor"),
        *("jddiffct", "jdlossls", "jdmainct", "jdpostct", "jdsample", "jutils"),
    )
)
JPEG_12 = tuple(
    f"{name}.c"
    for name in (
        *("jccoefct", "jcdctmgr", "jdcoefct", "jddctmgr", "jdmerge", "jfdctfst", "jfdctint", "jidctflt", "jidctfst"),
        *("jidctint", "jidctred", "jquant1", "jquant2"),
    )
)
JPEG_8 = tuple(
    f"{name}.c"
    for name in (
        *("jaricom", "jcapimin", "jcarith", "jchuff", "jcicc", "jcinit", "jclhuff", "jcmarker", "jcmaster", "jcomapi"),
        *("jcparam", "jcphuff", "jctrans", "jdapimin", "jdarith", "jdatadst", "jdatasrc", "jdhuff", "jdicc", "jdinput"),
        *("jdlhuff", "jdmarker", "jdmaster", "jdphuff", "jdtrans", "jerror", "jfdctflt", "jmemmgr", "jmemnobs"),
        "jpeg_nbits",
    )
)
JPEG_VECTORS = (
    ("../simd/x86_64/*.asm", "../simd/x86_64/jsimd.c")
    if X86
    else ("../simd/arm/*-neon.c", "../simd/arm/aarch64/jchuff-neon.c", "../simd/arm/aarch64/jsimd.c")
    if ARM
    else ()
)
LZMA_FOLDERS = ("common", "lzma", "lz", "check", "delta", "rangecoder", "simple")

LIBRARIES = (
    Library(
        crate="libdeflate-sys",
        folder="libdeflate",
        package="libdeflate",
        archive="deflate",
        sources=("lib/*.c", "lib/arm/*.c", "lib/x86/*.c"),
        headers=("libdeflate.h",),
        # What -O3 makes of its loop of decoding takes 1 to 7 % longer.
        flags=("-O2",),
        flags_of={
            # It has no decoder, and its loops over all symbols are worth vectors.
            "small_deflate.c": ("-O3",),
        },
        ours=("small_deflate.c",),
        changes=(
            Change(
                "lib/deflate_decompress.c",
                DEFLATE_HEADER,
                f'{DEFLATE_HEADER}\n#define ZV_COPIED_AT_ONCE 128\n#include "copy_match.h"\n#include "sort_lengths.h"',
            ),
            Change(
                "lib/deflate_decompress.c",
                COUNT_LENGTHS,
                "zv_count_lengths(lens, num_syms, max_codeword_len, len_counts);",
            ),
            Change(
                "lib/deflate_decompress.c",
                SORT_BY_LENGTHS,
                "zv_sort_by_lengths(lens, num_syms, offsets, max_codeword_len, sorted_syms);",
            ),
            Change("lib/deflate_decompress.c", SKIP_UNUSED, "sorted_syms += offsets[1];"),
            Change("lib/deflate_decompress.c", "(5 * WORDBYTES) - 1)", "ZV_WRITTEN_AFTER_MATCH)"),
            Change(
                "lib/decompress_template.h",
                NEAR_COPY,
                f"if (true) zv_copy_match(src, dst, out_next, offset); else {NEAR_COPY}",
            ),
            # For two_streams.h, which compiles the template once more: places where it goes on and stops.
            Change("lib/deflate_decompress.c", FIRST_DECODER, f"#define ZV_GO_ON\n#define ZV_STOP\n{FIRST_DECODER}"),
            Change("lib/decompress_template.h", "\nnext_block:\n", "\nZV_GO_ON\nnext_block:\n"),
            Change("lib/decompress_template.h", BEFORE_LOOP, f"ZV_STOP\n\t{BEFORE_LOOP}"),
            Change("lib/deflate_decompress.c", CHOICE, f'#include "two_streams.h"\n\n{CHOICE}'),
            Change("lib/deflate_compress.c", '#include "hc_matchfinder.h"', '#include "find_match.h"'),
            Change("lib/deflate_compress.c", AFTER_CODES, f'#include "make_codes.h"\n\n{AFTER_CODES}'),
            Change(
                "lib/hc_matchfinder.h", "HC_MATCHFINDER_HASH4_ORDER\t16", "HC_MATCHFINDER_HASH4_ORDER\tZV_HASH4_ORDER"
            ),
            Change(
                "lib/deflate_compress.c",
                BLOCK_STATE,
                f'#include "look_ahead.h"\n\n{BLOCK_STATE} ZV_STATE',
            ),
            Change("lib/deflate_compress.c", AT_BEGIN, f"{AT_BEGIN} ZV_BEGIN(c);"),
            Change("lib/deflate_compress.c", IS_ENOUGH, "if (cur_len >= nice_len || ZV_TAKES_FIRST(c))"),
            Change("lib/deflate_compress.c", WRITE_BLOCK, f"ZV_JUDGE(c, os, block_length, {WRITE_BLOCK})"),
            Change("lib/deflate_compress.c", CHOOSE_MATCH, f'#include "pass_noise.h"\n\n{CHOOSE_MATCH}'),
            Change("lib/deflate_compress.c", NO_MATCH_FASTEST, f"{PASS_FASTEST} }}\n\n"),
            Change("lib/deflate_compress.c", NO_MATCH_GREEDY, f"{PASS} }}\n\n"),
            Change("lib/deflate_compress.c", NO_MATCH_LAZY, f"if (lazy2) {{ {NO_MATCH_LAZY} }} {PASS} continue;"),
            # For small_deflate.c: what blocks of few bytes need not have.
            Change("lib/deflate_compress.c", COUNT_LITERAL, f"if (ZV_LONG_BLOCKS) {{ {COUNT_LITERAL} }}"),
            Change("lib/deflate_compress.c", COUNT_MATCH, f"if (ZV_LONG_BLOCKS) {{ {COUNT_MATCH} }}"),
            Change("lib/deflate_compress.c", CODE_LENGTHS, "ZV_CODE_LENGTHS(c, codes, sequences);"),
            Change("lib/deflate_compress.c", NOTE_USED, "ZV_NOTE_USED(used, data, data_len);"),
        ),
        include=(".", "lib", str(HERE)),
        tells=("-DZV_OUR_LIBDEFLATE",),
        licences=("COPYING",),
    ),
    Library(
        crate="zstd-sys",
        folder="zstd/lib",
        package="libzstd",
        archive="zstd",
        sources=("common/*.c", "compress/*.c", "decompress/*.c"),
        headers=("zstd.h", "zstd_errors.h", "zdict.h"),
        changes=(
            Change(
                "compress/zstd_double_fast.c",
                '#include "zstd_double_fast.h"',
                '#include "zstd_double_fast.h"\n#include "search_samples.h"',
            ),
            *(
                Change("compress/zstd_double_fast.c", SEARCH.format(least), SEARCH_SAMPLES.format(least))
                for least in (4, 5)
            ),
            Change("decompress/zstd_decompress_internal.h", DCTX, f'#include "decoder_ahead.h"\n\n{DCTX}'),
            Change("decompress/zstd_decompress_internal.h", DCTX_ROOM, f"    zv_ahead ahead;\n{DCTX_ROOM}"),
            Change("decompress/huf_decompress.c", LITERALS_LOOP, "= zv_decode_literals;"),
            Change("decompress/huf_decompress.c", LITERALS_DECODER, f'#include "two_literals.h"\n\n{LITERALS_DECODER}'),
            Change("decompress/huf_decompress.c", LITERALS_TABLE, "return DTime1 < DTime0 && Q < ZV_LEAST_FOR_ONE;"),
            Change(
                "decompress/huf_decompress.c",
                LITERALS_END,
                LITERALS_END.replace("segmentEnd)", "segmentEnd || !zv_is_taken(&bit, args.iend[i]))"),
            ),
            Change(
                "decompress/zstd_decompress_block.c",
                LITERALS,
                f'#include "read_ahead.h"\n#include "zstd_sequences.h"\n\n{LITERALS}',
            ),
            Change("decompress/zstd_decompress_block.c", LITERALS_BEGIN, f"    ZV_TAKE_LITERALS\n{LITERALS_BEGIN}"),
            Change("decompress/zstd_decompress_block.c", SEQUENCE_BEGIN, f"    ZV_COPY_SEQUENCE\n{SEQUENCE_BEGIN}"),
            Change("decompress/zstd_decompress_block.c", SEQUENCE_LENGTH, f"        ZV_TAKE_LENGTH\n{SEQUENCE_LENGTH}"),
            Change("decompress/zstd_decompress_block.c", SEQUENCES, f"ZV_SEQUENCES_OF_VARYING_LENGTHS\n{SEQUENCES}"),
            Change(
                "decompress/zstd_decompress_block.c", SEQUENCES_CALL, f"        ZV_CHOOSE_SEQUENCES\n{SEQUENCES_CALL}"
            ),
            Change("decompress/zstd_decompress.c", DCTX_NEW, f"    zv_new_ahead(&dctx->ahead);\n{DCTX_NEW}"),
            Change("decompress/zstd_decompress.c", DCTX_BEGIN, f"    zv_forget_ahead(&dctx->ahead);\n{DCTX_BEGIN}"),
            Change("decompress/zstd_decompress.c", FRAME, f'#include "two_frames.h"\n\n{FRAME}'),
            Change(
                "decompress/zstd_decompress.c",
                BLOCK,
                f"""        if (zv_is_enough(dctx, op)) return (size_t)(op - ostart);
        zv_see_next(dctx, ip, cBlockSize, remainingSrcSize, &blockProperties, op);
{BLOCK}""",
            ),
        ),
        include=(".", str(HERE)),
        # The assembly for Huffman codes is slower than what compilers make of the C, since zstd 1.5.6.
        flags=("-DZSTD_DISABLE_ASM", "-DZSTD_LEGACY_SUPPORT=0", "-DXXH_NAMESPACE=ZSTD_"),
        tells=("-DZV_OUR_LIBZSTD",),
        licences=("../LICENSE",),
    ),
    Library(
        crate="lz4-sys",
        folder="liblz4/lib",
        package="liblz4",
        archive="lz4",
        sources=("lz4.c", "lz4hc.c", "lz4frame.c", "xxhash.c"),
        headers=("lz4.h", "lz4hc.h", "lz4frame.h"),
        changes=(
            Change("lz4.c", LZ4_DECODER, f'#include "lz4_matches.h"\n\n{LZ4_DECODER}'),
            Change("lz4.c", LZ4_DISTANCE, "#define FASTLOOP_SAFE_DISTANCE ZV_FREE_BEHIND_MATCH"),
            Change("lz4.c", LZ4_MATCH, LZ4_OUR_MATCH),
            Change("lz4.c", LZ4_OFFSET, f"if (unlikely(offset == 0)) goto _output_error;\n            {LZ4_OFFSET}"),
        ),
        include=(".", str(HERE)),
        flags=("-DXXH_NAMESPACE=LZ4_",),
        flags_of={
            # How its loop of short copies lies in the lines of the cache is a fifth of the time of labels.
            "lz4.c": ("-O2", "-falign-functions=64", "-falign-loops=32", "-falign-jumps=32"),
            # The checksum of frames takes 2.6 times as long if the compiler makes vectors of its four sums.
            "xxhash.c": ("-fno-tree-vectorize", "-fno-tree-slp-vectorize"),
        },
    ),
    Library(
        crate="xxhash-c-sys",
        folder="src/c",
        package="libxxhash",
        archive="xxhash",
        sources=("xxhash.c",),
        headers=("xxhash.h", "xxh3.h"),
    ),
    Library(
        crate="libsais-sys",
        folder="libsais/include",
        package="libsais",
        archive="sais",
        sources=("../src/libsais.c",),
        headers=("libsais.h",),
        licences=("../LICENSE",),
    ),
    Library(
        crate="bzip2-sys",
        folder="bzip2-1.0.8",
        package="bzip2",
        archive="bz2",
        sources=("blocksort.c", "huffman.c", "crctable.c", "randtable.c", "compress.c", "decompress.c", "bzlib.c"),
        headers=("bzlib.h",),
        changes=(
            Change("blocksort.c", BZLIB, '#include "sort_rotations.h"'),
            Change("blocksort.c", "if (nblock < 10000) {", "if (zv_sort_rotations(s)) ; else if (nblock < 10000) {"),
            Change("compress.c", BZLIB, f'{BZLIB}\n#include "move_to_front.h"'),
            Change("compress.c", "UChar   yy[256];", "ZV_LIST UChar yy[256];"),
            Change("compress.c", "i < s->nInUse; i++) yy[i]", "i < 256; i++) yy[i]"),
            Change("compress.c", MOVE_TO_FRONT, "            j = zv_find_to_front(yy, ll_i);\n"),
            Change("bzlib_private.h", "Int32    minLens[BZ_N_GROUPS];", "Int32 minLens[BZ_N_GROUPS]; ZV_STATE"),
            Change("bzlib_private.h", MTF_SIZE, f"#define ZV_STATE UInt16 zv_codes[BZ_N_GROUPS][1024];\n{MTF_SIZE}"),
            Change("decompress.c", BZLIB, '#include "read_codes.h"'),
            Change("decompress.c", "s->minLens[t] = minLen;", "s->minLens[t] = minLen; zv_prepare_codes(s, t);"),
            Change("decompress.c", READ_SYMBOLS, f"{READ_SYMBOLS} ZV_READ_SYMBOLS"),
        ),
        include=(".", str(HERE)),
        # What -O3 makes of its sorting takes a tenth longer.
        flags=("-O2",),
        uses=("libsais",),
        version_header="bzlib_private.h",
    ),
    Library(
        crate="liblzma-sys",
        folder="xz/src/liblzma",
        package="liblzma",
        archive="lzma",
        sources=(
            *(f"{name}/*.c" for name in LZMA_FOLDERS),
            "../common/tuklib_cpucores.c",
            "../common/tuklib_physmem.c",
        ),
        headers=("api/lzma.h", "api/lzma/*.h"),
        without=("*_small.c", "*tablegen.c", "*mt.c", "*_gen.c"),
        include=("api", *LZMA_FOLDERS, "../common", "../../.."),
        flags=(
            "-std=gnu99",
            "-DHAVE_CONFIG_H",
            "-DHAVE___BUILTIN_BSWAPXX",
            "-DHAVE___BUILTIN_ASSUME_ALIGNED",
            *(("-DTUKLIB_FAST_UNALIGNED_ACCESS", "-DHAVE_USABLE_CLMUL", "-DHAVE_IMMINTRIN_H") if X86 else ()),
        ),
        version_header="api/lzma/version.h",
        licences=("../../COPYING.0BSD",),
    ),
    Library(
        crate="libz-sys",
        folder="src/zlib",
        package="zlib",
        archive="z",
        sources=("*.c",),
        headers=("zlib.h", "zconf.h"),
        without=("gz*.c",),
        flags=("-DHAVE_UNISTD_H",),
    ),
    Library(
        crate="turbojpeg-sys",
        folder="libjpeg-turbo/src",
        package="libjpeg",
        archive="jpeg",
        sources=(*JPEG_8, *JPEG_12, *JPEG_16, *JPEG_VECTORS),
        headers=("jpeglib.h", "jmorecfg.h", "jconfig.h"),
        # Parts that others include.
        without=("*ext-*.asm", "*ext-neon.c"),
        include=(".", "../simd", "../simd/arm"),
        flags=("-DNEON_INTRINSICS",) if ARM else (),
        again={"-DBITS_IN_JSAMPLE=12": (*JPEG_12, *JPEG_16), "-DBITS_IN_JSAMPLE=16": JPEG_16},
        # Without its assembly it takes half as long again: what pip installs, or the system's, is faster.
        programs=("nasm",) if X86 else (),
        version_header="jconfigint.h",
        licences=("../LICENSE.md", "../README.ijg"),
    ),
    Library(
        crate="snappy_src",
        folder="snappy",
        package="snappy",
        archive="snappy",
        sources=("snappy-c.cc", "snappy-sinksource.cc", "snappy-stubs-internal.cc", "snappy.cc"),
        headers=("snappy-c.h",),
        flags=("-std=c++14", "-fno-exceptions", "-fno-rtti"),
        links=("-lstdc++",),
        version_header="snappy-stubs-public.h",
        licences=("COPYING",),
    ),
    Library(
        crate="blosc-src",
        folder="c-blosc/blosc",
        package="blosc",
        archive="blosc",
        sources=("*.c",),
        headers=("blosc.h", "blosc-export.h"),
        include=(".", str(HERE)),
        without=() if X86 else ("*-sse2.c", "*-avx2.c"),
        flags=(
            *("-DHAVE_LZ4", "-DHAVE_ZSTD", "-DHAVE_ZLIB", "-DHAVE_SNAPPY"),
            *(("-DSHUFFLE_SSE2_ENABLED", "-DSHUFFLE_AVX2_ENABLED") if X86 else ()),
        ),
        ours=("blosc_zstd.c", "blosc_lz4.c", "blosc_bits.c", "blosc_copy.c"),
        changes=(
            Change("blosc.c", f"{LZ4_OUTPUT}accel)", f"{LZ4_OUTPUT}{PLANE} ? -accel : accel)"),
            Change("shuffle.c", SHUFFLES, f'#include "blosc_bits.h"\n\n{SHUFFLES}'),
            Change("shuffle.c", "blosc_internal_bshuf_trans_bit_elem_avx2;", "zv_blosc_bitshuffle();"),
            Change("shuffle.c", "blosc_internal_bshuf_untrans_bit_elem_avx2;", "zv_blosc_bitunshuffle();"),
        ),
        flags_of={
            # c-blosc looks at the processor before it calls what needs AVX2.
            "*-avx2.c": ("-mavx2",),
            "blosc.c": (
                "-DZSTD_decompress=zv_blosc_zstd_decompress",
                "-DLZ4_compress_fast=zv_blosc_lz4_compress",
                "-Dfastcopy=zv_blosc_copy",
            ),
        },
        uses=("liblz4", "libzstd", "zlib", "snappy"),
        links=("-pthread",),
        # The crate ships none.
        licences=(str(HERE / "licences" / "c-blosc.txt"),),
    ),
)
