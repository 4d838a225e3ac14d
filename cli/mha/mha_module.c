// SPDX-License-Identifier: MIT
// The module of `multihead mha`: its sizes come from a preset, from options, or from the files of a
// model; its parameters from there or from a seed.
#include "layer.h"
#include "messages.h"
#include "progress.h"

#include <multihead/model.h>
#include <stdio.h>
#include <string.h>

static int fill_parameters(mha *m)
{
    const mh_parameters *parameters = mh_mha_parameters(m->module);
    if (!m->model) {
        char text[64];
        snprintf(text, sizeof text, "drawing %zu parameters at random", parameters->floats);
        progress_text(text); // a layer of GPT-3 takes many seconds
        mh_parameters_init(parameters, m->seed);
        progress_clear();
        return EXIT_DONE;
    }
    if (m->whole_model)
        return layer_load(m);
    mh_parameters_options options = mh_parameters_options_default();
    options.prefix = m->prefix;
    options.verify = !m->no_verify;
    options.qkv = m->config.qkv;
    options.num_heads = m->config.num_heads;
    mh_status status = mh_parameters_load(m->context, parameters, m->model_file, &options);
    return status == MH_OK ? EXIT_DONE : complain_status(m->context, status, "--model");
}

int mha_make_module(mha *m)
{
    mh_mha_config *c = &m->config;
    if (m->preset)
        set_preset_sizes(m->preset, c);
    int code = m->model ? mha_find_files(m) : EXIT_DONE;
    if (code == EXIT_DONE && m->model)
        code = m->whole_model ? layer_find(m) : mha_read_sizes(m);
    if (code != EXIT_DONE)
        return code;
    set_size(&c->input_dim, c->embed_dim);
    set_size(&c->kdim, c->input_dim);
    set_size(&c->vdim, c->input_dim);
    set_size(&c->kv_heads, c->num_heads);
    if (!m->whole_model && c->embed_dim % c->num_heads) {
        complain("%s: found %zu, expected a divisor of %zu, the width in --model %s",
                 m->heads_given ? "--heads" : "number of heads in config.json", c->num_heads,
                 c->embed_dim, m->model_file);
        return m->heads_given ? EXIT_USAGE : EXIT_INPUT;
    }
    if (c->alibi && c->add_bias_kv) {
        complain("--alibi does not work with a learned key, which --model %s has (bias_k)",
                 m->model_file);
        return EXIT_USAGE;
    }
    mh_status status = mh_mha_create(m->context, c, &m->module);
    if (status != MH_OK)
        return complain_status(m->context, status, NULL);
    return fill_parameters(m);
}
