// SPDX-License-Identifier: MIT
// Looking up a model by its name; see model_path.h.
#include "model_path.h"
#include "installed.h"
#include "messages.h"
#include "outputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

// Where lines that say why there is no model go, and what is before its name: "-m ".
typedef struct reasons {
    FILE *to;
    const char *option;
} reasons;

// ---- directories of models ----------------------------------------------------------------------

typedef struct path_list {
    char **paths; // (count), to be freed
    size_t count;
    bool failed; // out of memory
} path_list;

static bool same_directory(const char *a, const char *b)
{
    struct stat sa, sb;
    return strcmp(a, b) == 0 || (stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
                                 sa.st_ino == sb.st_ino);
}

// Appends a path that is not in the list yet; takes it.
static void append_path(path_list *list, char *path)
{
    bool known = false;
    for (size_t i = 0; path && i < list->count; i++)
        known = known || same_directory(list->paths[i], path);
    char **more =
        known || !path ? NULL : realloc(list->paths, (list->count + 1) * sizeof *list->paths);
    list->failed = list->failed || !path || (!known && !more);
    if (!more) {
        free(path);
        return;
    }
    list->paths = more;
    list->paths[list->count++] = path;
}

static void append_environment(path_list *list)
{
    const char *at = getenv("MULTIHEAD_MODELS");
    while (at && *at) {
        const size_t length = strcspn(at, ":");
        if (length > 0)
            append_path(list, strndup(at, length));
        at += length + (at[length] != 0);
    }
}

// A path relative to the parent of the executable's directory.
static void append_beside_executable(path_list *list)
{
    char path[PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || length == sizeof path - 1)
        return;
    path[length] = 0;
    for (int parts = 2; parts > 0; parts--) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = 0;
    }
    append_path(list, join_path(path, "share/multihead/models"));
    append_path(list, join_path(path, "models"));
}

static path_list list_folders(void)
{
    path_list list = {0};
    append_environment(&list);
    append_path(&list, strdup("models"));
    append_beside_executable(&list);
    append_path(&list, strdup(installed_models));
    return list;
}

static void free_list(path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
}

// ---- models in them -----------------------------------------------------------------------------

static bool ends_in(const char *name, const char *ending)
{
    const size_t size = strlen(name), length = strlen(ending);
    return size > length && strcmp(name + size - length, ending) == 0;
}

// A directory with a config.json, a GGUF file or OpenAI's .pt; or a GGUF file.
static bool is_model(const char *path)
{
    char config[PATH_BYTES];
    const int size = snprintf(config, sizeof config, "%s/config.json", path);
    bool found = size > 0 && size < PATH_BYTES && access(config, F_OK) == 0;
    DIR *entries = found ? NULL : opendir(path);
    if (!found && !entries)
        return ends_in(path, ".gguf") && access(path, F_OK) == 0;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));)
        found = ends_in(entry->d_name, ".gguf") || ends_in(entry->d_name, ".pt");
    if (entries)
        closedir(entries);
    return found;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static path_list list_models(const path_list *folders)
{
    path_list models = {0};
    for (size_t i = 0; i < folders->count; i++) {
        const size_t first = models.count;
        DIR *entries = opendir(folders->paths[i]);
        for (struct dirent *entry; entries && (entry = readdir(entries));) {
            char *path = *entry->d_name == '.' ? NULL : join_path(folders->paths[i], entry->d_name);
            if (path && is_model(path))
                append_path(&models, path);
            else
                free(path);
        }
        if (entries)
            closedir(entries);
        if (models.count > first)
            qsort(models.paths + first, models.count - first, sizeof *models.paths, compare_paths);
    }
    return models;
}

// *directory stays NULL if there is none. Returns an exit code after reporting lack of memory.
static int find_by_name(const path_list *folders, const char *name, char **directory)
{
    for (size_t i = 0; i < folders->count && !*directory; i++) {
        char *path = join_path(folders->paths[i], name);
        if (!path)
            return EXIT_MEMORY;
        if (is_model(path))
            *directory = path;
        else
            free(path);
    }
    return EXIT_DONE;
}

// ---- Hugging Face's cache -----------------------------------------------------------------------

// $HF_HOME/hub/models--ORG--NAME/snapshots, or that of its default; false if there is no such path.
static bool snapshots_path(const char *name, char path[PATH_BYTES])
{
    const char *slash = strchr(name, '/'), *home = getenv("HF_HOME"), *user = getenv("HOME");
    if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') || *name == '.')
        return false;
    const bool set = home && *home;
    if (!set && !user)
        return false;
    const int size =
        snprintf(path, PATH_BYTES, "%s%s/hub/models--%.*s--%s/snapshots", set ? home : user,
                 set ? "" : "/.cache/huggingface", (int)(slash - name), name, slash + 1);
    return size > 0 && size < PATH_BYTES;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

// The newest model in `path`, to be freed; NULL if there is none.
static char *newest_snapshot(const char *path)
{
    char *newest = NULL;
    struct timespec time = {0};
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        struct stat status;
        char *snapshot = *entry->d_name == '.' ? NULL : join_path(path, entry->d_name);
        if (snapshot && is_model(snapshot) && stat(snapshot, &status) == 0 &&
            (!newest || is_newer(&status.st_mtim, &time))) {
            free(newest);
            newest = snapshot;
            time = status.st_mtim;
        } else {
            free(snapshot);
        }
    }
    if (entries)
        closedir(entries);
    return newest;
}

