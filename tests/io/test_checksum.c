// SPDX-License-Identifier: MIT
// Checksums of models and checkpoints: a bit that is flipped anywhere in the file is noticed, files
// without checksums are read as before, and whoever wants to reads a changed model as it is.
#include "io/checksum.h"
#include "io/xxh64.h"
#include "support.h"
#include "train_support.h"

#include <multihead/model.h>
#include <multihead/nn.h>

static mh_context *context;
static train_place place;
static char path[96];

static int set_up(void **state)
{
    (void)state;
    context = test_context(NULL, 1);
    const bool made = train_place_create(&place);
    snprintf(path, sizeof path, "%s/model.safetensors", place.root);
    return made ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    train_place_remove(&place);
    mh_context_free(context);
    return 0;
}

// ---- the hash -----------------------------------------------------------------------------------

// Values of the reference implementation, and pieces that give what the whole gives.
static void test_hash(void **state)
{
    (void)state;
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 131 + i / 7);
    assert_int_equal(mh_xxh64_of(0, "", 0), UINT64_C(0xEF46DB3751D8E999));
    assert_int_equal(mh_xxh64_of(0, "a", 1), UINT64_C(0xD24EC4F1A98C6E5B));
    assert_int_equal(mh_xxh64_of(0, "abc", 3), UINT64_C(0x44BC2CF5AD770999));
    const char text[] = "Nobody inspects the spammish repetition"; // longer than a stripe
    assert_int_equal(mh_xxh64_of(0, text, sizeof text - 1), UINT64_C(0xFBCEA83C8A378BF1));
    for (size_t size = 0; size < sizeof bytes; size += 37) {
        mh_xxh64 hash = mh_xxh64_begin(5);
        const size_t half = size / 2 - size / 2 % MH_XXH64_STRIPE;
        mh_xxh64_add(&hash, bytes, half);
        assert_int_equal(mh_xxh64_end(&hash, bytes + half, size - half),
                         mh_xxh64_of(5, bytes, size));
    }
}

// ---- flipped bits -------------------------------------------------------------------------------

// In place: some file systems sync a file that is cut off first.
static void write_blob(const char *to, const blob *b)
{
    FILE *file = fopen(to, "r+b");
    assert_non_null(file);
    assert_int_equal(fwrite(b->bytes, 1, b->size, file), b->size);
    assert_int_equal(fclose(file), 0);
}

static void flip(blob *b, size_t bit) { b->bytes[bit / 8] ^= (unsigned char)(1 << bit % 8); }

static size_t data_start(const blob *b)
{
    return 8 + (size_t)(b->bytes[0] | b->bytes[1] << 8 | b->bytes[2] << 16);
}

// Data is refused by its checksum; a header may break a rule of the format before.
static void expect_noticed(mh_status status, bool data, size_t bit)
{
    const char *message = mh_error_message(context);
    if (status != MH_ERROR_FORMAT || (data && !strstr(message, "was changed after saving")))
        fail_msg("bit %zu: status %d: %s", bit, (int)status, message);
}

static mh_mha *make_module(void)
{
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = 12;
    config.num_heads = 3;
    mh_mha *module;
    test_ok(context, mh_mha_create(context, &config, &module));
    mh_parameters_init(mh_mha_parameters(module), 7);
    return module;
}

// Every bit of the header, or as many as the environment says, and 200 of the data.
static void test_flipped_model(void **state)
{
    (void)state;
    mh_mha *module = make_module();
    const mh_parameters *parameters = mh_mha_parameters(module);
    mh_parameters_options as_it_is = mh_parameters_options_default();
    as_it_is.verify = false;
    test_ok(context, mh_parameters_save(context, parameters, path));
    test_ok(context, mh_parameters_load(context, parameters, path, NULL));
    blob b = blob_read(path);
    const size_t header = 8 * data_start(&b), data = 8 * b.size - header;
    test_rng rng = {test_seed()};
    const size_t in_header = test_cases(header), all = in_header + test_cases(200);
    for (size_t i = 0; i < all; i++) {
        const size_t bit =
            i < in_header ? i * header / in_header : header + test_random(&rng) % data;
        flip(&b, bit);
        write_blob(path, &b);
        expect_noticed(mh_parameters_load(context, parameters, path, NULL), i >= in_header, bit);
        if (i >= in_header) {
            assert_non_null(strstr(mh_error_message(context), "--no-verify"));
            test_ok(context, mh_parameters_load(context, parameters, path, &as_it_is));
        }
        flip(&b, bit);
    }
    write_blob(path, &b);
    test_ok(context, mh_parameters_load(context, parameters, path, NULL));
    blob_free(&b);
    mh_mha_free(module);
}

