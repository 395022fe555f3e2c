/* zv_jpeg.h: JPEG pictures in memory, of one channel or three of 8 bits, over libjpeg: each channel is a plane of its own
 * outside. What libjpeg only warns of is an error here, as pixels that it made up would otherwise pass for data.
 */
#ifndef ZV_JPEG_H
#define ZV_JPEG_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#define ZV_JPEG_ROWS 8         /* that are taken at once */
#define ZV_JPEG_MOST_SCANS 500 /* of one picture: each costs the time of a picture, however few bytes it has */

enum { ZV_JPEG_OK = 0, ZV_JPEG_BAD = 1, ZV_JPEG_OTHER = 2, ZV_JPEG_NO_ROOM = 3, ZV_JPEG_NO_MEMORY = 4 };

#define ZV_JPEG_TEXT_OF(x) #x
#define ZV_JPEG_TEXT(x) ZV_JPEG_TEXT_OF(x)
#ifdef LIBJPEG_TURBO_VERSION
#define ZV_JPEG_LIBRARY "libjpeg-turbo " ZV_JPEG_TEXT(LIBJPEG_TURBO_VERSION)
#else
#define ZV_JPEG_LIBRARY "libjpeg " ZV_JPEG_TEXT(JPEG_LIB_VERSION)
#endif

typedef struct zv_jpeg {
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_destination_mgr target;
    struct jpeg_decompress_struct reader;
    struct jpeg_compress_struct writer;
    jmp_buf stop;
    int status;
    int can_write;       /* the writer knows what it is to write */
    uint8_t *rows;       /* with the channels of each pixel together, or what nobody wants */
    size_t rows_size;
    char text[JMSG_LENGTH_MAX];
} zv_jpeg;

/* The size of a picture and where its planes lie, outside. */
typedef struct zv_jpeg_planes {
    uint64_t width, height;
    int channels;
} zv_jpeg_planes;

static zv_jpeg *zv_jpeg_of(j_common_ptr common)
{
    return (zv_jpeg *)((char *)common->err - offsetof(zv_jpeg, errors));
}

static void zv_jpeg_stop(zv_jpeg *own, int status)
{
    own->status = status;
    longjmp(own->stop, 1);
}

static void zv_jpeg_fail(j_common_ptr common)
{
    zv_jpeg *own = zv_jpeg_of(common);
    common->err->format_message(common, own->text);
    zv_jpeg_stop(own, ZV_JPEG_BAD);
}

static void zv_jpeg_message(j_common_ptr common, int level)
{
    if (level < 0) zv_jpeg_fail(common);
}

static void zv_jpeg_say_nothing(j_common_ptr common)
{
    (void)common;
}

static void zv_jpeg_watch(j_common_ptr common)
{
    zv_jpeg *own = zv_jpeg_of(common);
    if (common->is_decompressor && own->reader.input_scan_number > ZV_JPEG_MOST_SCANS) {
        snprintf(own->text, sizeof(own->text), "more than %d scans", ZV_JPEG_MOST_SCANS);
        zv_jpeg_stop(own, ZV_JPEG_BAD);
    }
}

static void zv_jpeg_free(zv_jpeg *own)
{
    jpeg_destroy_compress(&own->writer);
    free(own->rows);
    free(own);
}

static int zv_jpeg_create_writer(zv_jpeg *own)
{
    if (setjmp(own->stop)) return 0;
    jpeg_create_compress(&own->writer);
    return 1;
}

static zv_jpeg *zv_jpeg_new(void)
{
    zv_jpeg *own = (zv_jpeg *)calloc(1, sizeof(zv_jpeg));
    if (own == NULL) return NULL;
    own->reader.err = own->writer.err = jpeg_std_error(&own->errors);
    own->errors.error_exit = zv_jpeg_fail;
    own->errors.emit_message = zv_jpeg_message;
    own->errors.output_message = zv_jpeg_say_nothing;
    own->progress.progress_monitor = zv_jpeg_watch;
    if (!zv_jpeg_create_writer(own)) {
        zv_jpeg_free(own);
        return NULL;
    }
    return own;
}

/* Room for some rows with all channels; else it stops. */
static uint8_t *zv_jpeg_rows(zv_jpeg *own, size_t size)
{
    if (own->rows_size < size) {
        free(own->rows);
        own->rows = (uint8_t *)malloc(size);
        own->rows_size = own->rows ? size : 0;
    }
    if (own->rows == NULL) zv_jpeg_stop(own, ZV_JPEG_NO_MEMORY);
    return own->rows;
}

