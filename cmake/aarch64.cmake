# SPDX-License-Identifier: MIT
# Builds for 64-bit ARM on another machine and lets ctest run the result in an emulator:
#     cmake -B build-neon -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DMH_BUILD_MODEL=OFF
# The tests need cmocka for that machine, below PKG_CONFIG_SYSROOT_DIR; tools/check_neon.sh gets it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu $ENV{PKG_CONFIG_SYSROOT_DIR})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
