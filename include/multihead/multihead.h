// SPDX-License-Identifier: MIT
// multihead/multihead.h: the whole library in one include, and a tour of it.
//
//     mh_context *context;                                   // threads, CPU level, memory
//     mh_context_create(NULL, &context, NULL, 0);            //                     base.h
//
//     mh_tensor q = mh_tensor_4d(data, MH_F32, B, H, T, E);  // a view, never a copy
//                                                            //                     tensor.h
//     mh_attention_options options = mh_attention_options_default();
//     options.causal = MH_CAUSAL_BOTTOM_RIGHT;
//     mh_attention_forward(context, &options, &q, &k, &v, &out);  //           attention.h
//
//     mh_attention_backward(context, &options, &q, &k, &v, &out, &dout, &gradients);
//     mh_attention_cached(context, &options, &q, cache, &out);    //           kv_cache.h
//
//     mh_matmul(context, &a, &b, &c);                        // and softmax, limits     ops.h
//     mh_layer_norm(context, &x, &weight, &bias, 1e-5f, &y, NULL, NULL);
//                           // activations, embedding, positions, dropout, loss    layers.h
//     mh_adamw_step(context, NULL, step, n, gradient, parameter, m, v);   //       optimiser.h
//
//     mh_mha_config config = mh_mha_config_default();        // nn.MultiheadAttention, layers,
//     config.embed_dim = 512, config.num_heads = 8;          // the whole Transformer      nn.h
//     mh_mha_create(context, &config, &mha);
//     mh_mha_forward(context, mha, NULL, &query, &key, &value, &output, NULL);
//     mh_context_free(context);
//
// block.h has the general Transformer block, of which BERT, GPT-2 and others are settings.
// sharded.h, which is experimental and not included here, has attention over several processes.
//
// The second library, libmultihead-model, has io.h (tensors in files), text.h (tokenizers and
// scores), image.h (pictures), pretrained.h (published models), generate.h (text generation),
// model.h (loading and saving parameters), translator.h (translation), train.h (training
// translators), view.h (visualising attention) and heads.h (what heads do over many texts). Every
// call that can fail returns an mh_status; mh_error_message(context) has the details.
//
// The headers of libmultihead are stable, those of libmultihead-model experimental; base.h says
// what that means.
#ifndef MULTIHEAD_MULTIHEAD_H
#define MULTIHEAD_MULTIHEAD_H

#include <multihead/attention.h>
#include <multihead/base.h>
#include <multihead/block.h>
#include <multihead/kv_cache.h>
#include <multihead/layers.h>
#include <multihead/nn.h>
#include <multihead/ops.h>
#include <multihead/optimiser.h>
#include <multihead/tensor.h>

#endif
