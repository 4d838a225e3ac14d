// SPDX-License-Identifier: MIT
// Fuzzes files of a model's directory that are not weights. The first byte chooses one of them,
// whose content is the rest:
//
//     't' words.tiktoken            'p' preprocessor_config.json
//     'g' generation_config.json    'q' processor_config.json
//
// A vocabulary that is accepted encodes a text and decodes what comes out, rules for pictures take
// one, and rules for tokens apply to scores.
#include "fuzz_context.h"
#include "model/picture_rules.h"
#include "model/token_rules.h"

#include <multihead/text.h>
#include <unistd.h>

enum {
    V = 99,
    SIDE = 9,
    MOST_SIDE = 400,           // of a picture that is prepared
    TOKENIZER_MEMORY = 1 << 24 // a rank may be 65536 more than there are lines
};

static char directory[] = "/tmp/mh_fuzz_XXXXXX";
static const char *const names[] = {"words.tiktoken", "preprocessor_config.json",
                                    "processor_config.json"};
enum { FILES = sizeof names / sizeof *names };

static void remove_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    unlink(path);
}

static void remove_directory(void)
{
    for (size_t i = 0; i < FILES; i++)
        remove_file(names[i]);
    rmdir(directory);
}

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
    static bool made;
    char path[128];
    if (!made && mkdtemp(directory) == NULL)
        abort();
    if (!made)
        atexit(remove_directory);
    made = true;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(bytes, 1, size, stream) != size || fclose(stream) != 0)
        abort();
}

static void expect_message(mh_status status)
{
    if ((status != MH_ERROR_FORMAT && status != MH_ERROR_UNSUPPORTED) ||
        mh_error_message(fuzz_context())[0] == '\0')
        abort();
}

// ---- .tiktoken ----------------------------------------------------------------------------------

static void use_tokenizer(const mh_tokenizer *tokenizer)
{
    static const char bytes[] = "the  th\xC3\xA9 12 abab\n<|endoftext|>";
    const mh_text text = {bytes, sizeof bytes - 1};
    mh_context *context = fuzz_context();
    mh_encoding e = {0};
    mh_buffer back = {0};
    mh_status status = mh_tokenizer_encode_text(context, tokenizer, NULL, text, NULL, &e);
    if ((status != MH_OK && status != MH_ERROR_UNSUPPORTED) ||
        mh_tokenizer_decode_text(context, tokenizer, false, e.ids, e.count, &back) != MH_OK ||
        mh_utf8_valid(back.data, back.size) != back.size)
        abort();
    mh_encoding_free(context, &e);
    mh_buffer_free(context, &back);
}

static void read_tiktoken(const uint8_t *bytes, size_t size)
{
    mh_tokenizer *tokenizer = NULL;
    write_file(names[0], bytes, size);
    mh_status status = mh_tokenizer_load_directory(fuzz_context(), directory, &tokenizer);
    if (status == MH_OK)
        use_tokenizer(tokenizer);
    else
        expect_message(status);
    mh_tokenizer_free(tokenizer);
    remove_file(names[0]);
    if (fuzz_memory.peak > fuzz_memory.live + TOKENIZER_MEMORY)
        abort();
}

// ---- preprocessor_config.json -------------------------------------------------------------------

static void prepare_picture(const mh_picture_rules *rules)
{
    static unsigned char pixels[SIDE * (SIDE + 2) * 3];
    const mh_image image = {.width = SIDE, .height = SIDE + 2, .channels = 3, .pixels = pixels};
    mh_context *context = fuzz_context();
    size_t height, width;
    mh_status status = mh_picture_size(context, rules, &image, &height, &width);
    if (status != MH_OK) {
        if (status != MH_ERROR_ARGUMENT)
            abort();
        return;
    }
    const size_t limits[] = {height, width, rules->height, rules->width, rules->shortest};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i] > MOST_SIDE)
            return;
    float *values = calloc(3 * height * width, sizeof *values);
    if (!values || mh_picture_prepare(context, rules, &image, 3, values) != MH_OK)
        abort();
    free(values);
}

static void read_picture_rules(const char *name, const uint8_t *bytes, size_t size)
{
    static const char *const types[] = {"vit", "deit", "dinov2", "clip_vision_model"};
    const mh_vision vision = {.image = 16, .patch = 4, .channels = 3};
    mh_picture_rules rules;
    write_file(name, bytes, size);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        mh_status status =
            mh_picture_rules_load(fuzz_context(), directory, types[i], &vision, &rules);
        if (status == MH_OK)
            prepare_picture(&rules);
        else
            expect_message(status);
    }
    remove_file(name);
}

// ---- generation_config.json ---------------------------------------------------------------------

static void apply_rules(const mh_token_rules *rules)
{
    static const int32_t ids[] = {1, 2, 3, 98, 0};
    float scores[V] = {0};
    const mh_rule_state state = {
        .ids = ids, .count = sizeof ids / sizeof *ids, .prompt = 2, .most = 6};
    mh_token_rules_apply(rules, &state, scores, V);
    for (int32_t id = 0; id < V; id++)
        if (isnan(scores[id]) || (mh_token_rules_ends(rules, id) && id >= V))
            abort();
}

static void read_token_rules(const uint8_t *bytes, size_t size)
{
    mh_token_rules rules = mh_token_rules_none();
    mh_context *context = fuzz_context();
    const mh_allocator allocator = mh_context_allocator(context);
    mh_status status = mh_token_rules_parse(context, "fuzz", (const char *)bytes, size, V, &rules);
    if (status == MH_OK)
        apply_rules(&rules);
    else
        expect_message(status);
    mh_token_rules_free(&allocator, &rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    const size_t before = fuzz_memory.live;
    (void)context;
    fuzz_memory.peak = before;
    if (size > 0 && bytes[0] == 't')
        read_tiktoken(bytes + 1, size - 1);
    else if (size > 0 && (bytes[0] == 'p' || bytes[0] == 'q'))
        read_picture_rules(names[bytes[0] == 'p' ? 1 : 2], bytes + 1, size - 1);
    else if (size > 0 && bytes[0] == 'g')
        read_token_rules(bytes + 1, size - 1);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
