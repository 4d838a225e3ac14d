// SPDX-License-Identifier: MIT
// What the goldens prove: a pretrained model with a wrong scale, head map or embedding scale, or
// without its mask, window, softcap or rotary scaling is far from transformers' results, by what
// the same mistake does to transformers where the goldens have that ("sabotage").
#include "pretrained_golden.h"

// The row of a sequence's first token, after padding on the left.
static size_t first_live(const golden *g, size_t b)
{
    const size_t count = (size_t)(g->input.starts[b + 1] - g->input.starts[b]);
    return (size_t)g->input.starts[b] + (g->begin[b] ? count - g->length[b] : 0);
}

// By how much (RMS over all padded rows, as in the goldens) the results of live rows are off.
static double distance(golden *g, const char **name)
{
    const mh_model_info *info = mh_model_describe(g->model);
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    float *out = calloc(g->rows * (info->vocabulary + g->D), sizeof *out);
    const bool classifies = info->abilities & MH_CAN_CLASSIFY;
    const bool logits = has_expected(g, "out.logits");
    const size_t width = classifies ? info->labels : logits ? info->vocabulary : g->D;
    static char last[32];
    snprintf(last, sizeof last, "out.hidden.%zu", g->layers);
    *name = logits ? "out.logits" : last;
    assert_int_equal(mh_model_hidden(g->context, g->model, &g->input, &hidden), MH_OK);
    mh_tensor y = mh_tensor_2d(out, MH_F32, classifies ? g->B : g->rows, width);
    if (classifies)
        assert_int_equal(mh_model_classify(g->context, g->model, &g->input, &hidden, &y), MH_OK);
    else if (logits)
        assert_int_equal(mh_model_logits(g->context, g->model, &hidden, &y), MH_OK);
    const float *rows = logits ? out : g->hidden;
    const mh_tensor t = expected_tensor(g, *name);
    double sum = 0;
    for (size_t b = 0; b < g->B; b++)
        for (size_t i = 0; i < (classifies ? 1 : g->length[b]); i++)
            for (size_t j = 0; j < width; j++) {
                const size_t ours = classifies ? b : first_live(g, b) + i;
                const size_t theirs = classifies ? b : b * g->T + g->begin[b] + i;
                const double off = (double)rows[ours * width + j] -
                                   (double)((const float *)t.data)[theirs * width + j];
                sum += off * off;
            }
    free(out);
    return sqrt(sum / (double)(width * g->B * (classifies ? 1 : g->T)));
}

// Far from what is expected, and within a hundredth of what `kind` of sabotage does, if not NULL.
static void expect_noticed(golden *g, const char *what, const char *kind)
{
    const char *name, *text;
    char key[48];
    const double moved = distance(g, &name);
    if (!(moved > 100 * tolerance(g, name)))
        fail_msg("%s, %s: moves %s by %.3g, and %.3g is tolerated", g->name, what, name, moved,
                 tolerance(g, name));
    if (!kind)
        return;
    snprintf(key, sizeof key, "sabotage.%s", kind);
    text = mh_tensor_file_metadata(g->expected, key);
    assert_non_null(text);
    const double theirs = strtod(text, NULL);
    if (!(fabs(moved - theirs) <= 0.01 * theirs))
        fail_msg("%s, %s: moves %s by %.4g, transformers' by %.4g", g->name, what, name, moved,
                 theirs);
}

static void expect_change_noticed(const char *name, const char *what, const char *kind,
                                  void (*change)(mh_description *))
{
    golden g = open_changed_golden(name, false, change);
    set_input(&g);
    expect_noticed(&g, what, kind);
    close_golden(&g);
}

// ---- mistakes -----------------------------------------------------------------------------------

static void change_scale(mh_description *d)
{
    const mh_block_config *b = &d->block;
    const size_t E = b->head_dim ? b->head_dim : b->d_model / b->num_heads;
    d->block.scale = 1.25f * (b->scale > 0 ? b->scale : 1 / sqrtf((float)E));
}
static void drop_attention_softcap(mh_description *d) { d->block.softcap = 0; }
static void drop_logits_softcap(mh_description *d) { d->logits_softcap = 0; }
static void widen_window(mh_description *d) { d->window = 40; }
static void narrow_window(mh_description *d) { d->window--; }
static void drop_scaling(mh_description *d) { d->rotary[MH_LAYER_FULL].scaled = false; }
static void drop_all_scaling(mh_description *d)
{
    d->rotary[MH_LAYER_FULL].scaled = d->rotary[MH_LAYER_SLIDING].scaled = false;
}
static void one_base(mh_description *d) { d->rotary[MH_LAYER_FULL].base = 10000; }
static void rotate_all(mh_description *d) { d->rotary[MH_LAYER_FULL].part = 1; }
static void drop_rotation(mh_description *d) { d->block.rope = false; }
static void drop_embedding_scale(mh_description *d) { d->embedding_scale = 1; }
static void drop_plus_one(mh_description *d) { d->norm_plus_one = false; }
static void serialize(mh_description *d) { d->block.parallel = false; }
static void drop_position_offset(mh_description *d) { d->position_offset = 0; }

// ---- tests --------------------------------------------------------------------------------------

