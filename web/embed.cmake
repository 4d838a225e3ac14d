# SPDX-License-Identifier: MIT
# Puts the page together and turns it into a C array:
#
#     cmake -DWEB=<this folder> -DOUT=<page_template.c> -P embed.cmake
#
# Programs and style are inlined into page.html, in the order of the lists below, and the page's
# security policy names their hashes: nothing else may run in it.
cmake_minimum_required(VERSION 3.16)
include(${CMAKE_CURRENT_LIST_DIR}/files.cmake)

# The SHA-256 of a text in base64, which CMake gives in hexadecimal only: 3 digits are 2 letters.
function(sha256_base64 text result)
  string(SHA256 hex "${text}")
  set(alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  set(encoded "")
  foreach(i RANGE 0 63 3)
    if(i EQUAL 63) # the last digit is alone: 4 bits, and 2 of padding
      string(SUBSTRING ${hex} ${i} 1 digit)
      math(EXPR high "0x${digit} << 2")
      string(SUBSTRING ${alphabet} ${high} 1 first)
      string(APPEND encoded "${first}=")
    else()
      string(SUBSTRING ${hex} ${i} 3 digits)
      math(EXPR high "0x${digits} >> 6")
      math(EXPR low "0x${digits} & 63")
      string(SUBSTRING ${alphabet} ${high} 1 first)
      string(SUBSTRING ${alphabet} ${low} 1 second)
      string(APPEND encoded "${first}${second}")
    endif()
  endforeach()
  set(${result} "${encoded}" PARENT_SCOPE)
endfunction()

# CMake's lists and brackets would swallow ";" "[" "]": the texts are only ever quoted arguments.
function(read_all files result)
  set(all "\n")
  foreach(file ${files})
    file(READ ${WEB}/${file} text)
    string(APPEND all "${text}")
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

read_all("${MH_WEB_SCRIPTS}" script)
read_all("${MH_WEB_STYLES}" style)
sha256_base64("${script}" script_hash)
sha256_base64("${style}" style_hash)
file(READ ${WEB}/page.html page)
string(REPLACE "{{script_hash}}" "sha256-${script_hash}" page "${page}")
string(REPLACE "{{style_hash}}" "sha256-${style_hash}" page "${page}")
string(REPLACE "{{style}}" "${style}" page "${page}")
string(REPLACE "{{script}}" "${script}" page "${page}")

file(WRITE ${OUT}.html "${page}")
file(READ ${OUT}.html hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," array "${hex}")
string(REGEX REPLACE "(................................................................................)"
       "\\1\n    " array "${array}")
file(WRITE ${OUT} "// SPDX-License-Identifier: MIT
// Made by web/embed.cmake from web/; change those files instead.
#include \"view/page_template.h\"

const unsigned char mh_page_template[] = {
    ${array}
};
const size_t mh_page_template_size = sizeof mh_page_template;
")
