// SPDX-License-Identifier: MIT
// The cases of goldens/modules.safetensors; see module_goldens.h.
#include "module_goldens.h"
#include <float.h>
#include <math.h>

// ---- options ------------------------------------------------------------------------------------

module_case module_case_open(mh_context *context, const mh_tensor_file *file, const char *key)
{
    mh_tensor row;
    module_case c = {.context = context, .text = mh_tensor_file_metadata(file, key)};
    if (!c.text || !mh_tensor_file_find(file, key, &row))
        fail_msg("modules.safetensors has no case %s", key);
    c.expected = row.data;
    c.left = mh_tensor_count(&row);
    for (size_t i = 0; i < c.left; i++)
        c.scale = fmax(c.scale, fabs((double)c.expected[i]));
    return c;
}

void module_case_close(module_case *c)
{
    for (size_t i = 0; i < c->block_count; i++)
        free(c->blocks[i]);
    if (c->left)
        fail_msg("'%s': %zu numbers of the golden were not compared", c->text, c->left);
}

bool module_is(const module_case *c, const char *kind)
{
    const size_t size = strcspn(c->text, " ");
    return strlen(kind) == size && !strncmp(c->text, kind, size);
}

double module_option(const module_case *c, const char *key, double usual)
{
    char start[40];
    snprintf(start, sizeof start, " %s=", key);
    const char *found = strstr(c->text, start);
    return found ? strtod(found + strlen(start), NULL) : usual;
}

size_t module_size(const module_case *c, const char *key, size_t usual)
{
    return (size_t)module_option(c, key, (double)usual);
}

// ---- memory and numbers -------------------------------------------------------------------------

void *module_memory(module_case *c, size_t count, size_t size)
{
    assert_true(c->block_count < sizeof c->blocks / sizeof *c->blocks);
    void *memory = calloc(count ? count : 1, size);
    assert_non_null(memory);
    return c->blocks[c->block_count++] = memory;
}

uint32_t module_bits(const char *name, size_t i)
{
    uint32_t x = 2166136261u;
    for (; *name; name++)
        x = (x ^ (uint8_t)*name) * 16777619u;
    x += (uint32_t)i * 2654435761u;
    x = (x ^ (x >> 16)) * 2246822519u;
    x = (x ^ (x >> 13)) * 3266489917u;
    return x ^ (x >> 16);
}

void module_numbers(const char *name, size_t n, double amplitude, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(((double)(module_bits(name, i) % 2048) - 1024) * (amplitude / 1024));
}

void module_parameters(const mh_parameters *parameters)
{
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_parameter *p = &parameters->list[i];
        float *values = parameters->values + p->offset;
        const size_t size = strlen(p->name);
        const bool norm = strstr(p->name, "norm") && !strcmp(p->name + size - 6, "weight");
        const double amplitude = norm                                ? 0.5
                                 : p->rank == 2 && p->shape[1] <= 16 ? 0.5
                                 : p->rank == 2                      ? 0.125
                                                                     : 0.25;
        module_numbers(p->name, p->count, amplitude, values);
        for (size_t n = 0; n < p->count && norm; n++)
            values[n] += 1;
    }
}

// ---- inputs -------------------------------------------------------------------------------------

module_rows module_rows_make(module_case *c, size_t T, size_t W)
{
    const size_t B = module_size(c, "sequences", 0) ? 0 : module_size(c, "B", 2);
    const bool batch_first = module_size(c, "bf", 0);
    float *data = module_memory(c, (B ? B : 1) * T * W, sizeof *data);
    if (!B)
        return (module_rows){mh_tensor_3d(data, MH_F32, 1, T, W), mh_tensor_2d(data, MH_F32, T, W)};
    const mh_tensor given =
        batch_first ? mh_tensor_3d(data, MH_F32, B, T, W) : mh_tensor_3d(data, MH_F32, T, B, W);
    return (module_rows){batch_first ? given : mh_tensor_swap(given, 0, 1), given};
}

void module_rows_fill(module_case *c, const char *name, double amplitude, const module_rows *rows)
{
    const size_t n = mh_tensor_count(&rows->view);
    float *numbers = module_memory(c, n, sizeof *numbers);
    module_numbers(name, n, amplitude, numbers);
    const mh_tensor dense = mh_tensor_view(numbers, MH_F32, 3, rows->view.shape);
    test_ok(c->context, mh_tensor_copy(c->context, &dense, &rows->view));
}

const mh_tensor *module_mask(module_case *c, const char *name, int kind, int rank,
                             const size_t *shape, bool empty)
{
    if (!kind)
        return NULL;
    mh_tensor *mask = module_memory(c, 1, sizeof *mask);
    *mask = mh_tensor_view(NULL, kind % 2 ? MH_BOOL : MH_F32, rank, shape);
    const size_t n = mh_tensor_count(mask), S = shape[rank - 1];
    bool *drop = module_memory(c, n, sizeof *drop);
    for (size_t i = 0; i < n; i++)
        drop[i] = (i % S != 0 && module_bits(name, i) % 4 == 0) || (empty && i < S);
    mask->data = drop;
    if (kind % 2)
        return mask;
    char added[64];
    snprintf(added, sizeof added, "%s.add", name);
    float *numbers = module_memory(c, n, sizeof *numbers);
    module_numbers(added, n, 1, numbers);
    for (size_t i = 0; i < n; i++)
        if (drop[i])
            numbers[i] = -INFINITY;
    mask->data = numbers;
    return mask;
}

// ---- comparing ----------------------------------------------------------------------------------

void module_compare(module_case *c, const char *what, const mh_tensor *found)
{
    const size_t n = mh_tensor_count(found);
    const char *level = mh_context_isa(c->context);
    if (n > c->left)
        fail_msg("%s: '%s': the golden has no %s", level, c->text, what);
    float *numbers = malloc((n ? n : 1) * sizeof *numbers);
    const mh_tensor dense = mh_tensor_view(numbers, MH_F32, found->rank, found->shape);
    test_ok(c->context, mh_tensor_copy(c->context, found, &dense));
    double largest = c->scale / 32, worst = 0; // below that, terms have cancelled
    bool number = true;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)c->expected[i]));
        worst = fmax(worst, fabs((double)numbers[i] - (double)c->expected[i]));
        number &= !isnan(numbers[i]);
    }
    free(numbers);
    // Measured: up to 7.5 last bits of the largest number for attention, 15.6 through several
    // layers.
    const double bound = (module_is(c, "mha") ? 15 : 31) * (double)FLT_EPSILON * largest;
    c->largest_error = fmax(c->largest_error, worst / bound);
    if (getenv("MH_TEST_MEASURE"))
        printf("%8.2f %s %s %s\n", worst / largest / FLT_EPSILON, level, what, c->text);
    else if (!(worst <= bound) || !number)
        fail_msg("%s: %s of '%s': error %.3g, expected at most %.3g", level, what, c->text,
                 number ? worst : (double)NAN, bound);
    c->expected += n;
    c->left -= n;
}

static int by_name(const void *a, const void *b)
{
    const mh_parameter *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

void module_compare_gradients(module_case *c, const mh_parameters *parameters, float *gradients)
{
    const mh_parameter **sorted = module_memory(c, parameters->count, sizeof *sorted);
    for (size_t i = 0; i < parameters->count; i++)
        sorted[i] = &parameters->list[i];
    qsort(sorted, parameters->count, sizeof *sorted, by_name);
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_tensor view = mh_parameter_view(sorted[i], gradients);
        module_compare(c, sorted[i]->name, &view);
    }
}
