// SPDX-License-Identifier: MIT
// Where `make install` puts what the command looks for. CMake writes both names into one small
// source file, so that another PREFIX compiles only that one again.
#ifndef CLI_INSTALLED_H
#define CLI_INSTALLED_H

extern const char installed_models[];    // a directory per model
extern const char installed_libraries[]; // libmultihead-mpi

#endif
