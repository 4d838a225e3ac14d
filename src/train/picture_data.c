// SPDX-License-Identifier: MIT
// See picture_data.h. Files are untrusted: sizes are checked before memory is allocated.
#include "train/picture_data.h"

#include "base/compiler.h"
#include "base/overflow.h"
#include "io/byte_stream.h"
#include "support/list_directory.h"
#include <multihead/image.h>
#include <multihead/text.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE_DEFAULT = 32, SIDE_MOST = 4096, LABELS_MOST = 65536, COLOURS = 3 };

typedef struct reading {
    mh_run *run;
    const char *path;
    mh_pictures *pictures;
    mh_dataset *examples;
    bool fixed_labels, fixed_channels;
} reading;

// ---- adding -------------------------------------------------------------------------------------

static mh_status find_label(reading *r, const char *name, int32_t *label)
{
    mh_run *run = r->run;
    const mh_text text = {name, strlen(name)};
    size_t found = run->labels.count;
    if (!mh_labels_find(&run->labels, text, &found)) {
        if (r->fixed_labels || run->labels.count == LABELS_MOST)
            return mh_fail(run->context, MH_ERROR_FORMAT, "%.600s: label %.80s: expected %s",
                           r->path, name,
                           r->fixed_labels ? "one of the training data's" : "at most 65536");
        MH_TRY(mh_labels_add(run->context, &run->labels, text));
    }
    *label = (int32_t)found;
    return MH_OK;
}

// Memory for `more` further pictures.
static mh_status reserve_pictures(reading *r, size_t more)
{
    mh_pictures *p = r->pictures;
    mh_dataset *e = r->examples;
    size_t count, one, bytes;
    if (!mh_add_sizes(p->count, more, &count) || !mh_multiply_sizes(p->side, p->side, &one) ||
        !mh_multiply_sizes(one, p->channels, &one) || !mh_multiply_sizes(one, count, &bytes) ||
        count >= UINT32_MAX)
        return mh_fail(r->run->context, MH_ERROR_MEMORY, "%.700s: too many pictures: %zu", r->path,
                       more);
    return mh_grow(r->run->context, &p->pixels, &p->capacity, bytes, 1) &&
                   mh_grow(r->run->context, &e->ids, &e->ids_capacity, count, sizeof *e->ids) &&
                   mh_grow(r->run->context, &e->starts, &e->starts_capacity, 2 * count + 1,
                           sizeof *e->starts)
               ? MH_OK
               : MH_ERROR_MEMORY;
}

// One more example, whose pixels are at the end; there is memory for it.
static void add_example(reading *r, int32_t label)
{
    mh_dataset *e = r->examples;
    const size_t i = e->count++;
    e->starts[0] = 0;
    e->ids[i] = label;
    e->starts[2 * i + 1] = i;
    e->starts[2 * i + 2] = i + 1;
    r->pictures->count++;
}

static unsigned char *next_pixels(const mh_pictures *p)
{
    return p->pixels + p->count * p->side * p->side * p->channels;
}

// ---- idx ----------------------------------------------------------------------------------------

typedef struct idx_file {
    mh_byte_stream stream;
    size_t sizes[3]; // count, height, width
} idx_file;

static mh_status read_exactly(mh_byte_stream *stream, const char *path, void *to, size_t size)
{
    size_t done = 0, got;
    while (done < size) {
        MH_TRY(mh_byte_stream_read(stream, (char *)to + done, size - done, &got));
        if (got == 0)
            return mh_fail(stream->source.context, MH_ERROR_FORMAT,
                           "%.700s: cut off: found %zu bytes, expected %zu more", path, done,
                           size - done);
        done += got;
    }
    return MH_OK;
}

// The header: 0, 0, type 8 (bytes), the number of sizes, and these.
static mh_status open_idx(mh_context *context, const char *path, size_t rank, idx_file *file)
{
    unsigned char head[4], size[4];
    MH_TRY(mh_file_check_regular(context, path));
    MH_TRY(mh_byte_stream_open(context, path, &file->stream));
    MH_TRY(read_exactly(&file->stream, path, head, sizeof head));
    if (head[0] || head[1] || head[2] != 8 || head[3] != rank)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "%.600s: found bytes %u %u %u %u, expected 0 0 8 %zu, an idx file of bytes "
                       "with %zu size%s",
                       path, head[0], head[1], head[2], head[3], rank, rank, rank == 1 ? "" : "s");
    for (size_t i = 0; i < rank; i++) {
        MH_TRY(read_exactly(&file->stream, path, size, sizeof size));
        file->sizes[i] =
            (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | (size_t)size[3];
        if (file->sizes[i] == 0 || (i > 0 && file->sizes[i] > MH_IMAGE_SIDE_MAX))
            return mh_fail(context, MH_ERROR_FORMAT,
                           "%.600s: size %zu: found %zu, expected 1 to %d", path, i, file->sizes[i],
                           MH_IMAGE_SIDE_MAX);
    }
    return MH_OK;
}