static const char *const encoders[] = {
    "bert",
    "bert-mlm",
    "bert-classifier",
    "roberta-mlm",
    "roberta-classifier",
    "xlm-roberta-mlm",
    "distilbert-mlm",
    "distilbert-classifier",
};
static const char *const decoders[] = {
    "gpt2",  "gpt2-untied", "llama",  "llama-scaled", "mistral",      "qwen2",         "qwen2-yarn",
    "qwen3", "gemma2",      "gemma3", "gpt_neox",     "llama-linear", "llama-dynamic",
};
enum {
    ENCODERS = sizeof encoders / sizeof *encoders,
    DECODERS = sizeof decoders / sizeof *decoders,
};

static void scale(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCODERS; i++)
        expect_change_noticed(encoders[i], "scale", "scale", change_scale);
    for (size_t i = 0; i < DECODERS;
         i++) // transformers' sabotage is after the softcap, ours before
        expect_change_noticed(decoders[i], "scale",
                              strcmp(decoders[i], "gemma2") == 0 ? NULL : "scale", change_scale);
}

static void causal_mask(void **state)
{
    (void)state;
    for (size_t i = 0; i < DECODERS; i++) {
        golden g = open_golden(decoders[i], false);
        g.model->description.causal = false; // before loading, it would decide about the head, too
        set_input(&g);
        expect_noticed(&g, "causal mask", NULL);
        close_golden(&g);
    }
}

// Padding is attended to: all sequences have T tokens. Decoders have it on the left, where it moves
// positions, too, and RoBERTa does not count it among positions.
static void expect_padding_noticed(const char *name, const char *kind)
{
    golden g = open_golden(name, false);
    const mh_tensor ids = expected_tensor(&g, "in.input_ids");
    const bool typed = has_expected(&g, "in.token_type_ids");
    const mh_tensor type_ids = expected_tensor(&g, typed ? "in.token_type_ids" : "in.input_ids");
    g.rows = g.B * g.T;
    for (size_t b = 0; b <= g.B; b++)
        g.starts[b] = (int64_t)(b * g.T);
    for (size_t j = 0; j < g.rows; j++) {
        g.ids[j] = (int32_t)((const int64_t *)ids.data)[j];
        g.types[j] = typed ? (int32_t)((const int64_t *)type_ids.data)[j] : 0;
    }
    free(g.hidden);
    g.hidden = calloc(g.rows * g.D, sizeof *g.hidden);
    set_input(&g);
    expect_noticed(&g, "padding", kind);
    close_golden(&g);
}

static void padding(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCODERS; i++)
        expect_padding_noticed(encoders[i], strstr(encoders[i], "roberta") ? NULL : "mask");
    for (size_t i = 0; i < DECODERS; i++)
        expect_padding_noticed(decoders[i], NULL);
}

// Queries of the next head.
static void head_map(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCODERS + DECODERS; i++) {
        golden g = open_golden(i < ENCODERS ? encoders[i] : decoders[i - ENCODERS], true);
        const mh_parameters *p = mh_transformer_parameters(mh_model_transformer(g.model));
        const mh_model_info *info = mh_model_describe(g.model);
        for (size_t j = 0; j < p->count; j++) {
            if (!strstr(p->list[j].name, "in_proj"))
                continue;
            const size_t row = p->list[j].rank == 2 ? p->list[j].shape[1] : 1;
            const size_t head = info->head_dim * row, rest = (info->heads - 1) * head;
            float *q = p->values + p->list[j].offset, first[2048];
            assert_true(head <= 2048);
            memcpy(first, q, head * sizeof *q);
            memmove(q, q + head, rest * sizeof *q);
            memcpy(q + rest, first, head * sizeof *q);
        }
        set_input(&g);
        expect_noticed(&g, "head map", NULL);
        close_golden(&g);
    }
}

static void windows_and_softcaps(void **state)
{
    (void)state;
    static const char *const names[] = {"mistral", "qwen2-yarn", "gemma2", "gemma3"};
    for (size_t i = 0; i < 4; i++) {
        expect_change_noticed(names[i], "window", "window", widen_window);
        expect_change_noticed(names[i], "window of one key less", NULL, narrow_window);
    }
    expect_change_noticed("gemma2", "softcap of scores", "softcap", drop_attention_softcap);
    expect_change_noticed("gemma2", "softcap of logits", NULL, drop_logits_softcap);
}

static void positions(void **state)
{
    (void)state;
    expect_change_noticed("llama-scaled", "llama3", "rope", drop_scaling);
    expect_change_noticed("llama-linear", "linear", "rope", drop_scaling);
    expect_change_noticed("llama-dynamic", "base of dynamic", "rope", one_base);
    expect_change_noticed("qwen2-yarn", "yarn", "rope", drop_all_scaling);
    expect_change_noticed("gemma3", "one base", "rope", one_base);
    expect_change_noticed("gpt_neox", "all of a head rotated", "rope", rotate_all);
    expect_change_noticed("roberta-mlm", "offset of positions", NULL, drop_position_offset);
    for (size_t i = 2; i < DECODERS; i++)
        expect_change_noticed(decoders[i], "no rotation", NULL, drop_rotation);
}

static void other_settings(void **state)
{
    (void)state;
    expect_change_noticed("gemma2", "scale of embeddings", NULL, drop_embedding_scale);
    expect_change_noticed("gemma3", "norms as w", NULL, drop_plus_one);
    expect_change_noticed("gpt_neox", "serial residuals", NULL, serialize);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scale),
        cmocka_unit_test(causal_mask),
        cmocka_unit_test(padding),
        cmocka_unit_test(head_map),
        cmocka_unit_test(windows_and_softcaps),
        cmocka_unit_test(positions),
        cmocka_unit_test(other_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
