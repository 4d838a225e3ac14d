// SPDX-License-Identifier: MIT
// multihead info: features of this build and this machine - version, CPU, instruction-set
// levels, threads, tile sizes, caches, and with --measure the machine's peak rates; or the sizes of
// a well-known model; or what a pretrained model's directory has.
#include "arguments.h"
#include "info/info.h"
#include "messages.h"
#include "report.h"

#include <multihead/multihead.h>
#include <string.h>
#include <unistd.h>

enum { KEY_JSON = 0x100, KEY_MEASURE, KEY_PRESET, KEY_PRESETS };

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "What to show", 1},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {"model", 'm', "MODEL", 0,
     "a pretrained model instead of this machine: its directory or GGUF file, the name of one in "
     "$MULTIHEAD_MODELS, ./models or where models are installed, or ORG/NAME in Hugging Face's "
     "cache",
     0},
    {"preset", KEY_PRESET, "NAME", 0,
     "a well-known model, such as gpt2-small or whisper-tiny, instead of this machine: sizes, "
     "parameters, memory and FLOPs",
     0},
    {"presets", KEY_PRESETS, NULL, 0, "all such models, one line each", 0},
    {"measure", KEY_MEASURE, NULL, 0, "also measure the machine's peak rates, half a second each",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

typedef struct info {
    common_options common;
    bool json, measure, list;
    const model_preset *preset; // NULL: this machine
    const char *model;          // NULL: this machine
    const char *file;           // NULL: this machine
} info;

static error_t info_parse_option(int key, char *argument, struct argp_state *state)
{
    info *i = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &i->common;
        return 0;
    case ARGP_KEY_ARG:
        if (i->file)
            return refuse_argument(state, argument);
        i->file = argument;
        return 0;
    case ARGP_KEY_END:
        if (i->model && (i->preset || i->list))
            argp_error(state, "-m is one model: not with --preset or --presets");
        if (i->measure && (i->preset || i->list || i->model))
            argp_error(state, "--measure is for this machine: not with %s",
                       i->model ? "-m" : "--preset or --presets");
        if (i->file && (i->preset || i->list || i->model || i->measure))
            argp_error(state, "a file is shown by itself: not with -m, --preset, --presets or "
                              "--measure");
        if (i->preset && i->list)
            argp_error(state, "--presets lists all models: not with --preset");
        return 0;
    case KEY_PRESET:
        i->preset = find_preset(state, argument);
        return 0;
    case KEY_PRESETS:
        i->list = true;
        return 0;
    case 'm':
        i->model = argument;
        return 0;
    case KEY_JSON:
        i->json = true;
        return 0;
    case KEY_MEASURE:
        i->measure = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp info_argp = {
    .options = option_table,
    .parser = info_parse_option,
    .children = children,
    .args_doc = "[FILE] [OPTION...]",
    .doc =
        "Shows the version, the CPU's features, the instruction-set levels that are built in "
        "and that this machine supports, the selected one, threads, tile sizes and "
        "caches.\n"
        "\n"
        "With --preset, the sizes of a model and what they amount to. int8 is one byte per "
        "parameter, scales not included. The KV cache is that of all layers; a decoder with an "
        "encoder also keeps keys and values of the source. FLOPs are those of a token on average "
        "over a sequence of full length, 2 per FMA: products are the matrix products, logits "
        "included, attention is scores and weighted values of the keys that a token sees, and "
        "training is three times forward. Poolers and classifiers, which run once per sequence, "
        "are not counted.\n"
        "\n"
        "With -m, a model is loaded, and its family, sizes, tokenizer and labels are shown, what "
        "it can do, and its weights' bytes in the file and in memory.\n"
        "\n"
        "With a FILE (.npy, .npz, .safetensors, a PyTorch checkpoint or .gguf), its metadata and "
        "its tensors: type, shape and name.\v"
        "Examples:\n"
        "  multihead info\n"
        "  multihead info --isa avx2 --measure --json\n"
        "  multihead info --presets\n"
        "  multihead info --preset gpt2-small\n"
        "  multihead info -m all-MiniLM-L6-v2\n"
        "  multihead info model.gguf\n",
};

// The CPU's name as Linux reports it; "" elsewhere.
static void read_cpu_name(char *name, size_t size)
{
    name[0] = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    while (file && !*name && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        char *text = colon + 1 + strspn(colon + 1, " ");
        text[strcspn(text, "\n")] = 0;
        snprintf(name, size, "%s", text);
    }
    if (file)
        fclose(file);
}

static void report_levels(report *r)
{
    char built[256] = "", supported[256] = "";
    for (const char *const *level = mh_isa_levels(); *level; level++) {
        size_t used = strlen(built);
        snprintf(built + used, sizeof built - used, "%s%s", used ? " " : "", *level);
        used = strlen(supported);
        if (mh_isa_supported(*level))
            snprintf(supported + used, sizeof supported - used, "%s%s", used ? " " : "", *level);
    }
    report_words(r, "levels_built", "levels built", built);
    report_words(r, "levels_supported", "levels usable", supported);
}

static void report_caches(report *r)
{
#ifdef _SC_LEVEL1_DCACHE_SIZE
    const struct {
        int name;
        const char *key, *label;
    } caches[] = {
        {_SC_LEVEL1_DCACHE_SIZE, "l1d_bytes", "L1 data cache"},
        {_SC_LEVEL2_CACHE_SIZE, "l2_bytes", "L2 cache"},
        {_SC_LEVEL3_CACHE_SIZE, "l3_bytes", "L3 cache"},
    };
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        long bytes = sysconf(caches[i].name);
        if (bytes <= 0)
            continue;
        if (r->json)
            report_count(r, caches[i].key, "", (uint64_t)bytes, "");
        else
            report_count(r, "", caches[i].label, (uint64_t)bytes / 1024, "KiB");
    }
#else
    (void)r;
#endif
}

// The tiles are the same for all but the shortest sequences, so a small problem shows them.
static int report_tiles(report *r, mh_context *context)
{
    enum { LENGTH = 64 };
    float data[2][LENGTH] = {{0}};
    mh_tensor x = mh_tensor_4d(data[0], MH_F32, 1, 1, LENGTH, 1);
    mh_tensor out = mh_tensor_4d(data[1], MH_F32, 1, 1, LENGTH, 1);
    mh_attention_plan plan = mh_attention_plan_default();
    mh_status status = mh_attention_explain(context, NULL, &x, &x, &x, &out, &plan);
    if (status != MH_OK)
        return complain_status(context, status, NULL);
    report_count(r, "query_rows", "query tile", plan.query_rows, "rows");
    report_count(r, "key_tile", "key tile", plan.key_tile, "keys");
    report_count(r, "key_chunk", "KV split", plan.kv_split, "keys");
    return EXIT_DONE;
}

static int report_limits(report *r, mh_context *context)
{
    const struct {
        size_t footprint;
        const char *key, *label;
    } reads[] = {
        {(size_t)1 << 18, "read_256k_gbps", "read 256 KiB"},
        {(size_t)1 << 27, "read_128m_gbps", "read 128 MiB"},
    };
    mh_limits limits = mh_limits_default();
    mh_status status = mh_measure_limits(context, 0.5, 0, &limits);
    if (status == MH_OK) {
        report_number(r, "fma_gflops", "f32 FMA peak", limits.fma_gflops, 1, "GFLOP/s");
        report_number(r, "bf16_gflops", "bf16 FMA peak", limits.bf16_gflops, 1, "GFLOP/s");
    }
    for (size_t i = 0; i < sizeof reads / sizeof *reads && status == MH_OK; i++) {
        status = mh_measure_limits(context, 0.5, reads[i].footprint, &limits);
        if (status == MH_OK)
            report_number(r, reads[i].key, reads[i].label, limits.read_gbps, 1, "GB/s");
    }
    return status == MH_OK ? EXIT_DONE : complain_status(context, status, NULL);
}

static int info_show(const info *i, mh_context *context)
{
    char cpu[256];
    read_cpu_name(cpu, sizeof cpu);
    report r = report_begin(stdout, i->json, 18);
    report_text(&r, "version", "version", mh_version());
    if (*cpu)
        report_text(&r, "cpu", "CPU", cpu);
    report_words(&r, "features", "CPU features", mh_cpu_features());
    report_levels(&r);
    report_text(&r, "isa", "level chosen", mh_context_isa(context));
    report_count(&r, "threads", "threads", mh_context_threads(context), "");
    int code = report_tiles(&r, context);
    report_caches(&r);
    if (i->measure && code == EXIT_DONE)
        code = report_limits(&r, context);
    report_end(&r);
    return code;
}

static int run_info(int argc, char **argv)
{
    info i = {.common = {.command = &info_command}};
    int code = parse_arguments(&info_argp, argc, argv, &i);
    mh_context *context = NULL;
    if (code == EXIT_DONE && (i.preset || i.list)) {
        if (i.list)
            list_presets(i.json);
        else
            show_preset(i.preset, i.json);
        return EXIT_DONE;
    }
    if (code == EXIT_DONE && i.file)
        return show_file(&i.common, i.file, i.json);
    if (code == EXIT_DONE && i.model)
        return show_model(&i.common, i.model, i.json);
    if (code == EXIT_DONE)
        code = open_context(&i.common, &context);
    if (code == EXIT_DONE)
        code = info_show(&i, context);
    mh_context_free(context);
    return code;
}

const command info_command = {
    .name = "info",
    .summary = "features of this machine or of a model",
    .argp = &info_argp,
    .run = run_info,
};