static mh_status check_idx_end(idx_file *file, const char *path)
{
    char more;
    size_t got;
    MH_TRY(mh_byte_stream_read(&file->stream, &more, 1, &got));
    return got == 0 ? MH_OK
                    : mh_fail(file->stream.source.context, MH_ERROR_FORMAT,
                              "%.700s: bytes after the last element", path);
}

// "train-images-idx3-ubyte.gz" -> "train-labels-idx1-ubyte.gz"; also with "images.idx3".
static mh_status find_labels_file(mh_context *context, const char *path, char labels[MH_PATH_BYTES])
{
    const char *name = strrchr(path, '/');
    const char *images = strstr(name ? name : path, "images");
    const char *rank = images ? strstr(images, "idx3") : NULL;
    if (!rank || strlen(path) >= MH_PATH_BYTES)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "%.600s: expected a name with images and idx3, beside which a file with "
                       "labels and idx1 is",
                       path);
    strcpy(labels, path);
    memcpy(labels + (images - path), "labels", 6);
    labels[rank - path + 3] = '1';
    return MH_OK;
}

// Pictures of another size are resized.
static mh_status put_resized(reading *r, const mh_image *image)
{
    mh_context *context = r->run->context;
    const mh_pictures *p = r->pictures;
    mh_image resized;
    MH_TRY(mh_image_resize(context, image, MH_RESAMPLE_BILINEAR, p->side, p->side, &resized));
    unsigned char *to = next_pixels(p);
    const unsigned char *from = resized.pixels;
    for (size_t i = 0; i < p->side * p->side; i++, from += image->channels)
        for (size_t c = 0; c < p->channels; c++) {
            const unsigned gray = image->channels == 1
                                      ? from[0]
                                      : (299u * from[0] + 587u * from[1] + 114u * from[2]) / 1000;
            *to++ = image->channels == p->channels ? from[c] : (unsigned char)gray;
        }
    mh_image_free(context, &resized);
    return MH_OK;
}

// One picture and its label. Memory grows as pictures are read: a header may lie.
static mh_status read_idx_one(reading *r, idx_file *images, idx_file *labels,
                              const char *labels_path, unsigned char *pixels)
{
    unsigned char digit;
    char name[16];
    int32_t label;
    const size_t height = images->sizes[1], width = images->sizes[2];
    const mh_image image = {width, height, 1, pixels};
    MH_TRY(read_exactly(&images->stream, r->path, pixels, height * width));
    MH_TRY(read_exactly(&labels->stream, labels_path, &digit, 1));
    snprintf(name, sizeof name, "%u", digit);
    MH_TRY(find_label(r, name, &label));
    MH_TRY(reserve_pictures(r, 1));
    MH_TRY(put_resized(r, &image));
    add_example(r, label);
    return MH_OK;
}

static mh_status read_idx_all(reading *r, idx_file *images, idx_file *labels,
                              const char *labels_path)
{
    mh_pictures *p = r->pictures;
    if (images->sizes[0] != labels->sizes[0])
        return mh_fail(r->run->context, MH_ERROR_FORMAT,
                       "%.400s has %zu pictures, and %.400s %zu labels: expected as many", r->path,
                       images->sizes[0], labels_path, labels->sizes[0]);
    if (images->sizes[1] * images->sizes[2] > MH_IMAGE_PIXELS_MAX)
        return mh_fail(r->run->context, MH_ERROR_FORMAT,
                       "%.600s: pictures of %zu x %zu, expected at most %d pixels", r->path,
                       images->sizes[1], images->sizes[2], MH_IMAGE_PIXELS_MAX);
    if (!p->side && images->sizes[1] > SIDE_MOST)
        return mh_fail(r->run->context, MH_ERROR_FORMAT,
                       "%.600s: pictures of %zu rows, expected at most %d, or an image_size",
                       r->path, images->sizes[1], SIDE_MOST);
    if (!p->side)
        p->side = images->sizes[1];
    if (!p->channels)
        p->channels = 1;
    const size_t bytes = images->sizes[1] * images->sizes[2];
    unsigned char *pixels = mh_alloc(r->run->context, bytes);
    mh_status status = pixels ? MH_OK : MH_ERROR_MEMORY;
    for (size_t i = 0; i < images->sizes[0] && !status; i++)
        status = read_idx_one(r, images, labels, labels_path, pixels);
    mh_free(r->run->context, pixels, bytes);
    return status;
}

