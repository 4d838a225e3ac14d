// SPDX-License-Identifier: MIT
// Pretrained encoder-decoders, token by token: incremental decoding is bitwise the full forward
// pass, and its greedy tokens are those of transformers. And the goldens prove something: a wrong
// scale, wrong heads, dropped masks and a dropped relative bias move logits by as much as they do
// in transformers, far more than the tolerance.
#include "encdec_golden.h"

// ---- incremental decoding -----------------------------------------------------------------------

// The encoder's output, padded to (B, S, D).
static float *padded_memory(encdec *e, int64_t lengths[8])
{
    golden *s = &e->source;
    const size_t S = longest_of(s);
    float *memory = calloc(s->B * S * s->D, sizeof *memory);
    mh_model_input input = input_of(e);
    input.target_starts = NULL;
    run_hidden(s, &input);
    for (size_t b = 0; b < s->B; b++) {
        lengths[b] = (int64_t)s->length[b];
        memcpy(memory + b * S * s->D, s->hidden + (size_t)s->starts[b] * s->D,
               s->length[b] * s->D * sizeof *memory);
    }
    return memory;
}

static mh_decoding *start_decoding(encdec *e)
{
    golden *s = &e->source;
    int64_t lengths[8];
    mh_decoding *decoding;
    float *memory = padded_memory(e, lengths);
    const mh_tensor t = mh_tensor_3d(memory, MH_F32, s->B, longest_of(s), s->D);
    if (mh_decoding_create(s->context, mh_model_transformer(s->model), &t, lengths, 1, &decoding))
        fail_msg("%s: %s", s->name, mh_error_message(s->context));
    free(memory);
    return decoding;
}

// Hidden states (B, count, D) of ids (B, count) at positions from `first` on.
static void step(const golden *g, mh_decoding *decoding, size_t first, size_t count,
                 const int32_t *ids, float *hidden)
{
    int64_t positions[MOST_ROWS];
    mh_tensor x = mh_tensor_2d(hidden, MH_F32, g->B * count, g->D);
    mh_tensor tokens = mh_tensor_3d(hidden, MH_F32, g->B, count, g->D);
    for (size_t i = 0; i < g->B * count; i++)
        positions[i] = (int64_t)(first + i % count);
    assert_int_equal(mh_model_embed_targets(g->context, g->model, ids, positions, &x), MH_OK);
    if (mh_decoding_step(g->context, decoding, NULL, 0, &tokens, &tokens))
        fail_msg("%s: %s", g->name, mh_error_message(g->context));
}

// Steps over all targets, `segment` tokens first and then one by one; shorter targets go on with
// token 0.
static void expect_same_bits(encdec *e, size_t segment)
{
    golden *t = &e->target;
    const size_t T = longest_of(t), D = t->D;
    mh_decoding *decoding = start_decoding(e);
    float *hidden = calloc(t->B * T * D, sizeof *hidden);
    int32_t ids[MOST_ROWS];
    for (size_t first = 0, count; first < T; first += count) {
        count = first ? 1 : segment;
        for (size_t b = 0; b < t->B; b++)
            for (size_t i = 0; i < count; i++)
                ids[b * count + i] =
                    first + i < t->length[b] ? t->ids[(size_t)t->starts[b] + first + i] : 0;
        step(t, decoding, first, count, ids, hidden);
        for (size_t b = 0; b < t->B; b++)
            for (size_t i = 0; i < count && first + i < t->length[b]; i++)
                assert_memory_equal(hidden + (b * count + i) * D,
                                    t->hidden + ((size_t)t->starts[b] + first + i) * D,
                                    D * sizeof *hidden);
    }
    free(hidden);
    mh_decoding_free(decoding);
}

