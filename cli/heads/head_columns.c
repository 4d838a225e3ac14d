// SPDX-License-Identifier: MIT
// The columns of the tables; see heads_parts.h.
#include "heads_parts.h"

static const head_column self_columns[] = {
    {MH_PATTERN_PREVIOUS, "prev"},    {MH_PATTERN_NEXT, "next"},
    {MH_PATTERN_ITSELF, "self"},      {MH_PATTERN_FIRST, "1st"},
    {MH_PATTERN_SPECIAL, "spec"},     {MH_PATTERN_OWN_WORD, "word"},
    {MH_PATTERN_SAME_TOKEN, "=tok"},  {MH_PATTERN_SAME_WORD, "=wrd"},
    {MH_PATTERN_PUNCTUATION, "punc"}, {MH_PATTERN_RARE, "rare"},
    {MH_PATTERN_FAR, "far"},          {MH_PATTERN_NONE, NULL}};

static const head_column cross_columns[] = {
    {MH_PATTERN_PREVIOUS, "bef"},     {MH_PATTERN_ITSELF, "algn"},
    {MH_PATTERN_NEXT, "aft"},         {MH_PATTERN_DIAGONAL, "diag"},
    {MH_PATTERN_FIRST, "1st"},        {MH_PATTERN_SPECIAL, "spec"},
    {MH_PATTERN_SAME_TOKEN, "=tok"},  {MH_PATTERN_SAME_WORD, "=wrd"},
    {MH_PATTERN_PUNCTUATION, "punc"}, {MH_PATTERN_RARE, "rare"},
    {MH_PATTERN_FAR, "far"},          {MH_PATTERN_NONE, NULL}};

static const head_column picture_columns[] = {
    {MH_PATTERN_ITSELF, "self"}, {MH_PATTERN_NEIGHBOUR, "near"}, {MH_PATTERN_ROW, "row"},
    {MH_PATTERN_COLUMN, "col"},  {MH_PATTERN_SPECIAL, "spec"},   {MH_PATTERN_FAR, "far"},
    {MH_PATTERN_NONE, NULL}};

const head_column *head_columns(mh_trace_kind kind, bool picture)
{
    return picture ? picture_columns : kind == MH_TRACE_CROSS ? cross_columns : self_columns;
}