/* --- reading */

static void zv_jpeg_spread(const uint8_t *row, const zv_jpeg_planes *planes, uint64_t at, uint8_t *dst)
{
    uint64_t size = planes->width * planes->height, i;
    for (i = 0; i < planes->width; i++) {
        dst[at + i] = row[3 * i];
        dst[size + at + i] = row[3 * i + 1];
        dst[2 * size + at + i] = row[3 * i + 2];
    }
}

/* Rows of whole blocks need not go through libjpeg's own lines. */
static int zv_jpeg_is_in_blocks(const struct jpeg_decompress_struct *reader)
{
    const jpeg_component_info *only = reader->comp_info;
    return reader->num_components == 1 && only->h_samp_factor == 1 && only->v_samp_factor == 1 &&
           (uint64_t)only->width_in_blocks * DCTSIZE == reader->image_width &&
           ((uint64_t)reader->image_height + DCTSIZE - 1) / DCTSIZE == only->height_in_blocks;
}

static void zv_jpeg_read_blocks(zv_jpeg *own, uint8_t *dst, uint64_t rows)
{
    struct jpeg_decompress_struct *reader = &own->reader;
    uint64_t width = reader->image_width, height = reader->image_height, at;
    uint8_t *beyond = height % DCTSIZE ? zv_jpeg_rows(own, width) : NULL;
    JSAMPROW lines[DCTSIZE];
    JSAMPARRAY plane = lines;
    int i;
    while (reader->output_scanline < rows) {
        for (i = 0; i < DCTSIZE; i++) {
            at = reader->output_scanline + (uint64_t)i;
            lines[i] = at < height ? dst + at * width : beyond;
        }
        jpeg_read_raw_data(reader, &plane, DCTSIZE);
    }
}

static void zv_jpeg_read_rows(zv_jpeg *own, const zv_jpeg_planes *planes, uint8_t *dst, uint64_t rows)
{
    struct jpeg_decompress_struct *reader = &own->reader;
    size_t length = (size_t)planes->width * planes->channels;
    uint8_t *together = planes->channels == 1 ? NULL : zv_jpeg_rows(own, ZV_JPEG_ROWS * length);
    JSAMPROW lines[ZV_JPEG_ROWS];
    uint64_t at, count;
    JDIMENSION got, i;
    while (reader->output_scanline < rows) {
        at = reader->output_scanline;
        count = planes->height - at < ZV_JPEG_ROWS ? planes->height - at : ZV_JPEG_ROWS;
        for (i = 0; i < count; i++) lines[i] = together ? together + i * length : dst + (at + i) * length;
        got = jpeg_read_scanlines(reader, lines, (JDIMENSION)count);
        for (i = 0; together && i < got; i++) zv_jpeg_spread(lines[i], planes, (at + i) * planes->width, dst);
    }
}

static int zv_jpeg_is_wanted(zv_jpeg *own, const zv_jpeg_planes *wanted)
{
    const struct jpeg_decompress_struct *reader = &own->reader;
    if ((uint64_t)reader->image_width * reader->image_height == wanted->width * wanted->height &&
        reader->num_components == wanted->channels && reader->data_precision == 8)
        return 1;
    snprintf(own->text, sizeof(own->text),
             "the picture is not one of this chunk: expected %llu pixels of %d channels of 8 bits, found %u x %u of %d of %d",
             (unsigned long long)(wanted->width * wanted->height), wanted->channels, reader->image_width,
             reader->image_height, reader->num_components, reader->data_precision);
    return 0;
}