static size_t likeliest(const float *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static void expect_greedy(encdec *e)
{
    golden *t = &e->target;
    const mh_tensor expected = expected_tensor(t, "greedy.ids");
    const size_t V = mh_model_describe(t->model)->target_vocabulary, N = expected.shape[1];
    mh_decoding *decoding = start_decoding(e);
    float *hidden = calloc(t->B * (t->D + V), sizeof *hidden);
    mh_tensor rows = mh_tensor_2d(hidden, MH_F32, t->B, t->D);
    mh_tensor logits = mh_tensor_2d(hidden + t->B * t->D, MH_F32, t->B, V);
    int32_t ids[8];
    for (size_t b = 0; b < t->B; b++)
        ids[b] = (int32_t)t->model->description.decoder_start;
    for (size_t i = 0; i < N; i++) {
        step(t, decoding, i, 1, ids, hidden);
        assert_int_equal(mh_model_logits(t->context, t->model, &rows, &logits), MH_OK);
        for (size_t b = 0; b < t->B; b++) {
            ids[b] = (int32_t)likeliest((float *)logits.data + b * V, V);
            assert_int_equal(ids[b], ((const int64_t *)expected.data)[b * N + i]);
        }
    }
    free(hidden);
    mh_decoding_free(decoding);
}

// ---- what must be noticed -----------------------------------------------------------------------

// By how much (RMS) logits of packed rows differ from the golden's, padding counted as equal.
static double moved_by(const golden *t, const float *logits)
{
    const size_t V = mh_model_describe(t->model)->target_vocabulary;
    const mh_tensor expected = expected_tensor(t, "out.logits");
    double sum = 0;
    for (size_t b = 0; b < t->B; b++)
        for (size_t i = 0; i < t->length[b] * V; i++) {
            const double d = (double)logits[(size_t)t->starts[b] * V + i] -
                             (double)((const float *)expected.data)[b * t->T * V + i];
            sum += d * d;
        }
    return sqrt(sum / (double)(t->B * t->T * V));
}

static double moved(encdec *e)
{
    const mh_model_input input = input_of(e);
    run_hidden(&e->target, &input);
    float *logits = logits_of(&e->target);
    const double by = moved_by(&e->target, logits);
    free(logits);
    return by;
}

// Scales the scores by `scale`, or gives each head the scores of the head before it: rows of q and
// k, and columns of the relative bias.
static void change_scores(const golden *g, float scale, bool roll)
{
    const mh_parameters *parameters = mh_transformer_parameters(mh_model_transformer(g->model));
    const size_t H = g->H, E = mh_model_describe(g->model)->head_dim;
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_parameter *p = &parameters->list[i];
        float *values = parameters->values + p->offset;
        const size_t width = p->rank == 2 ? p->shape[1] : 1;
        float *old = malloc(p->count * sizeof *old);
        memcpy(old, values, p->count * sizeof *old);
        if (strstr(p->name, "in_proj"))
            for (size_t j = 0; j < 2 * H * E * width; j++) {
                const size_t part = H * E * width, head = E * width;
                const size_t from = j / part * part + (j % part + part - head) % part;
                values[j] = roll ? old[from] : old[j] * (j < part ? scale : 1);
            }
        if (strstr(p->name, "relative_bias"))
            for (size_t j = 0; j < p->count; j++)
                values[j] = roll ? old[j / H * H + (j % H + H - 1) % H] : old[j] * scale;
        free(old);
    }
}

// The golden has by how much transformers' logits move when the same is wrong there.
static void expect_moved(const golden *g, const char *what, double by)
{
    char key[40];
    snprintf(key, sizeof key, "sabotage.%s", what);
    const char *text = mh_tensor_file_metadata(g->expected, key);
    assert_non_null(text);
    const double expected = atof(text);
    if (!(fabs(by - expected) < 2e-3 * expected))
        fail_msg("%s: a wrong %s moves logits by %g, expected %g", g->name, what, by, expected);
    if (!(by > 1000 * tolerance(g, "out.logits")))
        fail_msg("%s: a wrong %s moves logits by %g only", g->name, what, by);
}

static void notice_scores(const char *name, const char *what)
{
    encdec e = open_encdec(name, true);
    change_scores(&e.target, 1.25f, strcmp(what, "heads") == 0);
    expect_moved(&e.target, what, moved(&e));
    close_encdec(&e);
}

