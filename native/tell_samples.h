/* Whether a block is a noisy image, of samples of two, four or eight bytes, and which of these say little.
 *
 * It is told from pieces of the block, and from nothing else: the same bytes are always compressed to the same.
 * Included by search_samples.h.
 */
#ifndef ZV_TELL_SAMPLES_H
#define ZV_TELL_SAMPLES_H

/* So many pieces of so many samples; a first look takes in sixteen bytes of each. */
#define ZV_LOOKS 64
#define ZV_LOOK 8
#define ZV_SEEN (ZV_LOOKS * ZV_LOOK)
#define ZV_WIDEST 8
/* Two samples of a piece are compared up to here. */
#define ZV_FARTHEST 5

/* `size` is 0 where no noisy samples can be told. */
typedef struct {
    int size;
    /* The first of the bytes that say little, and how many follow each other, it included. */
    int plain, run;
} zv_samples;

typedef struct {
    const BYTE *src;
    size_t apart;
} zv_looks;

static U32 zv_mixed(U32 value) {
    return value * 0x9E3779B1 >> 16;
}

/* As good as at most four values, all as frequent. */
static int zv_says_little(const U16 counts[256], U32 all) {
    U32 equal = 0;
    for (int i = 0; i < 256; i++) equal += (U32) counts[i] * counts[i];
    return 4 * equal >= all * all;
}

/* So many values, all as frequent, would be as often the same. Counted by their hashes, which may be the same too. */
static U32 zv_values(const U16 *counts, U32 hashes, U32 all) {
    U32 equal = 0, by_chance = all + all * all / hashes;
    for (U32 i = 0; i < hashes; i++) equal += (U32) counts[i] * counts[i];
    return equal > by_chance ? all * all / (equal - by_chance) : all * all;
}

/* Whether bytes are more often as some samples before than as in the last one: these are parts of something larger. */
static int zv_are_parts(const zv_looks *looks, int size) {
    /* Colours of two bytes are no worse for it. */
    int const step = size == 2 ? 2 : 1;
    for (int place = 0; place < size; place++) {
        U32 same[ZV_FARTHEST + 1] = {0};
        for (int i = 0; i < ZV_LOOKS; i++) {
            const BYTE *look = looks->src + i * looks->apart + place;
            for (int k = 0; k < ZV_FARTHEST; k++, look += size) {
                for (int apart = 1; apart <= ZV_FARTHEST; apart++) same[apart] += *look == look[apart * size];
            }
        }
        for (int apart = 2; apart <= ZV_FARTHEST; apart += step) {
            if (same[apart] > same[1] + ZV_LOOKS * ZV_FARTHEST / 5) return 1;
        }
    }
    return 0;
}

/* What a sample's bytes say, from the two before those that say little, or the only one. */
typedef struct {
    int above, below;
} zv_telling;

static U32 zv_value(const BYTE *sample, zv_telling telling) {
    return (U32) sample[telling.above] << 8 | sample[telling.below];
}

/* Whether the bytes before those that say little are what images' noise is: no text, no counters, no larger samples. */
static int zv_samples_are_noise(const zv_looks *looks, zv_samples samples) {
    int const size = samples.size, last = samples.plain + size - 1;
    zv_telling const telling = {last % size, (size - samples.run > 1 ? last + size - 1 : last) % size};
    U16 values[256] = {0}, steps[256] = {0}, pairs[4096] = {0}, triples[4096] = {0};
    U32 all = 0;
    for (int i = 0; i < ZV_LOOKS; i++) {
        const BYTE *look = looks->src + i * looks->apart;
        for (int k = 0; k < ZV_LOOK; k++, look += size) {
            U32 const one = zv_value(look, telling), next = zv_value(look + size, telling);
            U32 const pair = one + 269 * next;
            if (one == next) continue;
            values[zv_mixed(one) & 255]++;
            steps[zv_mixed(next - one) & 255]++;
            pairs[zv_mixed(pair) & 4095]++;
            triples[zv_mixed(pair + 7919 * zv_value(look + 2 * size, telling)) & 4095]++;
            all++;
        }
    }
    U32 const of_one = zv_values(values, 256, all), of_two = zv_values(pairs, 4096, all);
    U32 const enough = size == 2 ? 16 : 8;
    if (4 * all < ZV_SEEN || of_one < enough || zv_values(steps, 256, all) < enough) return 0;
    /* Three in a row are more often as others than pairs tell, as in words. */
    return of_two >= 400 || (U64) 5 * of_one * zv_values(triples, 4096, all) >= 3 * of_two * of_two;
}

