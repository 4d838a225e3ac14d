// SPDX-License-Identifier: MIT
// The directory of the model that -m names.
//
// A path that exists is used as is. A plain name is looked up in the directories of models:
//
//     $MULTIHEAD_MODELS             a colon-separated list
//     models                        of the working directory
//     ../share/multihead/models     from the executable: an installation, wherever it was moved
//     ../models                     from the executable: a build directory
//     PREFIX/share/multihead/models as configured
//
// ORG/NAME is also looked up in Hugging Face's cache, $HF_HOME/hub or ~/.cache/huggingface/hub: the
// newest snapshot that has a config.json. Nothing is downloaded.
#ifndef CLI_MODEL_PATH_H
#define CLI_MODEL_PATH_H

#define DEFAULT_MODEL "fr-en" // without -m: the model that ships

// The directory of the model `name`, NULL for the default, in *directory, to be freed; no slash
// ends it. Returns an exit code after reporting where it was searched and which models there are.
int model_path_find(const char *name, char **directory);

// The same for another option than -m: "--init ".
int model_path_find_for(const char *option, const char *name, char **directory);

// The same without printing: *message has what would be reported, a line each, and is to be freed;
// `option`, such as "-m ", comes before the name in it.
int model_path_search(const char *name, const char *option, char **directory, char **message);

// What the model of such a directory is called: the last component of the path.
const char *model_name(const char *directory);

#endif
