// SPDX-License-Identifier: MIT
// Writes the first inputs of the fuzzers, so that no binary files are kept in the repository:
//
//     make_seeds FOLDER       FOLDER/npy/0 ...  FOLDER/safetensors/0 ...  and so on
#include "gguf_support.h"
#include "torch_support.h"

#include <jansson.h>
#include <sys/stat.h>

static void save(const char *directory, const char *kind, size_t number, blob b)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, kind);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%zu", directory, kind, number);
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(b.bytes, 1, b.size, stream) != b.size || fclose(stream) != 0) {
        perror(path);
        exit(1);
    }
    blob_free(&b);
}

// The file's letter, and its content: see fuzz_model_files.c.
static const char *const model_files[] = {
    "tYQ== 0\nYg== 1\nIHRo 2\nYWI= 3\n",
    "t4AA= 300\n",
    "p{\"image_processor_type\": \"CLIPImageProcessor\", \"size\": {\"shortest_edge\": 16}, "
    "\"crop_size\": {\"height\": 16, \"width\": 16}, \"resample\": 3, \"do_normalize\": true, "
    "\"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5], \"rescale_factor\": 0.004}",
    "p{\"size\": 16, \"do_rescale\": false, \"do_center_crop\": true, \"crop_size\": 12}",
    "q{\"image_processor\": {\"image_processor_type\": \"ViTImageProcessor\", \"resample\": 2}}",
    "g{\"eos_token_id\": [2, 3], \"suppress_tokens\": [1], \"begin_suppress_tokens\": [7, 98], "
    "\"alignment_heads\": [[0, 1], [2, 3]], \"bad_words_ids\": [[5], [6, 7]], \"min_length\": 3}",
    "g{\"forced_bos_token_id\": 4, \"forced_eos_token_id\": 2, \"do_sample\": true, "
    "\"temperature\": 0.7, \"num_beams\": 4, \"renormalize_logits\": true}",
};

static const struct {
    int major;
    const char *header;
    size_t data_size;
} npy[] = {
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24},
    {2, "{'descr': '|b1', 'fortran_order': True, 'shape': (3, 2, 1), }\n", 6},
    {3, "{'shape': (), 'descr': '=f8', 'fortran_order': False}\n", 8},
    {1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2L,), }\n", 4},
    {1, "{'descr': '<u8', 'fortran_order': True, 'shape': (0, 7), }\n", 0},
    {1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", 4},
};

static const struct {
    const char *header;
    size_t data_size;
} safetensors[] = {
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24},
    {"{\"__metadata__\":{\"format\":\"pt\"},"
     "\"a\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[1,7]},"
     "\"b\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}} ",
     7},
    {"{\"\\u00e9\":{\"data_offsets\":[0,0],\"shape\":[0,5],\"dtype\":\"BF16\"}}", 0},
    {"{\"\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
     "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]}}",
     8},
    {"{}", 0},
};

// More tokens, a newline, more merges: see fuzz_tokenizer.c.
static const char *const tokenizer[] = {
    "\"th\":259,\"the\":260\n\"t h\",[\"th\",\"e\"]",
    "\"\xC4\xA0t\":259\n\"\xC4\xA0 t\"",
    "\"<2fr>\":259\n",
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}",
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":"
    "\"Replace\","
    "\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" "
    "\"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\","
    "\"replacement\":\"_\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"u\",0],[\"_"
    "t\",-1.5],"
    "[\"he\",-2]]},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"_\"}}",
    "{\"added_tokens\":[{\"id\":4,\"content\":\"</"
    "s>\",\"lstrip\":true,\"special\":true}],\"normalizer\":{"
    "\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"lowercase\":"
    "true},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{\"type\":"
    "\"BertProcessing\",\"sep\":["
    "\"x\",1],\"cls\":[\"y\",2]},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
    "\"vocab\":{\"[UNK]\":0,"
    "\"th\":1,\"##e\":2,\"##en\":3}},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\","
    "\"cleanup\":true}}",
    "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
    "\"individual_digits\":true},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}]},\"model\":{\"type\":\"BPE\",\"vocab\":{"
    "\"t\":0,\"h\":1,"
    "\"th\":2},\"merges\":[\"t "
    "h\"]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}}",
};