/* Samples of so many bytes, if these are what the looks are made of. */
static zv_samples zv_of_size(const zv_looks *looks, int size) {
    zv_samples const none = {0, 0, 0};
    zv_samples found = {size, 0, 0};
    U16 counts[ZV_WIDEST][256];
    U64 const sample = ~(U64) 0 >> (64 - 8 * size);
    U32 seen = 0;
    int little[ZV_WIDEST], all = 1;
    memset(counts, 0, (size_t) size * sizeof counts[0]);
    for (int i = 0; i < ZV_LOOKS; i++) {
        const BYTE *look = looks->src + i * looks->apart;
        for (int k = 0; k < ZV_LOOK; k++, look += size) {
            /* Background. */
            if (!((MEM_readLE64(look) ^ MEM_readLE64(look + size)) & sample)) continue;
            for (int place = 0; place < size; place++) counts[place][look[place]]++;
            seen++;
        }
    }
    if (4 * seen < ZV_SEEN) return none;
    for (int place = 0; place < size; place++) all &= little[place] = zv_says_little(counts[place], seen);
    if (all) return none;
    for (int place = 0; place < size; place++) {
        int run = 0;
        if (little[(place + size - 1) % size]) continue;
        while (little[(place + run) % size]) run++;
        if (run > found.run) found.plain = place, found.run = run;
    }
    return 2 * found.run >= size && zv_samples_are_noise(looks, found) && !zv_are_parts(looks, size) ? found : none;
}

/* A first look, which takes next to no time, for most blocks are no noisy images. */
static zv_samples zv_tell_samples(const BYTE *src, size_t size) {
    zv_samples found = {0, 0, 0};
    zv_looks const looks = {src, (size / ZV_LOOKS) & ~(size_t) (ZV_WIDEST - 1)};
    U64 const ones = 0x0101010101010101, tops = 0x80 * ones;
    U64 same_two = 0, same_eight = 0;
    U32 empty = 0, repeated = 0, of_first, of_second, most = 0;
    /* Two more samples than are counted are seen: of no block that is asked about are they too many. */
    if (looks.apart < (ZV_LOOK + 2) * ZV_WIDEST) return found;
    for (int i = 0; i < ZV_LOOKS; i++) {
        U64 const one = MEM_readLE64(src + i * looks.apart), other = MEM_readLE64(src + i * looks.apart + 8);
        /* Six bytes beside those two places further, and eight beside those eight places further. */
        U64 const by_two = (one ^ one >> 16) | (U64) 0xFFFF << 48, by_eight = one ^ other;
        same_two += (~(((by_two & ~tops) + (tops - ones)) | by_two) & tops) >> 7;
        same_eight += (~(((by_eight & ~tops) + (tops - ones)) | by_eight) & tops) >> 7;
        /* All pairs are the same: background, or the inside of a label. */
        empty += one == other && !(by_two << 16);
        repeated += one == other;
    }
    /* Labels with more than two bytes. */
    if (2 * (repeated - empty) > ZV_LOOKS - empty) return found;
    of_first = (same_two & 0xFF) + (same_two >> 16 & 0xFF) + (same_two >> 32 & 0xFF);
    of_second = (same_two >> 8 & 0xFF) + (same_two >> 24 & 0xFF) + (same_two >> 40 & 0xFF);
    for (int place = 0; place < 8; place++) most = MAX(most, same_eight >> 8 * place & 0xFF);
    /* A byte that says little is often as the one before: a quarter of the time or more, less what chance does. */
    if (5 * MAX(of_first, of_second) > 3 * ZV_LOOKS) found = zv_of_size(&looks, 2);
    if (found.size || 5 * most <= ZV_LOOKS) return found;
    found = zv_of_size(&looks, 4);
    return found.size ? found : zv_of_size(&looks, 8);
}

#endif
