# SPDX-License-Identifier: MIT
# The page of web/ becomes a source file of libmultihead-model; embed.cmake does the work.
include(${CMAKE_CURRENT_LIST_DIR}/files.cmake)
set(page_source ${PROJECT_BINARY_DIR}/page_template.c)
set(page_parts page.html embed.cmake files.cmake ${MH_WEB_SCRIPTS} ${MH_WEB_STYLES})
list(TRANSFORM page_parts PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
add_custom_command(OUTPUT ${page_source}
  COMMAND ${CMAKE_COMMAND} -DWEB=${CMAKE_CURRENT_LIST_DIR} -DOUT=${page_source}
          -P ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  DEPENDS ${page_parts}
  COMMENT "Putting the attention page together")
target_sources(multihead_model_objects PRIVATE ${page_source})
