// SPDX-License-Identifier: MIT
// Outputs of a command; see outputs.h.
#include "outputs.h"
#include "messages.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *output_path(const char *argument)
{
    return strcmp(argument, "-") ? argument : STDOUT_PATH;
}

bool outputs_wanted(const output *outputs, int from, int count)
{
    for (int i = from; i < count; i++)
        if (outputs[i].path)
            return true;
    return false;
}

// Resolves symbolic links in the last component of a path: the file that is written, which need not
// exist yet.
static void output_follow_links(const char *path, char target[PATH_MAX])
{
    enum { MOST_LINKS = 40 };
    char link[PATH_MAX];
    snprintf(target, PATH_MAX, "%s", path);
    for (int i = 0; i < MOST_LINKS; i++) {
        const ssize_t length = readlink(target, link, sizeof link - 1);
        if (length < 0)
            return;
        link[length] = 0;
        char *slash = strrchr(target, '/');
        char *end = link[0] == '/' || !slash ? target : slash + 1;
        if (end - target + length >= PATH_MAX)
            return;
        memcpy(end, link, (size_t)length + 1);
    }
}

// Whether two paths lead to the same file, however they are written.
static bool same_file(const char *path_a, const char *path_b)
{
    struct stat sa, sb;
    char a[PATH_MAX], b[PATH_MAX];
    output_follow_links(path_a, a);
    output_follow_links(path_b, b);
    if (strcmp(a, b) == 0)
        return true;
    if (stat(a, &sa) == 0 && stat(b, &sb) == 0)
        return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
    char *directory_a = strndup(name_a ? a : ".", name_a ? (size_t)(name_a - a) + 1 : 1);
    char *directory_b = strndup(name_b ? b : ".", name_b ? (size_t)(name_b - b) + 1 : 1);
    bool same = directory_a && directory_b && stat(directory_a, &sa) == 0 &&
                stat(directory_b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino &&
                strcmp(name_a ? name_a + 1 : a, name_b ? name_b + 1 : b) == 0;
    free(directory_a);
    free(directory_b);
    return same;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

// Whether the extension is that of another format than .npy.
static bool is_other_format(const char *path)
{
    static const char *const endings[] = {".safetensors", ".csv",    ".tsv",  ".txt", ".npz",
                                          ".pt",          ".pth",    ".pkl",  ".bin", ".json",
                                          ".h5",          ".pickle", ".gguf", ".mat", NULL};
    for (const char *const *ending = endings; *ending; ending++)
        if (ends_with(path, *ending))
            return true;
    return false;
}

void outputs_check_npy(struct argp_state *state, const output *outputs, int count)
{
    for (int i = 0; i < count; i++)
        if (outputs[i].path && is_other_format(outputs[i].path))
            argp_error(state, "%s: found '%s', expected a .npy file", outputs[i].option,
                       outputs[i].path);
}

void outputs_check(struct argp_state *state, const output *outputs, int count, const char *talker)
{
    for (int i = 0; i < count; i++) {
        const char *path = outputs[i].path;
        if (path && !*path)
            argp_error(state, "%s: found '', expected the name of a file", outputs[i].option);
        if (path && talker && strcmp(path, STDOUT_PATH) == 0)
            argp_error(state, "%s and %s - cannot share standard output", talker,
                       outputs[i].option);
        for (int j = 0; path && j < i; j++)
            if (outputs[j].path && same_file(path, outputs[j].path))
                argp_error(state, "%s and %s name the same file '%s'", outputs[j].option,
                           outputs[i].option, path);
    }
}

// A file is written beside its place and renamed, what is no regular file in place.
static int check_writable(const char *path)
{
    struct stat status;
    char directory[4096];
    const bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return EISDIR;
    if (exists && !S_ISREG(status.st_mode))
        return access(path, W_OK) == 0 ? 0 : errno;
    if (snprintf(directory, sizeof directory, "%s", path) >= (int)sizeof directory)
        return ENAMETOOLONG;
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = 0;
    return access(slash ? directory : ".", W_OK | X_OK) == 0 ? 0 : errno;
}

int outputs_writable(const output *outputs, int count)
{
    for (int i = 0; i < count; i++) {
        const int error = outputs[i].path ? check_writable(outputs[i].path) : 0;
        if (error) {
            complain("%s: cannot be written: %s", outputs[i].path, strerror(error));
            return EXIT_FAILED;
        }
    }
    return EXIT_DONE;
}

static void say_written(const output *outputs, int failed)
{
    char list[1024] = "";
    for (int i = 0; i < failed; i++) {
        size_t used = strlen(list);
        if (outputs[i].path)
            snprintf(list + used, sizeof list - used, " %s %s", outputs[i].option, outputs[i].path);
    }
    if (*list)
        complain("only these outputs are complete:%s", list);
}

int outputs_save(mh_context *context, const output *outputs, const mh_tensor *tensors, int count)
{
    int code = EXIT_DONE;
    begin_saving();
    for (int i = 0; i < count && code == EXIT_DONE; i++) {
        if (!outputs[i].path)
            continue;
        mh_status status = mh_npy_write(context, outputs[i].path, &tensors[i]);
        if (status == MH_OK)
            continue;
        code = complain_output(context, status, outputs[i].option);
        say_written(outputs, i);
    }
    end_saving();
    return code;
}

void outputs_free(mh_context *context, output *outputs, int count)
{
    for (int i = 0; i < count; i++) {
        mh_free(context, outputs[i].tensor.data, outputs[i].size);
        outputs[i].tensor.data = NULL;
    }
}

char *join_path(const char *directory, const char *name)
{
    const size_t length = strlen(directory), size = length + strlen(name) + 2;
    const char *slash = length && directory[length - 1] == '/' ? "" : "/";
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s%s%s", directory, slash, name);
    else
        complain("out of memory");
    return path;
}