static int compare_digits(const char *a, const char *b)
{
    const size_t m = strlen(a), n = strlen(b);
    return m != n ? (m < n ? -1 : 1) : strcmp(a, b);
}

// Labels of idx files are numbers: ids are in their order, not in that of the pictures.
static void sort_idx_labels(reading *r)
{
    mh_run *run = r->run;
    mh_dataset *e = r->examples;
    int32_t rank[256];
    for (size_t i = 0; i < run->labels.count; i++) {
        rank[i] = 0;
        for (size_t k = 0; k < run->labels.count; k++)
            rank[i] += compare_digits(run->labels.names[k], run->labels.names[i]) < 0;
    }
    for (size_t i = 0; i < e->count; i++)
        e->ids[i] = rank[e->ids[i]];
    for (size_t i = 1; i < run->labels.count; i++)
        for (size_t k = i;
             k > 0 && compare_digits(run->labels.names[k], run->labels.names[k - 1]) < 0; k--) {
            char *swapped = run->labels.names[k];
            run->labels.names[k] = run->labels.names[k - 1];
            run->labels.names[k - 1] = swapped;
        }
}

static mh_status read_idx(reading *r)
{
    char labels_path[MH_PATH_BYTES];
    idx_file images = {0}, labels = {0};
    mh_status status = open_idx(r->run->context, r->path, 3, &images);
    if (!status)
        status = find_labels_file(r->run->context, r->path, labels_path);
    if (!status)
        status = open_idx(r->run->context, labels_path, 1, &labels);
    if (!status)
        status = read_idx_all(r, &images, &labels, labels_path);
    if (!status)
        status = check_idx_end(&images, r->path);
    if (!status)
        status = check_idx_end(&labels, labels_path);
    mh_byte_stream_close(&images.stream);
    mh_byte_stream_close(&labels.stream);
    if (!status && !r->fixed_labels)
        sort_idx_labels(r);
    return status;
}

static mh_status name_label(mh_run *run, char **label, const char *names)
{
    size_t number = strtoul(*label, NULL, 10);
    for (; number > 0 && *names; number--) {
        names += strcspn(names, ",");
        names += *names == ',';
    }
    const size_t size = strcspn(names, ",");
    if (size == 0)
        return mh_fail(run->context, MH_ERROR_ARGUMENT, "label_names: found no name of label %s",
                       *label);
    char *copy = mh_alloc(run->context, size + 1);
    if (!copy)
        return MH_ERROR_MEMORY;
    memcpy(copy, names, size);
    copy[size] = 0;
    mh_free(run->context, *label, strlen(*label) + 1);
    *label = copy;
    return MH_OK;
}

// The last label is the largest number.
static void warn_of_surplus(mh_run *run, const char *names)
{
    const size_t wanted = strtoul(run->labels.names[run->labels.count - 1], NULL, 10) + 1;
    size_t found = 1;
    for (; *names; names++)
        found += *names == ',';
    if (found > wanted)
        mh_log(run->context, MH_LOG_WARNING,
               "label_names: %zu names, but the largest label is %zu: the last %zu are not used",
               found, wanted - 1, found - wanted);
}

static mh_status check_distinct(const mh_run *run)
{
    for (size_t i = 0; i < run->labels.count; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(run->labels.names[i], run->labels.names[k]))
                return mh_fail(run->context, MH_ERROR_ARGUMENT,
                               "label_names: found %.80s twice: expected different names",
                               run->labels.names[i]);
    return MH_OK;
}

mh_status mh_picture_data_name_labels(mh_run *run, const char *names)
{
    if (mh_is_directory(run->options->data))
        return mh_fail(run->context, MH_ERROR_ARGUMENT,
                       "label_names: expected NULL, as directories are names of labels");
    if (mh_utf8_valid(names, strlen(names)) < strlen(names))
        return mh_fail(run->context, MH_ERROR_ARGUMENT, "label_names: found invalid UTF-8");
    warn_of_surplus(run, names);
    for (size_t i = 0; i < run->labels.count; i++)
        MH_TRY(name_label(run, &run->labels.names[i], names));
    return check_distinct(run);
}

// ---- directories --------------------------------------------------------------------------------