static const char *const encode[] = {
    "C'est l'\xC3\xA9t\xC3\xA9 2024, n'est-ce pas ? Oui. </s>",
    "e\xCC\x81\xCC\xA3 \xE1\x84\x80\xE1\x85\xA1 \xF0\x9F\x98\x80\r\n",
    "\xFF\xC3(",
};

// The last one: gzip of "a\tb\n".
static const char corpus_gzip[] = "\x1F\x8B\b\0\0\0\0\0\0\3K\xE4L\xE2\2\0\xCE\x94\x11\x1A\4\0\0\0";
static const char *const corpus[] = {
    "\xEF\xBB\xBFOui.\tYes.\r\nNon.\tNo.\tCC-BY\n",
    "\xC2\xA0 \xC3\xA9t\xC3\xA9 \t summer\n\n\tx\ny\t\nno tab\n\xFF\t\xC0\x80",
};

static const char *const run_log[] = {
    "{\"update\": 1, \"epoch\": 0.1, \"loss\": 5.5}\n{\"update\": 2, \"epoch\": 1, \"valid_loss\": "
    "3, "
    "\"bleu\": 0.5, \"best\": true}\n",
    "{\"update\": 0, \"epoch\": 0, \"loss\": -1e30}\n{\"update\": 9, \"epoch\": 9, \"loss\": "
    "1e30}\n{\"up",
};

static const char *const config[] = {
    "{\"format\": \"multihead translator\", \"version\": 1, \"d_model\": 256, \"nhead\": 4, "
    "\"num_encoder_layers\": 3, \"num_decoder_layers\": 3, \"dim_feedforward\": 1024, "
    "\"max_length\": 256, \"activation\": \"relu\", \"norm_first\": true, \"dropout\": 0.1}",
    "{\"format\": \"multihead translator\", \"version\": 2, \"d_model\": -1}",
};

static const struct {
    const char *header;
    size_t data_size;
} trace[] = {
    {"{\"cross\":{\"dtype\":\"U8\",\"shape\":[1,2,2,2],\"data_offsets\":[0,8]}}", 8},
    {"{\"__metadata__\":{\"trace\":\"1\",\"title\":\"t\",\"source.tokens\":\"[\\\"a\\\","
     "\\\"\\u00e9\\\"]\","
     "\"source.words\":\"[true,false]\"},"
     "\"encoder.self\":{\"dtype\":\"U8\",\"shape\":[1,1,2,2],\"data_offsets\":[0,4]},"
     "\"encoder.self.mask\":{\"dtype\":\"BOOL\",\"shape\":[2,2],\"data_offsets\":[4,8]}}",
     8},
    {"{\"attention\":{\"dtype\":\"U16\",\"shape\":[1,1,1,1],\"data_offsets\":[0,2]},"
     "\"attention.q\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1],\"data_offsets\":[2,4]},"
     "\"attention.k\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1],\"data_offsets\":[4,6]},"
     "\"attention.v\":{\"dtype\":\"BF16\",\"shape\":[1,1,1,1],\"data_offsets\":[6,8]},"
     "\"attention.out\":{\"dtype\":\"F16\",\"shape\":[1,1,2],\"data_offsets\":[8,12]},"
     "\"attention.scale\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[12,14]}}",
     14},
    {"{\"__metadata__\":{\"picture.patches\":\"1,2\"},"
     "\"encoder.self\":{\"dtype\":\"U8\",\"shape\":[1,1,3,3],\"data_offsets\":[0,9]},"
     "\"picture\":{\"dtype\":\"U8\",\"shape\":[1,2,3],\"data_offsets\":[9,15]}}",
     15},
};

// See fuzz_idx.c: two pictures of 2 x 2, and their labels.
static const char idx[] = {(char)182, 3, 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2,
                           9,         8, 7, 6, 5, 4, 3, 2, 0, 0, 8, 1, 0, 0, 0, 2, 0, 1};

