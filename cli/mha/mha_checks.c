// SPDX-License-Identifier: MIT
// Which options of `multihead mha` go together.
#include "mha.h"

// A layer of a whole model has the model's settings.
static void check_layer(struct argp_state *state, const mha *m)
{
    const mh_mha_config *c = &m->config;
    if (m->stack && !m->whole_model)
        argp_error(state, "--stack is for --layer, which is missing");
    if (!m->whole_model)
        return;
    if (!m->model)
        argp_error(state, "--layer is for --model, which is missing");
    if (m->prefix || m->no_verify)
        argp_error(state, "--layer cannot be combined with --prefix or --no-verify");
    if (c->embed_dim || c->kv_heads || c->input_dim || c->kdim || c->vdim || c->rope || c->alibi ||
        c->qkv != MH_QKV_STACKED)
        argp_error(state, "--layer takes sizes and positions from the model: of the options for "
                          "these only --heads can be given");
}

static void check_module(struct argp_state *state, const mha *m)
{
    const mh_mha_config *c = &m->config;
    if (m->prefix && !m->model)
        argp_error(state, "--prefix is for --model, which is missing");
    if (m->no_verify && !m->model)
        argp_error(state, "--no-verify is for --model, which is missing");
    check_layer(state, m);
    if (m->preset && (m->model || c->embed_dim || c->num_heads))
        argp_error(
            state,
            "--preset sets all sizes and cannot be combined with --model, --embed-dim or --heads");
    if (!m->preset && !m->model && !c->embed_dim)
        argp_error(state, "--embed-dim is missing (or --preset, or --model)");
    if (!m->preset && !m->model && !c->num_heads)
        argp_error(state, "--heads is missing: it cannot be inferred from widths");
    if (c->embed_dim && c->num_heads && c->embed_dim % c->num_heads)
        argp_error(state, "--heads: found %zu, expected a divisor of --embed-dim %zu", c->num_heads,
                   c->embed_dim);
    if (m->preset && c->kv_heads)
        argp_error(state, "--preset sets all sizes and cannot be combined with --kv-heads");
    if (c->kv_heads && m->heads_given && c->num_heads % c->kv_heads)
        argp_error(state, "--kv-heads: found %zu, expected a divisor of --heads %zu", c->kv_heads,
                   c->num_heads);
    if (m->rope_base && !c->rope)
        argp_error(state, "--rope-base is for --rope, which is missing");
}

static void mha_check_given_inputs(struct argp_state *state, mha *m)
{
    const array *in = m->inputs;
    if (m->random[0] && (in[INPUT_QUERY].spec || in[INPUT_KEY].spec || in[INPUT_VALUE].spec))
        argp_error(state, "--random replaces --query, --key and --value");
    if (!in[INPUT_QUERY].spec && (in[INPUT_KEY].spec || in[INPUT_VALUE].spec))
        argp_error(state, "--query is missing");
    if (!in[INPUT_QUERY].spec && !m->random[0]) {
        if (!m->preset)
            argp_error(state, "--query FILE or --random BxT is missing");
        m->random[0] = 1;
        m->random[1] = 128;
    }
    if (m->seeded && m->model && !m->random[0])
        argp_error(state, "--seed is for random parameters or inputs; both come from files");
}

static void mha_check_outputs(struct argp_state *state, mha *m)
{
    m->shapes = !m->trace && !outputs_wanted(m->outputs, 0, OUTPUT_COUNT);
    if (m->per_head && !m->outputs[OUTPUT_WEIGHTS].path && !m->shapes)
        argp_error(state, "--per-head is for --weights, which is missing");
    if ((m->values || m->json || m->no_times) && !m->trace)
        argp_error(state, "--values, --no-times and --json are for --trace, which is missing");
    if (m->token >= 0 && !m->values)
        argp_error(state, "--token is for --values, which is missing");
    outputs_check_npy(state, m->outputs, OUTPUT_COUNT);
    outputs_check(state, m->outputs, OUTPUT_COUNT, m->trace ? "--trace" : NULL);
}

void mha_check_options(struct argp_state *state, mha *m)
{
    if (m->list_presets)
        return;
    check_module(state, m);
    mha_check_given_inputs(state, m);
    mha_check_outputs(state, m);
}
