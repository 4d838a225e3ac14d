// SPDX-License-Identifier: MIT
// Parameters: declaring, finding and initialising them.
#include "base/context.h"
#include "base/fpenv.h"
#include "base/overflow.h"
#include "base/random.h"
#include "nn/parameter_list.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// `floats` counts those declared so far in the part of the layout where it goes.
static ptrdiff_t declare_at(mh_parameter_list *list, const char *prefix, const char *name, int rank,
                            const size_t *shape, mh_init init, double scale, size_t first,
                            size_t *floats)
{
    mh_parameter p = {.rank = rank, .offset = first + *floats, .count = 1, .init = init};
    snprintf(p.name, sizeof p.name, "%s%s", prefix, name);
    p.init_scale = (float)scale;
    for (int d = 0; d < rank; d++) {
        p.shape[d] = shape[d];
        p.count *= shape[d];
    }
    if (list->list)
        list->list[list->count] = p;
    list->count++;
    *floats += p.count;
    return (ptrdiff_t)p.offset;
}

ptrdiff_t mh_declare(mh_parameter_list *list, const char *prefix, const char *name, int rank,
                     const size_t *shape, mh_init init, double scale)
{
    return declare_at(list, prefix, name, rank, shape, init, scale, 0, &list->floats);
}

size_t mh_parameters_lay_out(mh_parameter *list, size_t count)
{
    size_t floats = 0, bytes;
    for (size_t i = 0; i < count; i++) {
        mh_parameter *p = &list[i];
        if (p->rank < 1 || p->rank > 3)
            return SIZE_MAX;
        p->offset = floats;
        p->count = 1;
        for (int d = 0; d < p->rank; d++)
            if (!mh_multiply_sizes(p->count, p->shape[d], &p->count))
                return SIZE_MAX;
        if (!mh_add_sizes(floats, p->count, &floats) ||
            !mh_multiply_sizes(floats, sizeof(float), &bytes))
            return SIZE_MAX;
    }
    return floats;
}

ptrdiff_t mh_declare_vector(mh_parameter_list *list, const char *prefix, const char *name, size_t n,
                            mh_init init, double scale)
{
    return mh_declare(list, prefix, name, 1, &n, init, scale);
}

ptrdiff_t mh_declare_matrix(mh_parameter_list *list, const char *prefix, const char *name,
                            size_t rows, size_t columns, bool xavier)
{
    const double scale = xavier ? sqrt(6.0 / (double)(rows + columns)) : 1 / sqrt((double)columns);
    return declare_at(list, prefix, name, 2, (size_t[]){rows, columns}, MH_INIT_UNIFORM, scale,
                      list->separate ? list->first_matrix : 0,
                      list->separate ? &list->matrix_floats : &list->floats);
}

// The default floating-point environment, so that the scales of initial values do not depend on the
// caller's.
static void declare_all(mh_parameter_list *list, void (*declare)(mh_parameter_list *, void *),
                        void *module)
{
    mh_fpenv saved = mh_fpenv_enter();
    declare(list, module);
    mh_fpenv_leave(saved);
}

mh_status mh_parameters_create(mh_context *context, void (*declare)(mh_parameter_list *, void *),
                               void *module, bool separate, mh_parameters *parameters)
{
    mh_parameter_list list = {.separate = separate};
    declare_all(&list, declare, module);
    const size_t list_bytes = list.count * sizeof *list.list;
    const size_t value_bytes = list.floats * sizeof(float);
    *parameters = (mh_parameters){.count = list.count, .floats = list.floats};
    mh_parameter *memory = mh_alloc(context, list_bytes);
    parameters->values = memory ? mh_alloc(context, value_bytes) : NULL;
    if (!parameters->values) {
        mh_free(context, memory, list_bytes);
        return MH_ERROR_MEMORY;
    }
    memset(parameters->values, 0, value_bytes);
    list = (mh_parameter_list){
        .list = memory, .separate = separate, .first_matrix = parameters->floats};
    declare_all(&list, declare, module);
    parameters->list = memory;
    return MH_OK;
}

void mh_parameters_free(const mh_allocator *allocator, mh_parameters *parameters)
{
    if (!parameters->values)
        return;
    allocator->release(allocator->user, parameters->values, parameters->floats * sizeof(float));
    allocator->release(allocator->user, (void *)parameters->list,
                       parameters->count * sizeof *parameters->list);
}

const mh_parameter *mh_parameters_find(const mh_parameters *parameters, const char *name)
{
    for (size_t i = 0; i < parameters->count; i++)
        if (!strcmp(parameters->list[i].name, name))
            return &parameters->list[i];
    return NULL;
}

mh_tensor mh_parameter_view(const mh_parameter *parameter, float *values)
{
    return mh_tensor_view(values + parameter->offset, MH_F32, parameter->rank, parameter->shape);
}

// ---- initial values -----------------------------------------------------------------------------

// The sum of twelve uniform numbers is normal except for its far tails, and needs no logarithm,
// whose bits would depend on the C library.
static void fill_normal(uint64_t seed, uint64_t stream, float deviation, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        float twelve[12], sum = 0;
        mh_random_uniform(seed, stream + (i << 32), -0.5f, 0.5f, 12, twelve);
        for (size_t j = 0; j < 12; j++)
            sum += twelve[j];
        out[i] = deviation * sum;
    }
}

void mh_parameters_init(const mh_parameters *parameters, uint64_t seed)
{
    mh_fpenv saved = mh_fpenv_enter();
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_parameter *p = &parameters->list[i];
        if (p->offset >= parameters->floats) // a matrix of a module for inference
            continue;
        float *values = parameters->values + p->offset;
        if (p->init == MH_INIT_UNIFORM)
            mh_random_uniform(seed, i, -p->init_scale, p->init_scale, p->count, values);
        else if (p->init == MH_INIT_NORMAL)
            fill_normal(seed, i, p->init_scale, p->count, values);
        else
            for (size_t n = 0; n < p->count; n++)
                values[n] = p->init == MH_INIT_ONE;
    }
    mh_fpenv_leave(saved);
}