// Archives of all the .npy seeds, and each of these alone: see fuzz_npz.c.
static void save_npz(const char *directory)
{
    enum { COUNT = sizeof npy / sizeof *npy };
    static const zip_style styles[] = {ZIP_PLAIN, ZIP_NUMPY, ZIP_64, ZIP_PIPED};
    zip_entry entries[COUNT];
    char names[COUNT][8];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "%c.npy", (char)('a' + i));
        blob content = blob_npy(npy[i].major, npy[i].header, npy[i].data_size);
        entries[i] = (zip_entry){names[i], content, i % 2 == 1};
        save(directory, "npz", i, blob_copy(content.bytes, content.size));
    }
    for (size_t i = 0; i < 4; i++)
        save(directory, "npz", COUNT + i, zip_make(entries, COUNT - 1, styles[i]));
    for (size_t i = 0; i < COUNT; i++)
        blob_free(&entries[i].content);
}
static const char *const http[] = {
    "GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n",
    "POST /translate HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: http://[::1]:80\r\n"
    "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
    "\r\nHEAD /?a=b HTTP/1.0\r\nHost:a\r\nConnection: keep-alive, close\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0",
};

// Pickles, of which fuzz_torch.c makes files, and files of the first of them.
static const struct {
    const char *pickle;
    size_t size;
} torch[] = {
#define PICKLE(text)                                                                               \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
    PICKLE(STATE(TENSOR)),
    PICKLE(STATE("ctorch._utils\n_rebuild_parameter\n" TENSOR "\x88)\x87R")),
    PICKLE(PROTO "ccollections\nOrderedDict\n)Rq\0(X\1\0\0\0a" TENSOR "q\1X\1\0\0\0bh\1u}X\11\0\0\0"
                 "_metadata}sb."),
    PICKLE(PROTO "ccollections\nOrderedDict\n]](U\1w" TENSOR "ea\x85R."),
    PICKLE("\x80\4\x95\0\0\0\0\0\0\0\0}\x94(\x8c\5model}\x94\x8c\1w" TENSOR "s\x8c\4list](" TENSOR
           "NK\1eu."),
    PICKLE(STATE("ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE_OF(
        "ctorch.storage\nUntypedStorage\n", TEXT1("0"),
        "K\x18") "K\0K\2K\3\x86K\3K\1\x86\x89)ctorch\nfloat32\ntR")),
};

static void save_torch(const char *directory)
{
    enum { COUNT = sizeof torch / sizeof *torch };
    const torch_zip_options deflated = {.deflated = true, .byteorder = "little"};
    for (size_t i = 0; i < COUNT; i++)
        save(directory, "torch", i, blob_copy(torch[i].pickle, torch[i].size));
    save(directory, "torch", COUNT,
         torch_zip(torch[0].pickle, torch[0].size, (torch_zip_options){.style = ZIP_64}));
    save(directory, "torch", COUNT + 1, torch_zip(torch[2].pickle, torch[2].size, deflated));
    save(directory, "torch", COUNT + 2,
         torch_legacy(torch[0].pickle, torch[0].size, (torch_legacy_options){0}));
}

// See fuzz_shards.c.
static const char *const shards[] = {
    "{\"weight_map\": {\"w\": \"a.safetensors\", \"\": \"b.npy\"}}",
    "{\"metadata\": {\"total_size\": 9}, \"weight_map\": {\"b\": \"a.safetensors\"}}\n",
    "{\"weight_map\": {\"w\": \"../a.safetensors\", \"b\": \"c.safetensors\"}}",
};

// Samples, and a tensor of one row of every type.
static void save_gguf(const char *directory)
{
    save(directory, "gguf", 0, gguf_sample(2));
    save(directory, "gguf", 1, gguf_sample(3));
    for (uint32_t type = 0; type < 31; type++) {
        blob b = gguf_begin(3, 1, 1);
        gguf_pair_u32(&b, "general.alignment", 8);
        gguf_tensor(&b, "w", 256, 1, type, 0);
        gguf_data(&b, 8, 1024);
        save(directory, "gguf", 2 + type, b);
    }
}

static void save_chat(const char *directory)
{
    json_t *goldens = json_load_file(MH_GOLDENS "/chat_templates.json", 0, NULL);
    const json_t *known = json_object_get(goldens, "known");
    for (size_t i = 0; i < json_array_size(known); i++) {
        const json_t *template = json_object_get(json_array_get(known, i), "template");
        save(directory, "chat", i,
             blob_copy(json_string_value(template), json_string_length(template)));
    }
    json_decref(goldens);
}

static void save_pictures(const char *directory)
{
    static const char *const names[] = {
        "rgb.ppm",         "gray.pgm", "text.ppm",    "five-bits.ppm", "rgb.png",
        "gray.png",        "rgba.png", "palette.png", "bits.png",      "turned.png",
        "progressive.jpg", "cmyk.jpg", "gray.jpg",    "turned-6.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, MH_GOLDENS "/pictures/%s", names[i]);
        save(directory, "image", i, blob_read(path));
    }
}