// 200 places of a checkpoint; what is left of the run is as it was.
static void test_flipped_checkpoint(void **state)
{
    (void)state;
    char directory[96], checkpoint[128];
    snprintf(directory, sizeof directory, "%s/run", place.root);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint.safetensors", directory);
    mh_train_options o = train_place_options(&place, directory);
    mh_train_result result = mh_train_result_default();
    o.valid = NULL;
    o.after.count = 3;
    test_ok(context, mh_train(context, &o, &result));
    blob b = blob_read(checkpoint);
    const size_t header = 8 * data_start(&b);
    test_rng rng = {test_seed()};
    o.after.count = 4;
    for (size_t i = 0; i < test_cases(200); i++) {
        const size_t bit = test_random(&rng) % (i % 2 ? 8 * b.size : header);
        flip(&b, bit);
        write_blob(checkpoint, &b);
        expect_noticed(mh_train(context, &o, &result), bit >= header, bit);
        flip(&b, bit);
    }
    write_blob(checkpoint, &b);
    test_ok(context, mh_train(context, &o, &result));
    assert_true(result.resumed);
    blob_free(&b);
}

// Snapshots, too: their mean is the model.
static void test_flipped_snapshot(void **state)
{
    (void)state;
    char directory[96], snapshot[128];
    snprintf(directory, sizeof directory, "%s/run", place.root);
    snprintf(snapshot, sizeof snapshot, "%s/snapshot-0.safetensors", directory);
    mh_train_options o = train_place_options(&place, directory);
    mh_train_result result = mh_train_result_default();
    o.after.count = 3;
    test_ok(context, mh_train(context, &o, &result));
    blob b = blob_read(snapshot);
    flip(&b, 8 * b.size - 3);
    write_blob(snapshot, &b);
    o.after.count = 6;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FORMAT,
                 "snapshot-0.safetensors: was changed after saving: the data of tensor");
    blob_free(&b);
}

// ---- other files --------------------------------------------------------------------------------

// Of other programs, of earlier versions, or written by mh_safetensors_write().
static void test_without_checksums(void **state)
{
    (void)state;
    mh_mha *module = make_module();
    const mh_parameters *parameters = mh_mha_parameters(module);
    mh_named_tensor tensors[4];
    for (size_t i = 0; i < 4; i++)
        tensors[i] = (mh_named_tensor){parameters->list[i].name,
                                       mh_parameter_view(&parameters->list[i], parameters->values)};
    assert_int_equal(parameters->count, 4);
    test_ok(context, mh_safetensors_write(context, path, tensors, 4, NULL, 0));
    test_ok(context, mh_parameters_load(context, parameters, path, NULL));
    mh_mha_free(module);
}

// Tensors of many pieces and of none, of another type, and transposed on the way.
static void test_shapes(void **state)
{
    (void)state;
    enum { ROWS = 300, COLUMNS = 77 };
    static uint16_t values[ROWS * COLUMNS];
    static float copy[COLUMNS * ROWS];
    test_rng rng = {test_seed()};
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (uint16_t)(test_random(&rng) & 0x3FFF);
    const size_t shape[] = {ROWS, COLUMNS}, none[] = {0};
    const mh_named_tensor tensors[] = {
        {"bytes", mh_tensor_1d(values, MH_U8, 33)},
        {"none", mh_tensor_view(NULL, MH_F32, 1, none)},
        {"values", mh_tensor_view(values, MH_BF16, 2, shape)},
    };
    test_ok(context, mh_safetensors_write_checked(context, path, tensors, 3, NULL, 0));
    for (int change = 0; change < 2; change++) {
        mh_tensor_file *file;
        mh_tensor from;
        size_t index;
        test_ok(context, mh_tensor_file_open(context, path, &file));
        const mh_source source = {.context = context, .name = path};
        const mh_verified v = {&source, file, "advice"};
        const mh_status expected = change ? MH_ERROR_FORMAT : MH_OK;
        test_ok(context, mh_verify_header(&v));
        assert_true(mh_tensor_file_index(file, "values", &index));
        assert_true(mh_tensor_file_at(file, index, &from));
        mh_tensor to = mh_tensor_view(copy, MH_F32, 2, shape);
        assert_int_equal(mh_verify_copy(&v, index, &from, &to), expected);
        const mh_tensor transposed = mh_tensor_swap(from, 0, 1);
        to = mh_tensor_view(copy, MH_F32, 2, transposed.shape);
        assert_int_equal(mh_verify_copy(&v, index, &transposed, &to), expected);
        assert_true(mh_tensor_file_index(file, "none", &index));
        assert_true(mh_tensor_file_at(file, index, &from));
        to = mh_tensor_view(copy, MH_F32, 1, none);
        test_ok(context, mh_verify_copy(&v, index, &from, &to));
        mh_tensor_file_free(file);
        blob b = blob_read(path);
        flip(&b, 8 * (data_start(&b) + ROWS * COLUMNS));
        write_blob(path, &b);
        blob_free(&b);
    }
}

// Nobody else writes a checksum, whatever it is called.
static void test_reserved(void **state)
{
    (void)state;
    const mh_metadata reserved[] = {{MH_CHECKSUM_KEY, "x"}, {"x", MH_CHECKSUM_MARK "0"}};
    for (size_t i = 0; i < 2; i++)
        test_refused(context, mh_safetensors_write(context, path, NULL, 0, &reserved[i], 1),
                     MH_ERROR_ARGUMENT, "which the writer computes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test_setup_teardown(test_flipped_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flipped_checkpoint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flipped_snapshot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_checksums, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reserved, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
