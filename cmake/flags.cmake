# SPDX-License-Identifier: MIT
# Compiler and linker flags.
#
# Defaults that a packager may want otherwise (optimisation, warnings, hardening) are put in front of
# CMAKE_C_FLAGS and CMAKE_*_LINKER_FLAGS: CFLAGS, LDFLAGS and CMAKE_C_FLAGS_<TYPE> come after them, so
# the user's choice wins. What the results' bits depend on comes last and cannot be overridden.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

set(defaults "")
set(MH_HOT_FLAGS "") # for src/ops/ and src/kernels/<level>/
set(link_defaults "")
# Adds each flag to the defaults that the compiler knows.
function(mh_default_flags)
  foreach(flag ${ARGN})
    string(MAKE_C_IDENTIFIER "MH_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
      list(APPEND defaults ${flag})
    endif()
  endforeach()
  set(defaults ${defaults} PARENT_SCOPE)
endfunction()

# -g1 is what backtraces and profilers need. Full -g doubles the time that the kernels take to compile
# (74 s of CPU time against 36).
# Builds with sanitizers also check the kernels' contracts, which are assertions.
if(CMAKE_BUILD_TYPE STREQUAL Release)
  list(APPEND defaults -O2 -g1)
  if(NOT MH_SANITIZE)
    list(APPEND defaults -DNDEBUG)
  endif()
endif()
list(APPEND defaults -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
                     -Wconversion -Wsign-conversion -Wno-psabi)

# ---- hardening --------------------------------------------------------------------------

# Sanitizers check more than these do, and not all of them go together.
if(NOT MH_SANITIZE)
  mh_default_flags(-fstack-protector-strong -fstack-clash-protection -fcf-protection)
  # Probing each page of a large frame and guarding it takes 3 % of the instructions of a small attention
  # call; without these two in the hot paths, hardening takes 0.2 %.
  foreach(flag stack-protector stack-clash-protection)
    check_c_compiler_flag(-fno-${flag} MH_CAN_DISABLE_${flag})
    if(MH_CAN_DISABLE_${flag})
      list(APPEND MH_HOT_FLAGS -fno-${flag})
    endif()
  endforeach()
  list(APPEND link_defaults -Wl,-z,relro -Wl,-z,now)

  # _FORTIFY_SOURCE needs optimisation; level 3 a recent compiler and libc. Where the compiler or the
  # user's flags define it, theirs stays.
  if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    set(CMAKE_REQUIRED_FLAGS -O2)
    unset(MH_FORTIFY_IS_FREE CACHE) # the flags may have changed
    check_c_source_compiles("#ifdef _FORTIFY_SOURCE\n#error defined\n#endif\nint main(void) { return 0; }"
                            MH_FORTIFY_IS_FREE)
    set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -D_FORTIFY_SOURCE=3")
    check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }" MH_HAS_FORTIFY_3)
    unset(CMAKE_REQUIRED_FLAGS)
    if(MH_FORTIFY_IS_FREE AND MH_HAS_FORTIFY_3)
      list(APPEND defaults -D_FORTIFY_SOURCE=3)
    elseif(MH_FORTIFY_IS_FREE)
      list(APPEND defaults -D_FORTIFY_SOURCE=2)
    endif()
  endif()
endif()

list(JOIN defaults " " defaults)
list(JOIN link_defaults " " link_defaults)
set(CMAKE_C_FLAGS "${defaults} ${CMAKE_C_FLAGS}")
set(CMAKE_EXE_LINKER_FLAGS "${link_defaults} ${CMAKE_EXE_LINKER_FLAGS}")
set(CMAKE_SHARED_LINKER_FLAGS "${link_defaults} ${CMAKE_SHARED_LINKER_FLAGS}")
set(CMAKE_MODULE_LINKER_FLAGS "${link_defaults} ${CMAKE_MODULE_LINKER_FLAGS}")

# ---- what cannot be overridden ------------------------------------------------------------

# Strict IEEE arithmetic: the same source gives the same bits with every compiler.
add_compile_options(-ffp-contract=off -fno-math-errno)
# gcc clears and copies structs with `rep stos` and `rep movs`, which take some 30 cycles to begin:
# an eighth of the time of a small call.
set(copying -mmemset-strategy=unrolled_loop:512:noalign,libcall:-1:noalign
            -mmemcpy-strategy=unrolled_loop:512:noalign,libcall:-1:noalign)
check_c_compiler_flag("${copying}" MH_HAS_COPY_STRATEGY)
if(MH_HAS_COPY_STRATEGY)
  add_compile_options(${copying})
endif()
# Paths in debug information and in __FILE__ are relative, so that builds in two directories are equal.
# Of two maps that fit the last one counts: the build directory is usually within the source directory.
check_c_compiler_flag(-ffile-prefix-map=a=b MH_HAS_FILE_PREFIX_MAP)
if(MH_HAS_FILE_PREFIX_MAP)
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
                      -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
endif()
add_compile_definitions(_GNU_SOURCE)
if(MH_WERROR)
  add_compile_options(-Werror)
endif()
if(MH_SANITIZE)
  add_compile_options(-fsanitize=${MH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MH_SANITIZE})
endif()
