// SPDX-License-Identifier: MIT
// All layers step by step. First the fused forward pass runs, with a tap on every attention; then
// each layer of steps is compared with what the taps copied, and the last one with the output.
#include "stack_trace.h"
#include "messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- memory -------------------------------------------------------------------------------------

int stack_take(stack_steps *t, const char *what, int rank, const size_t *shape, mh_tensor *tensor)
{
    size_t size;
    int code = array_allocate(t->s->context, what, MH_F32, rank, shape, tensor, &size);
    if (code != EXIT_DONE)
        return code;
    t->buffers[t->buffer_count].data =
        memset(tensor->data, 0, size); // no step pays for page faults
    t->buffers[t->buffer_count++].size = size;
    return EXIT_DONE;
}

void stack_release(stack_steps *t)
{
    while (t->buffer_count > 0) {
        t->buffer_count--;
        mh_free(t->s->context, t->buffers[t->buffer_count].data, t->buffers[t->buffer_count].size);
    }
}

int stack_check(const stack_steps *t, mh_status status, const char *step)
{
    return status == MH_OK ? EXIT_DONE : complain_status(t->s->context, status, step);
}

mh_tensor stack_by_batch(const stack *s, const mh_tensor *rows, size_t length)
{
    const size_t width = rows->shape[1];
    if (s->config.batch_first)
        return mh_tensor_3d(rows->data, MH_F32, s->B, length, width);
    return mh_tensor_swap(mh_tensor_3d(rows->data, MH_F32, length, s->B, width), 0, 1);
}

// ---- showing ------------------------------------------------------------------------------------

void stack_show_step(stack_steps *t, const char *step, const char *name, const mh_tensor *tensor,
                     double seconds, const char *formula)
{
    if (t->shown)
        steps_line(&t->s->table, step, name, tensor, seconds, formula);
}

bool stack_saves(const stack_steps *t)
{
    return t->shown && t->s->values && t->s->B > 0 && t->s->T > 0;
}

void stack_save(stack_steps *t, const char *key, const char *label, const mh_tensor *rows)
{
    if (!stack_saves(t))
        return;
    const mh_tensor all = stack_by_batch(t->s, rows, t->s->T);
    const float *row = (const float *)all.data + (ptrdiff_t)t->s->shown_token * all.stride[1];
    stack_save_row(t->s, key, label, -1, row, all.stride[2], all.shape[2]);
}

// ---- the fused pass -----------------------------------------------------------------------------

mh_transformer_options stack_options(const stack *s)
{
    mh_transformer_options options = mh_transformer_options_default();
    options.src_causal = s->causal && !s->decoder;
    options.tgt_causal = s->decoder && !s->not_causal;
    return options;
}

typedef struct fused_pass {
    fused_attention *attentions; // (layers), of a decoder (2 layers): self, cross, self ...
    mh_tap *taps;
    size_t count;
    float *floats; // of all tensors
    size_t size;
    double seconds;
} fused_pass;

static void set_tensors(const stack *s, const fused_pass *p, size_t i, float **at)
{
    const bool cross = s->decoder && i % 2;
    const size_t B = s->B, H = s->config.nhead, D = s->config.d_model, E = D / H, T = s->T;
    const size_t S = cross ? s->S : T;
    fused_attention *f = &p->attentions[i];
    const struct {
        mh_tensor *tensor;
        int rank;
        size_t shape[4];
    } all[] = {{&f->q, 4, {B, H, T, E}}, {&f->k, 4, {B, H, S, E}},
               {&f->v, 4, {B, H, S, E}}, {&f->weights, 4, {B, H, T, S}},
               {&f->out, 3, {B, T, D}},  {&f->hidden, 3, {B, T, D}}};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
        *all[j].tensor = mh_tensor_view(*at, MH_F32, all[j].rank, all[j].shape);
        *at += mh_tensor_count(all[j].tensor);
    }
    mh_tap *tap = &p->taps[i];
    *tap = mh_tap_make(cross        ? MH_TAP_CROSS
                       : s->decoder ? MH_TAP_DECODER
                                    : MH_TAP_ENCODER,
                       s->decoder ? i / 2 : i);
    tap->q = f->q, tap->k = f->k, tap->v = f->v;
    tap->weights = f->weights, tap->out = f->out;
    if (!cross)
        tap->hidden = f->hidden;
}

static int make_taps(const stack *s, fused_pass *p)
{
    const size_t layers = s->layers ? s->layers : 1, D = s->config.d_model, H = s->config.nhead;
    const size_t most = s->S > s->T ? s->S : s->T;
    p->count = s->decoder ? 2 * layers : layers;
    p->attentions = calloc(p->count, sizeof *p->attentions);
    p->taps = calloc(p->count, sizeof *p->taps);
    if (!p->attentions || !p->taps) {
        complain("--trace: out of memory");
        return EXIT_MEMORY;
    }
    // Per attention, at most five tensors of `most` rows of D, and the weights.
    mh_tensor floats;
    int code =
        array_allocate(s->context, "--trace", MH_F32, 4,
                       (size_t[]){p->count, s->B, most, 5 * D + H * most}, &floats, &p->size);
    if (code != EXIT_DONE)
        return code;
    float *at = p->floats = floats.data;
    for (size_t i = 0; i < p->count; i++)
        set_tensors(s, p, i, &at);
    return EXIT_DONE;
}

