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
