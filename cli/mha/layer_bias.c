// SPDX-License-Identifier: MIT
// T5 adds a learned bias to the scores, by the distance of key and query and by head. Distances
// fall into buckets: half of these are single distances, the others grow logarithmically. The table
// is in a stack's first layer, and all of its layers use it.
#include "layer.h"
#include "messages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int layer_load_bias(mha *m, const mh_tensor_file *file, const char *base)
{
    static const char first[] = "block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    char name[1024];
    size_t index;
    mh_tensor table;
    const char *block = strstr(base, "block.");
    snprintf(name, sizeof name, "%.*s%s", block ? (int)(block - base) : 0, base, first);
    if (!mh_tensor_file_index(file, name, &index) ||
        !mh_tensor_file_describe(file, index, &table) || table.rank != 2 ||
        table.shape[1] != m->config.num_heads || table.shape[0] < 4) {
        complain("--layer: %s: expected a table (buckets, %zu)", name, m->config.num_heads);
        return EXIT_INPUT;
    }
    m->bias_table = calloc(mh_tensor_count(&table), sizeof *m->bias_table);
    if (!m->bias_table) {
        complain("--layer: out of memory");
        return EXIT_MEMORY;
    }
    m->buckets = table.shape[0];
    mh_tensor to = mh_tensor_2d(m->bias_table, MH_F32, table.shape[0], table.shape[1]);
    mh_status status = mh_tensor_file_read(m->context, file, index, &to);
    return status == MH_OK ? EXIT_DONE : complain_status(m->context, status, "--layer");
}

static size_t bucket_of(const mha *m, ptrdiff_t key_minus_query)
{
    const bool both_ways = m->causal == MH_CAUSAL_NONE;
    size_t buckets = m->buckets, first = 0;
    double distance = fabs((double)key_minus_query);
    if (both_ways) {
        buckets /= 2;
        first = key_minus_query > 0 ? buckets : 0;
    } else if (key_minus_query > 0) {
        distance = 0;
    }
    const double exact = (double)(buckets / 2);
    if (distance < exact)
        return first + (size_t)distance;
    // The guard makes exact powers fall into the bucket they begin.
    const double part = log(distance / exact) / log(m->relative_distance / exact);
    const double bucket = exact + part * (double)(buckets - buckets / 2) + 1e-6;
    return first + (bucket < (double)buckets ? (size_t)bucket : buckets - 1);
}

int layer_add_bias(mha *m)
{
    const size_t H = m->config.num_heads, shape[3] = {m->B * H, m->T, m->S};
    array *in = &m->inputs[INPUT_MASK];
    if (!m->bias_table)
        return EXIT_DONE;
    if (in->spec) {
        complain("--attn-mask cannot be combined with this layer's relative position bias");
        return EXIT_USAGE;
    }
    int code = array_allocate(m->context, "--layer", MH_F32, 3, shape, &in->tensor, &in->copy_size);
    if (code != EXIT_DONE)
        return code;
    float *to = in->copy = in->tensor.data;
    for (size_t row = 0; row < m->B * H; row++)
        for (size_t i = 0; i < m->T; i++)
            for (size_t j = 0; j < m->S; j++)
                *to++ = m->bias_table[bucket_of(m, (ptrdiff_t)j - (ptrdiff_t)i) * H + row % H];
    m->options.attn_mask = &in->tensor;
    return EXIT_DONE;
}