// All tokens, padding too.
static void take_padding(golden *g, const char *ids)
{
    const mh_tensor t = expected_tensor(g, ids);
    for (size_t b = 0; b < g->B; b++)
        g->starts[b + 1] = (int64_t)((b + 1) * g->T);
    g->rows = g->B * g->T;
    for (size_t i = 0; i < g->rows; i++)
        g->ids[i] = (int32_t)((const int64_t *)t.data)[i];
    free(g->hidden);
    g->hidden = calloc(g->rows * g->D, sizeof *g->hidden);
}

static void notice_padding(const char *name)
{
    encdec e = open_encdec(name, false);
    take_padding(&e.source, "in.input_ids");
    expect_moved(&e.target, "padding", moved(&e));
    close_encdec(&e);
}

// Targets that see all others, and padding.
static void notice_causal_mask(const char *name)
{
    encdec e = open_encdec(name, false);
    golden *s = &e.source, *t = &e.target;
    take_padding(t, "in.decoder_input_ids");
    const mh_model_input input = input_of(&e);
    mh_transformer_options o = mh_model_block_options(t->model, &input);
    o.tgt_causal = false;
    const mh_model_tokens sources = mh_model_source_tokens(&input);
    const mh_model_tokens targets = mh_model_target_tokens(t->model, &input);
    float *memory = calloc(2 * (s->rows + t->rows) * s->D, sizeof *memory);
    float *rest = memory + 2 * s->rows * s->D;
    int32_t indices[2 * MOST_ROWS];
    mh_tensor x = mh_tensor_2d(memory, MH_F32, s->rows, s->D);
    mh_tensor y = mh_tensor_2d(rest, MH_F32, t->rows, t->D);
    mh_tensor hidden = mh_tensor_2d(t->hidden, MH_F32, t->rows, t->D);
    assert_int_equal(
        mh_model_embed_tokens(s->context, s->model, &sources, memory + s->rows * s->D, indices, &x),
        MH_OK);
    assert_int_equal(
        mh_model_embed_tokens(t->context, t->model, &targets, rest + t->rows * t->D, indices, &y),
        MH_OK);
    assert_int_equal(
        mh_transformer_forward(t->context, mh_model_transformer(t->model), &o, &x, &y, &hidden),
        MH_OK);
    float *logits = logits_of(t);
    expect_moved(t, "mask", moved_by(t, logits));
    free(logits);
    free(memory);
    close_encdec(&e);
}

static void notice_relative_bias(const char *name)
{
    static const char *const tables[] = {"encoder.relative_bias.weight",
                                         "decoder.relative_bias.weight"};
    for (size_t i = 0; i < 2; i++) {
        encdec e = open_encdec(name, true);
        const mh_parameters *all = mh_transformer_parameters(mh_model_transformer(e.target.model));
        const mh_parameter *p = mh_parameters_find(all, tables[i]);
        assert_non_null(p);
        memset(all->values + p->offset, 0, p->count * sizeof(float));
        assert_true(moved(&e) > 1000 * tolerance(&e.target, "out.logits"));
        close_encdec(&e);
    }
}

// ---- tests --------------------------------------------------------------------------------------

static void steps_equal_forward(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCDEC_MODELS; i++) {
        encdec e = open_encdec(encdec_models[i], false);
        const mh_model_input input = input_of(&e);
        run_hidden(&e.target, &input);
        expect_same_bits(&e, 1);
        expect_same_bits(&e, 3);
        expect_greedy(&e);
        close_encdec(&e);
    }
}

static void errors_are_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCDEC_MODELS; i++) {
        notice_scores(encdec_models[i], "scale");
        notice_scores(encdec_models[i], "heads");
        notice_padding(encdec_models[i]);
        notice_causal_mask(encdec_models[i]);
    }
    notice_relative_bias("t5");
    notice_relative_bias("t5-gated");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_equal_forward),
        cmocka_unit_test(errors_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