static int run_fused(stack *s, fused_pass *p)
{
    int code = make_taps(s, p);
    if (code != EXIT_DONE)
        return code;
    mh_transformer_options options = stack_options(s);
    const mh_tensor *src = s->decoder ? &s->memory : &s->x, *tgt = s->decoder ? &s->x : NULL;
    const double start = steps_now();
    mh_status status = mh_transformer_forward(s->context, s->module, &options, src, tgt,
                                              &s->outputs[OUTPUT_OUT].tensor);
    p->seconds = steps_now() - start;
    options.taps = p->taps; // the same bits
    options.tap_count = p->count;
    if (status == MH_OK)
        status = mh_transformer_forward(s->context, s->module, &options, src, tgt,
                                        &s->outputs[OUTPUT_OUT].tensor);
    return status == MH_OK ? EXIT_DONE : complain_status(s->context, status, NULL);
}

static void release_fused(const stack *s, fused_pass *p)
{
    mh_free(s->context, p->floats, p->size);
    free(p->taps);
    free(p->attentions);
}

// ---- all layers ---------------------------------------------------------------------------------

// Copies x, so that the memory of its layer can be released.
static int keep_x(stack_steps *t, mh_tensor *kept)
{
    mh_status status = mh_tensor_copy(t->s->context, &t->x, kept);
    t->x = *kept;
    stack_release(t);
    return stack_check(t, status, "layer");
}

static int one_layer(stack_steps *t, const fused_pass *p, mh_tensor *kept)
{
    stack *s = t->s;
    char name[48];
    t->shown = t->layer == s->shown_layer;
    const double start = steps_now();
    int code = stack_trace_layer(t, &p->attentions[s->decoder ? 2 * t->layer : t->layer]);
    if (code != EXIT_DONE)
        return code;
    code = keep_x(t, kept);
    const mh_tensor shown = stack_by_batch(s, &t->x, s->T);
    snprintf(name, sizeof name, "layer %zu", t->layer);
    if (!t->shown)
        steps_line(&s->table, name, "x", &shown, steps_now() - start,
                   "the same steps with its own weights");
    s->table.shown_step = ""; // the next step has a name of its own
    return code;
}

static int last_norm(stack_steps *t, mh_tensor *kept)
{
    mh_tensor y;
    if (!t->s->config.final_norm)
        return EXIT_DONE;
    const mh_tensor weight = stack_last_parameter(t->s, "norm.weight"),
                    bias = stack_last_parameter(t->s, "norm.bias");
    const double start = steps_now();
    int code = stack_norm(t, &t->x, &weight, &bias, &y);
    if (code != EXIT_DONE)
        return code;
    const mh_tensor shown = stack_by_batch(t->s, &y, t->s->T);
    steps_line(&t->s->table, "final norm", "x", &shown, steps_now() - start,
               "LayerNorm(x), after all layers");
    t->x = y;
    return keep_x(t, kept);
}

static int all_layers(stack_steps *t, const fused_pass *p, mh_tensor *kept)
{
    stack *s = t->s;
    const size_t layers = s->layers ? s->layers : 1;
    mh_tensor shown = stack_by_batch(s, &t->x, s->T);
    steps_line(&s->table, "input", "x", &shown, (double)NAN,
               "B sequences of T tokens, D values each");
    if (s->decoder) {
        const mh_tensor memory =
            mh_tensor_2d(s->memory.data, MH_F32, s->B * s->S, s->config.d_model);
        shown = stack_by_batch(s, &memory, s->S);
        steps_line(&s->table, "input", "memory", &shown, (double)NAN,
                   "the encoder's output: S rows each");
    }
    int code = EXIT_DONE;
    for (t->layer = 0; t->layer < layers && code == EXIT_DONE; t->layer++)
        code = one_layer(t, p, kept);
    return code == EXIT_DONE ? last_norm(t, kept) : code;
}

static int trace_steps(stack_steps *t, const fused_pass *p, mh_tensor *kept)
{
    stack_show_begin(t->s);
    const int code = all_layers(t, p, kept);
    stack_show_steps_end(t->s);
    if (code == EXIT_DONE && t->s->values)
        stack_show_values(t->s);
    return code;
}

// The result of the steps with that of the fused pass.
static int compare_results(stack_steps *t, const fused_pass *p)
{
    const mh_tensor fused =
        mh_tensor_2d(t->s->outputs[OUTPUT_OUT].tensor.data, MH_F32, t->x.shape[0], t->x.shape[1]);
    const bool good = steps_agree(&t->x, &fused, &t->difference);
    stack_show_fused(t->s, p->seconds, t->difference);
    return good ? EXIT_DONE : steps_complain("output", t->difference);
}

// --weights: those of self-attention in the last layer.
static int take_weights(const stack_steps *t, const fused_pass *p)
{
    const stack *s = t->s;
    mh_tensor to = s->outputs[OUTPUT_WEIGHTS].tensor;
    const size_t last = p->count - (s->decoder ? 2 : 1);
    return stack_check(t, mh_tensor_copy(s->context, &p->attentions[last].weights, &to),
                       "--weights");
}

int stack_trace(stack *s)
{
    stack_steps t = {.s = s, .x = mh_tensor_2d(s->x.data, MH_F32, s->B * s->T, s->config.d_model)};
    fused_pass pass = {0};
    mh_tensor kept = {.data = NULL};
    size_t kept_size = 0;
    int code = steps_token(s->token, s->T, stack_is_causal(s), &s->shown_token);
    if (code == EXIT_DONE)
        code = run_fused(s, &pass);
    if (code == EXIT_DONE)
        code = array_allocate(s->context, "--trace", MH_F32, 2, t.x.shape, &kept, &kept_size);
    if (code == EXIT_DONE)
        code = trace_steps(&t, &pass, &kept);
    if (code == EXIT_DONE)
        code = compare_results(&t, &pass);
    if (code == EXIT_DONE && s->outputs[OUTPUT_WEIGHTS].path)
        code = take_weights(&t, &pass);
    stack_release(&t);
    mh_free(s->context, kept.data, kept_size);
    release_fused(s, &pass);
    return code;
}
