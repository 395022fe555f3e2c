/* Which instruction sets the kernels may use, found at run time. Nothing here depends on the build host's CPU. */
#ifndef ZV_CPU_H
#define ZV_CPU_H

#include <stdint.h>

/* x86-64 */
#define ZV_CPU_SSE42 0x01u      /* SSE4.2 with its crc32 instruction, and PCLMULQDQ */
#define ZV_CPU_AVX2 0x02u
#define ZV_CPU_BMI2 0x04u       /* PDEP and PEXT, where they are not microcode */
#define ZV_CPU_AVX512 0x08u     /* F, BW, DQ and VL */
#define ZV_CPU_VPCLMUL 0x10u    /* VPCLMULQDQ on AVX2 registers; on AVX-512 registers together with ZV_CPU_AVX512 */
/* aarch64 */
#define ZV_CPU_CRC 0x100u       /* crc32cx and friends */
#define ZV_CPU_PMULL 0x200u     /* 64 x 64 bit carry-less multiplication */

#if defined(__x86_64__)

#define ZV_X86 1
#include <cpuid.h>

static inline uint64_t zv_cpu_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static inline uint32_t zv_cpu_detect(void) {
    uint32_t a, b, c, d, features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    const uint32_t family = ((a >> 8) & 15) == 15 ? 15 + ((a >> 20) & 255) : (a >> 8) & 15;
    const uint32_t sse42_pclmul_ssse3 = 1u << 20 | 1u << 1 | 1u << 9;
    if ((c & sse42_pclmul_ssse3) == sse42_pclmul_ssse3) features |= ZV_CPU_SSE42;
    /* Wide registers count only if the operating system saves them. */
    if (!(c >> 27 & 1) || !features) return features;
    const uint64_t saved = zv_cpu_xcr0();
    const int ymm = (saved & 0x06) == 0x06, zmm = (saved & 0xe6) == 0xe6;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
    const uint32_t leaf7b = b, leaf7c = c;
    if (ymm && (leaf7b >> 5 & 1)) features |= ZV_CPU_AVX2;
    if ((features & ZV_CPU_AVX2) && (leaf7c >> 10 & 1)) features |= ZV_CPU_VPCLMUL;
    const uint32_t f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    if ((features & ZV_CPU_AVX2) && zmm && (leaf7b & f_dq_bw_vl) == f_dq_bw_vl) features |= ZV_CPU_AVX512;
    if ((features & ZV_CPU_AVX2) && (leaf7b >> 8 & 1)) {
        /* AMD and Hygon before Zen 3 (family 19h) run PDEP bit by bit; tables are faster there. */
        uint32_t vendor_b = 0, vendor_c = 0, vendor_d = 0;
        __get_cpuid(0, &a, &vendor_b, &vendor_c, &vendor_d);
        const int amd = vendor_b == 0x68747541u && vendor_d == 0x69746e65u && vendor_c == 0x444d4163u;
        const int hygon = vendor_b == 0x6f677948u && vendor_d == 0x6e65476eu && vendor_c == 0x656e6975u;
        if (!(hygon || (amd && family < 0x19))) features |= ZV_CPU_BMI2;
    }
    return features;
}

#elif defined(__aarch64__) && defined(__linux__)

#define ZV_ARM 1
#include <sys/auxv.h>

/* The kernel's ABI (asm/hwcap.h); spelled out because old C libraries lack the names. */
static inline uint32_t zv_cpu_detect(void) {
    const unsigned long found = getauxval(AT_HWCAP);
    return (found >> 7 & 1 ? ZV_CPU_CRC : 0) | (found >> 4 & 1 ? ZV_CPU_PMULL : 0);
}

#elif defined(__aarch64__) && defined(__APPLE__)

#define ZV_ARM 1

/* Every Apple processor of this architecture has both. */
static inline uint32_t zv_cpu_detect(void) { return ZV_CPU_CRC | ZV_CPU_PMULL; }

#else

static inline uint32_t zv_cpu_detect(void) { return 0; }

#endif

#ifndef ZV_X86
#define ZV_X86 0
#endif
#ifndef ZV_ARM
#define ZV_ARM 0
#endif

#endif