/* The first bytes, as many as `first`, of the planes of a picture with as many pixels as `wanted`. */
static int zv_jpeg_read(zv_jpeg *own, const uint8_t *src, uint64_t n, const zv_jpeg_planes *wanted, uint8_t *dst,
                        uint64_t first)
{
    struct jpeg_decompress_struct *reader = &own->reader;
    zv_jpeg_planes found;
    uint64_t rows;
    own->status = ZV_JPEG_OK;
    own->text[0] = 0;
    if (setjmp(own->stop)) {
        jpeg_destroy_decompress(reader);
        return own->status;
    }
    /* A reader that has read before would take the tables that a picture lacks from the one before it. */
    jpeg_create_decompress(reader);
    reader->progress = &own->progress;
    jpeg_mem_src(reader, src, n);
    jpeg_read_header(reader, TRUE);
    if (!zv_jpeg_is_wanted(own, wanted)) zv_jpeg_stop(own, ZV_JPEG_OTHER);
    found.width = reader->image_width;
    found.height = reader->image_height;
    found.channels = wanted->channels;
    rows = first < found.width * found.height ? (first + found.width - 1) / found.width : found.height;
    reader->out_color_space = found.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    reader->dct_method = JDCT_ISLOW;
    reader->raw_data_out = (boolean)zv_jpeg_is_in_blocks(reader);
    jpeg_start_decompress(reader);
    if (reader->raw_data_out)
        zv_jpeg_read_blocks(own, dst, rows);
    else
        zv_jpeg_read_rows(own, &found, dst, rows);
    if (rows == found.height) jpeg_finish_decompress(reader);
    jpeg_destroy_decompress(reader);
    return ZV_JPEG_OK;
}

/* --- writing */

static void zv_jpeg_start_target(j_compress_ptr writer)
{
    (void)writer;
}

static boolean zv_jpeg_target_is_full(j_compress_ptr writer)
{
    zv_jpeg_stop(zv_jpeg_of((j_common_ptr)writer), ZV_JPEG_NO_ROOM);
    return FALSE;
}

static void zv_jpeg_prepare_writer(zv_jpeg *own, const zv_jpeg_planes *planes, int quality)
{
    struct jpeg_compress_struct *writer = &own->writer;
    int i;
    own->target.init_destination = zv_jpeg_start_target;
    own->target.empty_output_buffer = zv_jpeg_target_is_full;
    own->target.term_destination = zv_jpeg_start_target;
    writer->dest = &own->target;
    writer->image_width = (JDIMENSION)planes->width;
    writer->image_height = (JDIMENSION)planes->height;
    writer->input_components = planes->channels;
    writer->in_color_space = planes->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(writer);
    jpeg_set_quality(writer, quality, TRUE);
    writer->dct_method = JDCT_ISLOW;
    for (i = 0; i < planes->channels; i++) writer->comp_info[i].h_samp_factor = writer->comp_info[i].v_samp_factor = 1;
    own->can_write = 1;
}

static void zv_jpeg_gather(const uint8_t *src, const zv_jpeg_planes *planes, uint64_t at, uint8_t *row)
{
    uint64_t size = planes->width * planes->height, i;
    for (i = 0; i < planes->width; i++) {
        row[3 * i] = src[at + i];
        row[3 * i + 1] = src[size + at + i];
        row[3 * i + 2] = src[2 * size + at + i];
    }
}

/* A picture of the planes at `src`; one writer is always asked for pictures of one size and quality. There must be some
 * room, and more than is needed. */
static int zv_jpeg_write(zv_jpeg *own, const uint8_t *src, const zv_jpeg_planes *planes, int quality, uint8_t *dst,
                         uint64_t room, uint64_t *size)
{
    struct jpeg_compress_struct *writer = &own->writer;
    size_t length = (size_t)planes->width * planes->channels;
    JSAMPROW lines[ZV_JPEG_ROWS];
    uint8_t *together;
    uint64_t at, count, i;
    own->status = ZV_JPEG_OK;
    own->text[0] = 0;
    if (setjmp(own->stop)) {
        jpeg_abort_compress(writer);
        return own->status;
    }
    if (!own->can_write) zv_jpeg_prepare_writer(own, planes, quality);
    together = planes->channels == 1 ? NULL : zv_jpeg_rows(own, ZV_JPEG_ROWS * length);
    own->target.next_output_byte = dst;
    own->target.free_in_buffer = room;
    jpeg_start_compress(writer, TRUE);
    while (writer->next_scanline < writer->image_height) {
        at = writer->next_scanline;
        count = planes->height - at < ZV_JPEG_ROWS ? planes->height - at : ZV_JPEG_ROWS;
        for (i = 0; i < count; i++) {
            lines[i] = together ? together + i * length : (uint8_t *)src + (at + i) * length;
            if (together) zv_jpeg_gather(src, planes, (at + i) * planes->width, lines[i]);
        }
        jpeg_write_scanlines(writer, lines, (JDIMENSION)count);
    }
    jpeg_finish_compress(writer);
    *size = room - own->target.free_in_buffer;
    return ZV_JPEG_OK;
}

#endif
