// SPDX-License-Identifier: MIT
// usage: peer_parameters KIND D HEADS FROM TO
// Loads a module's parameters from one file and saves them to another. KIND: mha, mha-kv (bias_k
// and bias_v), mha-widths (kdim D + 1, vdim D + 2), or an mh_transformer_kind by number, with 2 + 3
// layers and dim_feedforward 2 D + 1. check_parameters.py calls it.
#include <multihead/model.h>
#include <stdio.h>
#include <stdlib.h>

static mh_status copy(mh_context *context, const mh_parameters *parameters, const char *from,
                      const char *to)
{
    mh_status status = mh_parameters_load(context, parameters, from, NULL);
    return status ? status : mh_parameters_save(context, parameters, to);
}

static mh_status copy_mha(mh_context *context, char **arguments)
{
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = strtoul(arguments[2], NULL, 10);
    config.num_heads = strtoul(arguments[3], NULL, 10);
    config.add_bias_kv = !strcmp(arguments[1], "mha-kv");
    if (!strcmp(arguments[1], "mha-widths")) {
        config.kdim = config.embed_dim + 1;
        config.vdim = config.embed_dim + 2;
    }
    mh_mha *mha;
    mh_status status = mh_mha_create(context, &config, &mha);
    if (!status)
        status = copy(context, mh_mha_parameters(mha), arguments[4], arguments[5]);
    mh_mha_free(mha);
    return status;
}

static mh_status copy_transformer(mh_context *context, char **arguments)
{
    mh_transformer_config config = mh_transformer_config_default();
    config.kind = (mh_transformer_kind)strtoul(arguments[1], NULL, 10);
    config.d_model = strtoul(arguments[2], NULL, 10);
    config.nhead = strtoul(arguments[3], NULL, 10);
    config.num_encoder_layers = 2;
    config.num_decoder_layers = 3;
    config.dim_feedforward = 2 * config.d_model + 1;
    mh_transformer *transformer;
    mh_status status = mh_transformer_create(context, &config, &transformer);
    if (!status)
        status = copy(context, mh_transformer_parameters(transformer), arguments[4], arguments[5]);
    mh_transformer_free(transformer);
    return status;
}

int main(int count, char **arguments)
{
    mh_context *context;
    if (count != 6 || mh_context_create(NULL, &context, NULL, 0))
        return 2;
    const bool mha = !strncmp(arguments[1], "mha", 3);
    const mh_status status = (mha ? copy_mha : copy_transformer)(context, arguments);
    if (status)
        fprintf(stderr, "peer_parameters: %s\n", mh_error_message(context));
    mh_context_free(context);
    return status != MH_OK;
}
