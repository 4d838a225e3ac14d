# SPDX-License-Identifier: MIT
# libmultihead-media decodes PNG and JPEG, and FLAC, OGG, MP3 and other sound, with the libraries of others, so that
# the rest does not need them: pictures, sound or both, as far as the development files are there.
# It is loaded when the first such file is read (src/support/media_library.c): from beside the program or
# libmultihead-model, whose RUNPATH says so, or from where the system has its libraries.
if(NOT MH_BUILD_MEDIA STREQUAL OFF)
  pkg_check_modules(PNG QUIET IMPORTED_TARGET libpng)
  pkg_check_modules(JPEG QUIET IMPORTED_TARGET libjpeg)
  pkg_check_modules(SNDFILE QUIET IMPORTED_TARGET sndfile)
  set(pictures OFF)
  if(PNG_FOUND AND JPEG_FOUND)
    set(pictures ON)
  endif()
  if(MH_BUILD_MEDIA STREQUAL ON AND NOT (pictures AND SNDFILE_FOUND))
    message(FATAL_ERROR "libmultihead-media needs libpng, libjpeg and libsndfile "
      "(Debian: libpng-dev, libjpeg62-turbo-dev, libsndfile1-dev)")
  endif()
  if(pictures OR SNDFILE_FOUND)
    add_library(multihead_media MODULE src/media/media.c)
    set_target_properties(multihead_media PROPERTIES
      PREFIX lib OUTPUT_NAME multihead-media SUFFIX .so.${PROJECT_VERSION_MAJOR}
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    target_include_directories(multihead_media PRIVATE src)
    if(pictures)
      target_sources(multihead_media PRIVATE src/media/media_png.c src/media/media_jpeg.c)
      target_compile_definitions(multihead_media PRIVATE MH_MEDIA_PICTURES)
      target_link_libraries(multihead_media PRIVATE PkgConfig::PNG PkgConfig::JPEG)
    endif()
    if(SNDFILE_FOUND)
      target_sources(multihead_media PRIVATE src/media/media_sndfile.c)
      target_compile_definitions(multihead_media PRIVATE MH_MEDIA_SOUNDS)
      target_link_libraries(multihead_media PRIVATE PkgConfig::SNDFILE)
    endif()
    if(NOT MH_SANITIZE)
      target_link_options(multihead_media PRIVATE -Wl,--no-undefined)
    endif()
    if(MH_INSTALL)
      install(TARGETS multihead_media LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
  endif()
endif()

# Where programs of the build directory look for it, and libmultihead-model, both there and installed.
set(CMAKE_BUILD_RPATH "$ORIGIN/..;$ORIGIN/../..")
set_target_properties(multihead_model_shared PROPERTIES INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
