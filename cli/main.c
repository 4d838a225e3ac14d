// SPDX-License-Identifier: MIT
// The command's entry; the Python package has its own (python/src/py_command.c).
#include "command.h"

int main(int argc, char **argv) { return run_program(argc, argv); }
