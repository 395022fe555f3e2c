/* How c-blosc copies what was not made smaller, block by block: by the C library, in 0.6 to 0.8 of the time that its own
 * way takes. That remains for matches of blosclz, which overlap. */
#include <string.h>

unsigned char *zv_blosc_copy(unsigned char *out, const unsigned char *from, unsigned len);
unsigned char *zv_blosc_copy(unsigned char *out, const unsigned char *from, unsigned len) {
    return (unsigned char *) memcpy(out, from, len) + len;
}
