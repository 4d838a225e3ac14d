# SPDX-License-Identifier: MIT
# libmultihead-media decodes PNG and JPEG with the libraries of others, so that the rest does not need them.
# It is loaded when the first such file is read (src/support/media_library.c): from beside the program or
# libmultihead-model, whose RUNPATH says so, or from where the system has its libraries.
if(NOT MH_BUILD_MEDIA STREQUAL OFF)
  pkg_check_modules(PNG QUIET IMPORTED_TARGET libpng)
  pkg_check_modules(JPEG QUIET IMPORTED_TARGET libjpeg)
  if(PNG_FOUND AND JPEG_FOUND)
    file(GLOB sources CONFIGURE_DEPENDS src/media/*.c)
    add_library(multihead_media MODULE ${sources})
    set_target_properties(multihead_media PROPERTIES
      PREFIX lib OUTPUT_NAME multihead-media SUFFIX .so.${PROJECT_VERSION_MAJOR}
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    target_include_directories(multihead_media PRIVATE src)
    target_link_libraries(multihead_media PRIVATE PkgConfig::PNG PkgConfig::JPEG)
    if(NOT MH_SANITIZE)
      target_link_options(multihead_media PRIVATE -Wl,--no-undefined)
    endif()
    if(MH_INSTALL)
      install(TARGETS multihead_media LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
  elseif(MH_BUILD_MEDIA STREQUAL ON)
    message(FATAL_ERROR "libmultihead-media needs libpng and libjpeg (Debian: libpng-dev, libjpeg62-turbo-dev)")
  endif()
endif()

# Where programs of the build directory look for it, and libmultihead-model, both there and installed.
set(CMAKE_BUILD_RPATH "$ORIGIN/..;$ORIGIN/../..")
set_target_properties(multihead_model_shared PROPERTIES INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
