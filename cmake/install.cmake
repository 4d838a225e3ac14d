# SPDX-License-Identifier: MIT
# What `make install` puts where: headers, libraries, the command and its manual, the model, the
# documentation with the examples, and the descriptions by which pkg-config and CMake find the
# library. All of these speak of their prefix relative to themselves, so an installed tree may be
# moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/multihead)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# "${prefix}/lib" for pkg-config, or the path as it is if the packager chose an absolute one.
function(mh_pc_path result path)
  if(NOT IS_ABSOLUTE ${path})
    set(path "\${prefix}/${path}")
  endif()
  set(${result} ${path} PARENT_SCOPE)
endfunction()
mh_pc_path(pc_libdir ${CMAKE_INSTALL_LIBDIR})
mh_pc_path(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /${pkgconfig_dir} /)
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${up}")
endif()

set(pc_files multihead.pc)
set(engines)
set(models)
if(build_shared)
  list(APPEND engines multihead_shared)
  list(APPEND models multihead_model_shared)
endif()
if(build_static)
  list(APPEND engines multihead)
  list(APPEND models multihead_model)
endif()
set_target_properties(multihead_shared PROPERTIES EXPORT_NAME multihead)
set_target_properties(multihead PROPERTIES EXPORT_NAME multihead_static)
set(libraries ${engines})
if(MH_BUILD_MODEL)
  list(APPEND libraries ${models})
  list(APPEND pc_files multihead-model.pc)
  set_target_properties(multihead_model_shared PROPERTIES EXPORT_NAME model)
  set_target_properties(multihead_model PROPERTIES EXPORT_NAME model_static)
endif()

if(TARGET multihead_mpi)
  list(APPEND pc_files multihead-mpi.pc)
  install(TARGETS multihead_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET multihead_mpich) # where the command looks for it
  install(TARGETS multihead_mpich LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/mpich)
endif()

# What the libraries themselves are linked to; without a shared library it is every program's concern.
set(pc_libs "")
set(pc_private_libs "-lm -pthread")
set(pc_requires "")
set(pc_private_requires "jansson libutf8proc zlib")
if(NOT build_shared)
  set(pc_libs " ${pc_private_libs}")
  set(pc_private_libs "")
  set(pc_requires " ${pc_private_requires}")
  set(pc_private_requires "")
endif()

install(TARGETS ${libraries} EXPORT multihead)
install(DIRECTORY include/multihead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The pages name each other, the examples and docs/SHELF/NAME.md as in the source tree.
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING PATTERN "*.c" PATTERN "*.md")
if(MH_BUILD_MODEL)
  install(DIRECTORY models DESTINATION ${CMAKE_INSTALL_DATADIR}/multihead)
endif()
foreach(file ${pc_files})
  configure_file(cmake/${file}.in ${file} @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${file} DESTINATION ${pkgconfig_dir})
endforeach()

configure_package_config_file(cmake/multihead-config.cmake.in multihead-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(multihead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/multihead-config.cmake
              ${PROJECT_BINARY_DIR}/multihead-config-version.cmake DESTINATION ${package_dir})
install(EXPORT multihead NAMESPACE multihead:: FILE multihead-targets.cmake
        DESTINATION ${package_dir})