// Samples of each format of WAV files, and small sounds of others.
static void save_sounds(const char *directory)
{
    static const char *const names[] = {"adpcm.wav", "alaw.wav",  "tones.flac",
                                        "tones.mp3", "tones.ogg", "tones.opus"};
    static const struct {
        uint8_t form, bits;
    } formats[] = {{1, 8}, {1, 16}, {1, 24}, {1, 32}, {3, 32}, {3, 64}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const uint8_t frame = formats[i].bits / 8 * 2;
        const uint8_t wav[] = {'R', 'I', 'F', 'F',  100,   0,   0,
                               0,   'W', 'A', 'V',  'E',   'f', 'm',
                               't', ' ', 16,  0,    0,     0,   formats[i].form,
                               0,   2,   0,   0x40, 0x1f,  0,   0,
                               0,   0,   0,   0,    frame, 0,   formats[i].bits,
                               0,   'd', 'a', 't',  'a',   64,  0,
                               0,   0,   1,   2,    3,     4,   5,
                               6,   7,   8,   9,    10,    11,  12,
                               13,  14,  15,  16,   17,    18,  19,
                               20,  21,  22,  23,   24};
        save(directory, "audio", n++, blob_copy(wav, sizeof wav));
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, MH_GOLDENS "/sounds/%s", names[i]);
        save(directory, "audio", n++, blob_read(path));
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_seeds FOLDER\n");
        return 2;
    }
    mkdir(argv[1], 0777);
    for (size_t i = 0; i < sizeof npy / sizeof *npy; i++)
        save(argv[1], "npy", i, blob_npy(npy[i].major, npy[i].header, npy[i].data_size));
    save_npz(argv[1]);
    save_torch(argv[1]);
    save_gguf(argv[1]);
    save_pictures(argv[1]);
    save_sounds(argv[1]);
    save_chat(argv[1]);
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++)
        save(argv[1], "shards", i, blob_copy(shards[i], strlen(shards[i])));
    for (size_t i = 0; i < sizeof safetensors / sizeof *safetensors; i++)
        save(argv[1], "safetensors", i,
             blob_safetensors(safetensors[i].header, safetensors[i].data_size));
    for (size_t i = 0; i < sizeof model_files / sizeof *model_files; i++)
        save(argv[1], "model_files", i, blob_copy(model_files[i], strlen(model_files[i])));
    save(argv[1], "spm", 0, blob_read(MH_GOLDENS "/tokenizer.spm"));
    for (size_t i = 0; i < sizeof encode / sizeof *encode; i++)
        save(argv[1], "components", i, blob_copy(encode[i], strlen(encode[i])));
    for (size_t i = 0; i < sizeof tokenizer / sizeof *tokenizer; i++)
        save(argv[1], "tokenizer", i, blob_copy(tokenizer[i], strlen(tokenizer[i])));
    for (size_t i = 0; i < sizeof encode / sizeof *encode; i++)
        save(argv[1], "encode", i, blob_copy(encode[i], strlen(encode[i])));
    for (size_t i = 0; i < sizeof config / sizeof *config; i++)
        save(argv[1], "config", i, blob_copy(config[i], strlen(config[i])));
    for (size_t i = 0; i < sizeof trace / sizeof *trace; i++)
        save(argv[1], "trace", i, blob_safetensors(trace[i].header, trace[i].data_size));
    for (size_t i = 0; i < sizeof run_log / sizeof *run_log; i++)
        save(argv[1], "run_log", i, blob_copy(run_log[i], strlen(run_log[i])));
    for (size_t i = 0; i < sizeof corpus / sizeof *corpus; i++)
        save(argv[1], "corpus", i, blob_copy(corpus[i], strlen(corpus[i])));
    save(argv[1], "corpus", sizeof corpus / sizeof *corpus,
         blob_copy(corpus_gzip, sizeof corpus_gzip - 1));
    save(argv[1], "idx", 0, blob_copy(idx, sizeof idx));
    for (size_t i = 0; i < sizeof http / sizeof *http; i++)
        save(argv[1], "http", i, blob_copy(http[i], strlen(http[i])));
    return 0;
}