// Counts a file that is no picture. The error's message begins with its name.
static void report_file(reading *r, const char *path)
{
    const mh_train_options *o = r->run->options;
    const char *why = mh_error_message(r->run->context);
    const size_t size = strlen(path);
    if (strncmp(why, path, size) == 0 && strncmp(why + size, ": ", 2) == 0)
        why += size + 2;
    r->examples->left_out++;
    if (o->bad_line)
        o->bad_line(o->user, path, 0, why);
}

// The gray pictures so far become coloured ones, as one of them is.
static mh_status widen_pictures(reading *r)
{
    mh_pictures *p = r->pictures;
    p->channels = COLOURS;
    MH_TRY(reserve_pictures(r, 0));
    for (size_t i = p->count * p->side * p->side; i-- > 0;)
        for (size_t c = COLOURS; c-- > 0;)
            p->pixels[COLOURS * i + c] = p->pixels[i];
    return MH_OK;
}

static mh_status put_image(reading *r, const mh_image *image, int32_t label)
{
    mh_pictures *p = r->pictures;
    if (!p->side)
        p->side = SIDE_DEFAULT;
    if (!p->channels)
        p->channels = image->channels;
    if (p->channels < image->channels && !r->fixed_channels)
        MH_TRY(widen_pictures(r));
    MH_TRY(reserve_pictures(r, 1));
    MH_TRY(put_resized(r, image));
    add_example(r, label);
    return MH_OK;
}

static mh_status add_file(reading *r, const char *path, int32_t label)
{
    mh_run *run = r->run;
    mh_image image;
    const mh_status status = mh_image_read(run->context, path, &image);
    if (status == MH_ERROR_FORMAT || status == MH_ERROR_UNSUPPORTED) {
        report_file(r, path);
        return MH_OK;
    }
    MH_TRY(status);
    const mh_status added = put_image(r, &image, label);
    mh_image_free(run->context, &image);
    return added;
}

static mh_status read_label_directory(reading *r, const char *directory, int32_t label)
{
    char path[MH_PATH_BYTES];
    mh_listing files;
    mh_status status = mh_list_directory(r->run->context, directory, &files);
    for (size_t i = 0; i < files.count && !status; i++) {
        status = mh_path_join(r->run->context, directory, files.names[i], path);
        if (!status && !mh_is_directory(path))
            status = add_file(r, path, label);
    }
    mh_listing_free(r->run->context, &files);
    return status;
}

static mh_status read_directories(reading *r)
{
    char path[MH_PATH_BYTES];
    mh_listing labels;
    int32_t label;
    mh_status status = mh_list_directory(r->run->context, r->path, &labels);
    for (size_t i = 0; i < labels.count && !status; i++) {
        status = mh_path_join(r->run->context, r->path, labels.names[i], path);
        if (status || !mh_is_directory(path))
            continue;
        status = find_label(r, labels.names[i], &label);
        if (!status)
            status = read_label_directory(r, path, label);
    }
    mh_listing_free(r->run->context, &labels);
    return status;
}

mh_status mh_picture_data_read(mh_run *run, const char *path, mh_pictures *pictures,
                               mh_dataset *examples)
{
    reading r = {run, path, pictures, examples, run->labels.count > 0, pictures->channels > 0};
    MH_TRY(mh_is_directory(path) ? read_directories(&r) : read_idx(&r));
    if (examples->count == 0)
        return mh_fail(run->context, MH_ERROR_FORMAT,
                       "%.600s: no pictures, expected a directory of them for every label, or the "
                       "name of an idx file",
                       path);
    if (run->labels.count < 2)
        return mh_fail(run->context, MH_ERROR_FORMAT,
                       "%.600s: found one label, %.80s, expected 2 or more", path,
                       run->labels.names[0]);
    return MH_OK;
}

void mh_picture_values(const mh_pictures *p, size_t i, ptrdiff_t dy, ptrdiff_t dx, bool mirrored,
                       float *values)
{
    const ptrdiff_t side = (ptrdiff_t)p->side;
    const unsigned char *from = p->pixels + i * p->side * p->side * p->channels;
    for (size_t c = 0; c < p->channels; c++)
        for (ptrdiff_t y = 0; y < side; y++)
            for (ptrdiff_t x = 0; x < side; x++) {
                const ptrdiff_t fy = y + dy, fx = (mirrored ? side - 1 - x : x) + dx;
                const bool inside = fy >= 0 && fy < side && fx >= 0 && fx < side;
                const unsigned value =
                    inside ? from[(size_t)(fy * side + fx) * p->channels + c] : 0;
                *values++ = (float)value / 127.5f - 1;
            }
}
