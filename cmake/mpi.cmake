# SPDX-License-Identifier: MIT
# libmultihead-mpi, one for each implementation of MPI that is found. The command looks for it when a
# launcher has started it; nothing is linked to it.
#
#     libmultihead-mpi.so         Open MPI, or whatever mpicc stands for
#     mpich/libmultihead-mpi.so   MPICH, if both are here
set(MH_BUILD_MPI AUTO CACHE STRING "libmultihead-mpi (needs MPI): AUTO, ON or OFF")
set_property(CACHE MH_BUILD_MPI PROPERTY STRINGS AUTO ON OFF)

set(mpi_libraries "")
function(mh_mpi_library name folder)
  file(GLOB sources CONFIGURE_DEPENDS src/mpi/*.c)
  add_library(${name} SHARED ${sources})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME multihead-mpi VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
  set(mpi_libraries ${mpi_libraries} ${name} PARENT_SCOPE)
endfunction()

if(NOT MH_BUILD_MPI STREQUAL OFF AND NOT CMAKE_CROSSCOMPILING AND NOT MH_SANITIZE)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(OPENMPI QUIET IMPORTED_TARGET ompi-c)
    pkg_check_modules(MPICH QUIET IMPORTED_TARGET mpich)
  endif()
  if(OPENMPI_FOUND)
    mh_mpi_library(multihead_mpi "" PkgConfig::OPENMPI)
    if(MPICH_FOUND)
      mh_mpi_library(multihead_mpich mpich PkgConfig::MPICH)
    endif()
  elseif(MPICH_FOUND)
    mh_mpi_library(multihead_mpi "" PkgConfig::MPICH)
  else()
    find_package(MPI QUIET COMPONENTS C)
    if(MPI_C_FOUND)
      mh_mpi_library(multihead_mpi "" MPI::MPI_C)
    endif()
  endif()
  if(MH_BUILD_MPI STREQUAL ON AND NOT mpi_libraries)
    message(FATAL_ERROR "MH_BUILD_MPI: no MPI found (Debian: libopenmpi-dev or libmpich-dev)")
  endif()
endif()

# mh_add_mpi_test(NAME TARGET RANKS): runs a program that uses libmultihead-mpi on so many processes,
# also as root and on fewer cores; or is skipped, visibly, if there is no MPI.
find_program(MH_MPIRUN NAMES mpirun.openmpi mpirun mpiexec)
function(mh_add_mpi_test name target ranks)
  if(TARGET ${target} AND MH_MPIRUN)
    add_test(NAME ${name} COMMAND ${MH_MPIRUN} -n ${ranks} $<TARGET_FILE:${target}>)
  else()
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: no MPI (make mpi installs it)")
  endif()
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: no MPI" ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
endfunction()