static int find_snapshot(const reasons *why, const char *name, char **directory)
{
    char path[PATH_BYTES];
    const bool may_be = snapshots_path(name, path);
    *directory = may_be ? newest_snapshot(path) : NULL;
    if (*directory)
        return EXIT_DONE;
    if (may_be)
        fprintf(why->to, "%s%s: neither a directory nor a model in Hugging Face's cache\n",
                why->option, name);
    else
        fprintf(why->to, "%s%s: cannot be opened: %s\n", why->option, name, strerror(ENOENT));
    return EXIT_INPUT;
}

// ---- errors -------------------------------------------------------------------------------------

// "a, b, c"; free() it.
static char *join_list(const path_list *list)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    for (size_t i = 0; stream && i < list->count; i++)
        fprintf(stream, "%s%s", i ? ", " : "", list->paths[i]);
    if (stream && fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

static int refuse_name(const reasons *why, const path_list *folders, const char *name)
{
    path_list models = list_models(folders);
    char *where = join_list(folders), *there = join_list(&models);
    int code = EXIT_INPUT;
    if (!where || !there || models.failed)
        code = EXIT_MEMORY;
    else if (name)
        fprintf(why->to, "%s%s: neither a directory nor the name of a model in %s\n", why->option,
                name, where);
    else
        fprintf(why->to,
                "-m is missing, and the default model, " DEFAULT_MODEL ", is not in %s; expected "
                "the directory of a model, for example -m models/" DEFAULT_MODEL "\n",
                where);
    if (code == EXIT_INPUT && models.count > 0)
        fprintf(why->to, "models found there: %s\n", there);
    free(where);
    free(there);
    free_list(&models);
    return code;
}

// A file instead of the directory that it is in.
static int refuse_file(const reasons *why, const char *path)
{
    const char *slash = strrchr(path, '/');
    fprintf(why->to, "%s%s: is a file, expected the directory of a model", why->option, path);
    if (slash)
        fprintf(why->to, ": %s%.*s", why->option, slash == path ? 1 : (int)(slash - path), path);
    fputc('\n', why->to);
    return EXIT_INPUT;
}

// A directory of models: whether there are some below it.
static bool refuse_folder(const reasons *why, const char *path)
{
    path_list folder = {.paths = (char *[]){(char *)path}, .count = 1};
    path_list models = list_models(&folder);
    char *there = models.count ? join_list(&models) : NULL;
    if (there)
        fprintf(why->to, "%s%s: is no model; models found there: %s\n", why->option, path, there);
    free(there);
    free_list(&models);
    return there != NULL;
}

// ---- both ---------------------------------------------------------------------------------------

static int find_name(const reasons *why, const char *name, char **directory)
{
    path_list folders = list_folders();
    int code = EXIT_MEMORY;
    if (!folders.failed)
        code = find_by_name(&folders, name ? name : DEFAULT_MODEL, directory);
    if (code == EXIT_DONE && !*directory)
        code = refuse_name(why, &folders, name);
    free_list(&folders);
    return code;
}

static int find_path(const reasons *why, const char *name, char **directory)
{
    struct stat status;
    if (!name)
        return find_name(why, NULL, directory);
    const bool exists = stat(name, &status) == 0;
    if (!exists && !strchr(name, '/'))
        return find_name(why, name, directory);
    if (!exists && errno == ENOENT)
        return find_snapshot(why, name, directory);
    if (!exists) {
        fprintf(why->to, "%s%s: cannot be opened: %s\n", why->option, name, strerror(errno));
        return EXIT_INPUT;
    }
    if (!S_ISDIR(status.st_mode) && !ends_in(name, ".gguf"))
        return refuse_file(why, name);
    if (S_ISDIR(status.st_mode) && !is_model(name) && refuse_folder(why, name))
        return EXIT_INPUT;
    size_t length = strlen(name);
    while (length > 1 && name[length - 1] == '/')
        length--;
    *directory = strndup(name, length);
    return *directory ? EXIT_DONE : EXIT_MEMORY;
}

int model_path_search(const char *name, const char *option, char **directory, char **message)
{
    size_t size;
    *directory = *message = NULL;
    const reasons why = {open_memstream(message, &size), option};
    int code = why.to ? find_path(&why, name, directory) : EXIT_MEMORY;
    if (why.to && fclose(why.to) != 0)
        code = EXIT_MEMORY;
    return code;
}

const char *model_name(const char *directory)
{
    const char *slash = strrchr(directory, '/');
    return slash ? slash + 1 : directory;
}

// ---- for the command ----------------------------------------------------------------------------

static void complain_lines(char *lines)
{
    for (char *end; *lines && (end = strchr(lines, '\n')); lines = end + 1) {
        *end = 0;
        complain("%s", lines);
    }
}

int model_path_find(const char *name, char **directory)
{
    return model_path_find_for("-m ", name, directory);
}

int model_path_find_for(const char *option, const char *name, char **directory)
{
    char *message;
    const int code = model_path_search(name, option, directory, &message);
    if (code == EXIT_MEMORY)
        complain("out of memory");
    else if (code != EXIT_DONE)
        complain_lines(message);
    free(message);
    return code;
}
