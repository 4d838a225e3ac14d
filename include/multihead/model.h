// SPDX-License-Identifier: MIT
// multihead/model.h: load and save a module's parameters.
//
//     mh_parameters_load(context, mh_mha_parameters(attention), "attention.safetensors", NULL);
//     mh_parameters_save(context, mh_mha_parameters(attention), "copy.safetensors");
//
// Files are interchangeable with those of a PyTorch module's state_dict:
//
//     safetensors.torch.save_file(module.state_dict(), "attention.safetensors")
//
// Part of libmultihead-model.
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_MODEL_H
#define MULTIHEAD_MODEL_H

#include <multihead/io.h>
#include <multihead/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mh_parameters_options {
    size_t struct_size; // sizeof(mh_parameters_options)
    const char *prefix; // NULL: ""; prefix of the names in the file: "model.encoder."
    bool strict;        // true; false: parameters missing from the file are left unchanged, and
                        // tensors that are not parameters are ignored
    bool in_out;        // false; true: every matrix in the file is (in, out), as in GPT-2

    // For files that order q, k and v differently: the module's order and number of heads. Not
    // needed for PyTorch's names.
    mh_qkv_order qkv; // MH_QKV_STACKED
    size_t num_heads; // 0: unknown

    bool
        verify; // true: checksums, which files that mh_parameters_save*() wrote have, must be right
} mh_parameters_options;

static inline mh_parameters_options mh_parameters_options_default(void)
{
    mh_parameters_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.strict = true;
    options.verify = true;
    return options;
}

// Reads parameters.values from a .safetensors file; f32, bf16 and f16 become f32. Names are
// PyTorch's, or an attention's may be those of tutorials and other models:
//
//     W_q W_k W_v W_o,  q_linear k_linear v_linear out_linear,  q_proj k_proj v_proj o_proj
//     qkv_layer linear_layer: q, k and v interleaved by head
//
// each with .weight and .bias. With `strict`, the file must contain every parameter, and no other
// tensor with the prefix. options NULL: the defaults. Everything is validated before values are
// written, except checksums, which are verified while the data is read: if one is wrong, the values
// have been overwritten.
// Errors: MH_ERROR_FILE; MH_ERROR_FORMAT, whose message names the tensors that are missing,
// unexpected, of another shape or type, or changed after saving; MH_ERROR_ARGUMENT,
// MH_ERROR_MEMORY. No other thread may use the parameters during the call.
MH_API MH_MUST_CHECK mh_status mh_parameters_load(mh_context *context,
                                                  const mh_parameters *parameters, const char *path,
                                                  const mh_parameters_options *options);

// Writes all parameters as f32 to a .safetensors file, under their own names, with checksums in its
// metadata; the same values give the same bytes. The file is written atomically.
// Errors: MH_ERROR_FILE, MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_parameters_save(mh_context *context,
                                                  const mh_parameters *parameters,
                                                  const char *path);

// A set of parameters of a file, whose names begin with `prefix` there.
typedef struct mh_parameters_part {
    const char *prefix; // "encoder.", at most 256 bytes; NULL: ""
    const mh_parameters *parameters;
} mh_parameters_part;

// The same for several modules, or a checkpoint of one, in one file; each part is loaded by its
// prefix. An optimiser's moments can be parts too, as copies of the parameters with other values:
//
//     mh_parameters m = *parameters, v = *parameters;
//     m.values = moment1, v.values = moment2;
//     const mh_parameters_part parts[] = {{"model.", parameters}, {"m.", &m}, {"v.", &v}};
//     const mh_metadata step = {"step", "1500"};     // mh_tensor_file_metadata() reads it
//     mh_parameters_save_parts(context, parts, 3, &step, 1, "checkpoint.safetensors");
//
// Errors: as above, and MH_ERROR_ARGUMENT for a name that occurs in two parts.
MH_API MH_MUST_CHECK mh_status mh_parameters_save_parts(mh_context *context,
                                                        const mh_parameters_part *parts,
                                                        size_t part_count,
                                                        const mh_metadata *metadata,
                                                        size_t metadata_count, const char *path);

#ifdef __cplusplus
}
#endif
#endif
