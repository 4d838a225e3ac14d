// SPDX-License-Identifier: MIT
// One object of every kind that the public API makes with a context, and the files that some of
// them are read from: for tests that have to cover all kinds (lifetimes, stack use, NULL).
#ifndef MH_TESTS_API_OBJECTS_H
#define MH_TESTS_API_OBJECTS_H

#include "support.h"

#include <multihead/io.h>
#include <multihead/model.h>
#include <multihead/text.h>
#include <multihead/train.h>
#include <multihead/translator.h>
#include <multihead/view.h>

enum { API_WIDTH = 16, API_HEADS = 2, API_TOKENS = 3 }; // of the modules, and of what they read

typedef struct api_objects {
    mh_context *context; // they were made with; borrowed
    char folder[64];     // holds x.npy, x.safetensors, tokenizer.json, trace.safetensors, model/
    mh_packed_matrix *packed;         // (API_WIDTH, API_WIDTH)
    mh_kv_cache *cache;               // 1 sequence, API_TOKENS tokens
    mh_tape *tape;                    // of a forward of `transformer`
    mh_mha *mha;                      // API_WIDTH, API_HEADS
    mh_transformer *transformer;      // encoder and decoder of one layer
    mh_transformer *language_model;   // an encoder alone
    mh_decoding *decoding;            // of `transformer`, after a step
    mh_decoding *causal_decoding;     // of `language_model`
    mh_tensor_file *npy;              // x.npy, mapped
    mh_tensor_file *safetensors;      // x.safetensors, parsed at an odd address: tensors are copied
    mh_tokenizer *tokenizer;          // trained
    mh_tokenizer *loaded_tokenizer;   // from tokenizer.json
    mh_translator *translator;        // created
    mh_translator *loaded_translator; // from model/
    mh_translations *translations;    // of `translator`
    mh_translation_trace *trace;      // the same
    mh_trace_file *trace_file;        // trace.safetensors
} api_objects;

// How one kind is made and freed. Some need objects further up in the list to be made.
typedef struct api_object_kind {
    const char *name;
    void (*make)(mh_context *context, api_objects *objects);
    void (*free)(api_objects *objects);
} api_object_kind;

extern const api_object_kind api_object_kinds[];
extern const size_t api_object_kind_count;

// A new temporary directory with the files in it; the caller frees it with api_files_free().
void api_files_make(mh_context *context, api_objects *objects);
void api_files_free(api_objects *objects);

// All kinds, in the order of the list.
void api_objects_make(mh_context *context, api_objects *objects);
void api_objects_free(api_objects *objects);

// "folder/name" in a buffer that the next call overwrites.
const char *api_path(const api_objects *objects, const char *name);

#endif
