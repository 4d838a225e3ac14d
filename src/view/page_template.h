// SPDX-License-Identifier: MIT
// The page of web/, assembled and embedded by web/embed.cmake.
#ifndef MH_VIEW_PAGE_TEMPLATE_H
#define MH_VIEW_PAGE_TEMPLATE_H

#include <stddef.h>

extern const unsigned char mh_page_template[];
extern const size_t mh_page_template_size;

#endif
