// SPDX-License-Identifier: MIT
// The weights of a trainable model as its family publishes them: the rules that files are read by
// (weight_rules.c), in reverse.
//
//     layers.3.self_attn.in_proj_weight -> vit.encoder.layer.3.attention.attention.query.weight,
//     ...
#include "base/compiler.h"
#include "base/overflow.h"
#include "model/model_internal.h"
#include "support/directory.h"
#include <string.h>

typedef struct saving {
    mh_context *context;
    const mh_model *model;
    mh_dtype dtype;
    mh_weight_part *parts; // (most)
    mh_named_tensor *tensors;
    size_t count, most;
    char *values, *next; // of all tensors
} saving;

// The shape that files have: (1, 1, D) of a class token, (1, N, D) of ViT's positions,
// (D, C, P, P) of a convolution.
static mh_tensor shape_in_file(const saving *s, const char *parameter, const mh_tensor *t)
{
    const mh_vision *v = &s->model->description.vision;
    if (!v->image)
        return mh_tensor_view(NULL, s->dtype, t->rank, t->shape);
    if (!strcmp(parameter, "class_token.weight"))
        return mh_tensor_view(NULL, s->dtype, 3, (size_t[]){1, 1, t->shape[0]});
    if (!strcmp(parameter, "position_embedding.weight"))
        return mh_tensor_view(NULL, s->dtype, 3, (size_t[]){1, t->shape[0], t->shape[1]});
    if (!strcmp(parameter, "patch_embedding.weight"))
        return mh_tensor_view(NULL, s->dtype, 4,
                              (size_t[]){t->shape[0], v->channels, v->patch, v->patch});
    return mh_tensor_view(NULL, s->dtype, t->rank, t->shape);
}

// Rows (3, H, E) to rows (H, 3, E), which GPT-NeoX has.
static mh_status copy_to_heads(const saving *s, const mh_tensor *from, mh_tensor *to)
{
    const size_t H = s->model->description.block.num_heads, E = from->shape[0] / (3 * H);
    const size_t D = from->rank == 2 ? from->shape[1] : 1;
    mh_tensor x = mh_tensor_4d(from->data, from->dtype, 3, H, E, D);
    mh_tensor y = mh_tensor_4d(to->data, to->dtype, H, 3, E, D);
    x = mh_tensor_swap(x, 0, 1);
    return mh_tensor_copy(s->context, &x, &y);
}

// Of a norm's weights w, w - 1, which Gemma's files have.
static mh_status copy_less_one(const saving *s, const mh_tensor *from, mh_tensor *to)
{
    const size_t count = mh_tensor_count(from);
    float *values = mh_alloc(s->context, count * sizeof *values);
    if (!values)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        values[i] = ((const float *)from->data)[i] - 1;
    const mh_tensor less = mh_tensor_1d(values, MH_F32, count);
    const mh_status status = mh_tensor_copy(s->context, &less, to);
    mh_free(s->context, values, count * sizeof *values);
    return status;
}

static mh_status copy_values(const saving *s, const mh_parameter *p, const mh_weight_part *part,
                             const mh_tensor *from, mh_tensor *to)
{
    if (part->by_head)
        return copy_to_heads(s, from, to);
    if (s->model->description.norm_plus_one && mh_weights_is_norm(p->name))
        return copy_less_one(s, from, to);
    return mh_tensor_copy(s->context, from, to);
}

// Copies one part to the next place in memory.
static mh_status add_part(saving *s, const mh_parameter *p, const mh_tensor *whole,
                          const mh_weight_part *part)
{
    mh_tensor from = mh_tensor_slice(*whole, 0, part->first, part->rows);
    if (part->transposed && from.rank == 2)
        from = mh_tensor_swap(from, 0, 1);
    mh_tensor to = mh_tensor_view(s->next, s->dtype, from.rank, from.shape);
    MH_TRY(copy_values(s, p, part, &from, &to));
    mh_tensor shaped = shape_in_file(s, p->name, &to);
    shaped.data = s->next;
    s->next += mh_tensor_count(&to) * mh_dtype_size(s->dtype);
    s->tensors[s->count++] = (mh_named_tensor){part->name, shaped};
    return MH_OK;
}

static mh_status add_list(saving *s, const mh_parameters *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const mh_parameter *p = &list->list[i];
        const mh_tensor whole = mh_parameter_view(p, list->values);
        mh_weight_part *parts = s->parts + s->count;
        const size_t count = mh_weights_name_parts(s->model->family, &s->model->description.block,
                                                   p->name, whole.shape[0], parts);
        if (count == 0)
            return mh_fail(s->context, MH_ERROR_UNSUPPORTED,
                           "models of type %s cannot be saved: no tensor of theirs is %s",
                           s->model->family->model_type, p->name);
        for (size_t k = 0; k < count; k++)
            MH_TRY(add_part(s, p, &whole, &parts[k]));
    }
    return MH_OK;
}

static mh_status write_all(saving *s, const char *directory)
{
    char path[MH_PATH_BYTES];
    const mh_metadata format = {"format", "pt"};
    MH_TRY(add_list(s, mh_model_parameters(s->model)));
    MH_TRY(add_list(s, mh_transformer_parameters(s->model->transformer)));
    MH_TRY(mh_path_join(s->context, directory, "model.safetensors", path));
    return mh_safetensors_write(s->context, path, s->tensors, s->count, &format, 1);
}

mh_status mh_model_save_weights(mh_context *context, const mh_model *model, const char *directory,
                                mh_dtype dtype)
{
    const mh_parameters *ends = mh_model_parameters(model);
    const mh_parameters *blocks = mh_transformer_parameters(model->transformer);
    const size_t most = (ends->count + blocks->count) * MH_WEIGHT_PARTS;
    const size_t bytes = (ends->floats + blocks->floats) * mh_dtype_size(dtype);
    saving s = {.context = context, .model = model, .dtype = dtype, .most = most};
    s.parts = mh_alloc(context, most * sizeof *s.parts);
    s.tensors = mh_alloc(context, most * sizeof *s.tensors);
    s.values = s.next = mh_alloc(context, bytes);
    mh_status status = s.parts && s.tensors && s.values ? MH_OK : MH_ERROR_MEMORY;
    if (!status)
        status = write_all(&s, directory);
    mh_free(context, s.values, bytes);
    mh_free(context, s.tensors, most * sizeof *s.tensors);
    mh_free(context, s.parts, most * sizeof *s.parts);
    return status;
}
