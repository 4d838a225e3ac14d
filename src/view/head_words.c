// SPDX-License-Identifier: MIT
// Words and tokens of a trace; see head_words.h. A word is a run of letters, digits and marks, the
// same in a text and in its tokens put together again:
//
//     tokens     [CLS]  The  cat  run  ##s  away  .  [SEP]       word starts are known
//     text              The cat runs away.                       put together
//     position     -     0    1    2    2    3    -    -
#include "view/head_words.h"

#include "view/token_text.h"

#include <string.h>
#include <utf8proc.h>

enum { TEXT_MOST = INT32_MAX };

void mh_head_words_free(mh_context *context, mh_head_words *w)
{
    mh_word_table_free(context, &w->table);
    mh_buffer_free(context, &w->scratch);
}

// ---- words of a text ----------------------------------------------------------------------------

// The character at text[at]: its length, and its code, -1 for a byte that is not UTF-8.
static size_t head_character(const char *text, size_t size, size_t at, utf8proc_int32_t *code)
{
    const utf8proc_ssize_t length =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(size - at), code);
    if (length > 0)
        return (size_t)length;
    *code = -1;
    return 1;
}

// Letters, marks and numbers; what is not UTF-8 may be a piece of one.
static bool is_of_word(utf8proc_int32_t code)
{
    if (code < 0)
        return true;
    const utf8proc_category_t c = utf8proc_category(code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NO;
}

// The next word from *end on, as bytes *begin to *end; false if there is none.
static bool next_word(const char *text, size_t size, size_t *begin, size_t *end)
{
    utf8proc_int32_t code;
    for (*begin = *end; *begin < size; *begin = *end) {
        *end = *begin + head_character(text, size, *begin, &code);
        if (!is_of_word(code))
            continue;
        for (size_t next; *end < size; *end = next) {
            next = *end + head_character(text, size, *end, &code);
            if (!is_of_word(code))
                break;
        }
        return true;
    }
    return false;
}

// A word in lower case, in the scratch.
static bool fold_word(mh_context *context, mh_buffer *scratch, const char *text, size_t size)
{
    scratch->size = 0;
    for (size_t at = 0, length; at < size; at += length) {
        utf8proc_uint8_t folded[4];
        utf8proc_int32_t code;
        length = head_character(text, size, at, &code);
        const size_t count =
            code < 0 ? 0 : (size_t)utf8proc_encode_char(utf8proc_tolower(code), folded);
        if (!mh_buffer_append(context, scratch, count ? (const char *)folded : text + at,
                              count ? count : length))
            return false;
    }
    return true;
}

mh_status mh_head_words_count(mh_context *context, mh_head_words *w, mh_text text)
{
    if (text.size >= TEXT_MOST)
        return mh_fail(context, MH_ERROR_ARGUMENT, "text: found %zu bytes, expected less than %d",
                       text.size, TEXT_MOST);
    for (size_t begin, end = 0, index; next_word(text.bytes, text.size, &begin, &end);) {
        if (!fold_word(context, &w->scratch, text.bytes + begin, end - begin))
            return MH_ERROR_MEMORY;
        mh_status status =
            mh_word_table_index(context, &w->table, w->scratch.data, w->scratch.size, &index);
        if (status)
            return status;
        w->table.words[index].count++;
    }
    return MH_OK;
}

uint64_t mh_head_words_rare(const mh_head_words *words)
{
    const mh_word_table *table = &words->table;
    uint64_t total = 0, used = 0, rare = 0;
    for (size_t i = 0; i < table->count; i++)
        total += table->words[i].count;
    if (total == 0)
        return 0;
    // Selection by rising count; words of equal counts are rare together or not at all.
    for (uint64_t count = 0; used <= total / 4;) {
        uint64_t next = UINT64_MAX, sum = 0;
        for (size_t i = 0; i < table->count; i++) {
            const uint64_t c = table->words[i].count;
            if (c > count && c < next) {
                next = c;
                sum = 0;
            }
            sum += c == next ? c : 0;
        }
        if (next == UINT64_MAX || (rare > 0 && used + sum > total / 4))
            break;
        rare = count = next;
        used += sum;
    }
    return rare;
}

// ---- tokens -------------------------------------------------------------------------------------

static const char inner_mark[] = "##"; // WordPiece's

static bool is_inner(const char *token)
{
    return strncmp(token, inner_mark, sizeof inner_mark - 1) == 0 && token[2];
}

// Whether tokens that begin a word have a mark. Else all do but WordPiece's inner ones.
static bool has_marks(const mh_trace_tokens *tokens)
{
    for (size_t i = 0; i < tokens->count; i++)
        if (mh_token_mark(tokens->text[i]) > 0)
            return true;
    return false;
}

// "[CLS]", "</s>", "<|endoftext|>", but not "[]" or "<".
static bool is_special_name(const char *token)
{
    const size_t size = strlen(token);
    return size > 2 && ((token[0] == '[' && token[size - 1] == ']') ||
                        (token[0] == '<' && token[size - 1] == '>'));
}

// "3,12": a patch.
static bool read_patch(const char *token, mh_head_token *found)
{
    enum { MOST_DIGITS = 6 };
    const size_t row = strspn(token, "0123456789");
    if (row == 0 || row > MOST_DIGITS || token[row] != ',')
        return false;
    const size_t column = strspn(token + row + 1, "0123456789");
    if (column == 0 || column > MOST_DIGITS || token[row + 1 + column])
        return false;
    for (size_t i = 0; i < row; i++)
        found->row = (i ? found->row * 10 : 0) + (token[i] - '0');
    for (size_t i = 0; i < column; i++)
        found->column = (i ? found->column * 10 : 0) + (token[row + 1 + i] - '0');
    return true;
}

// What the search for words needs.
typedef struct token_search {
    mh_context *context;
    mh_head_words *counted; // of the file
    mh_head_words *names;   // of both lists: words and tokens have numbers of their own
    uint64_t rare;
    mh_appender text; // the tokens put together
} token_search;

// Appends the tokens' text; token i ends at ends[i].
static bool join_tokens(token_search *s, const mh_trace_tokens *tokens, mh_head_token *found,
                        size_t *ends)
{
    const bool marked = has_marks(tokens);
    for (size_t i = 0; i < tokens->count; i++) {
        const char *name = tokens->text[i];
        const size_t mark = mh_token_mark(name);
        const bool inner = !tokens->word_start && is_inner(name);
        const bool starts = tokens->word_start ? tokens->word_start[i] : marked ? mark > 0 : !inner;
        found[i].special = is_special_name(name);
        if (starts || found[i].special || (i > 0 && found[i - 1].special))
            mh_append(&s->text, " ", 1);
        const size_t begin = s->text.buffer.size;
        if (!found[i].special)
            mh_append_string(&s->text, name + (inner ? sizeof inner_mark - 1 : mark));
        found[i].punctuation = s->text.buffer.size > begin; // unless it is of a word
        ends[i] = s->text.buffer.size;
    }
    return !s->text.failed;
}

// Numbers a word, and gives it to the tokens that have a part of it.
static mh_status number_word(token_search *s, const char *text, size_t begin, size_t end,
                             int32_t position, size_t count, const size_t *ends, size_t *at,
                             mh_head_token *found)
{
    size_t index;
    mh_buffer *scratch = &s->names->scratch;
    if (!fold_word(s->context, scratch, text + begin, end - begin))
        return MH_ERROR_MEMORY;
    mh_status status =
        mh_word_table_index(s->context, &s->names->table, scratch->data, scratch->size, &index);
    if (status)
        return status;
    const bool rare = s->rare > 0 && mh_word_table_occurrences(&s->counted->table, scratch->data,
                                                               scratch->size) <= s->rare;
    while (*at < count && ends[*at] <= begin)
        ++*at;
    for (size_t i = *at; i < count && (i == 0 ? 0 : ends[i - 1]) < end; i++)
        if (found[i].position < 0 && !found[i].special) {
            found[i].position = position;
            found[i].word = (int32_t)index;
            found[i].rare = rare;
        }
    return MH_OK;
}

// Tokens are equal if their text is, with the same mark.
static mh_status name_token(token_search *s, const char *name, mh_head_token *found)
{
    size_t index = 0;
    mh_status status =
        mh_word_table_index(s->context, &s->names->table, name, strlen(name), &index);
    found->name = (int32_t)index;
    return status;
}

static mh_status find_words(token_search *s, const mh_trace_tokens *tokens, mh_head_token *found,
                            size_t *ends)
{
    mh_status status = MH_OK;
    s->text.buffer.size = 0;
    for (size_t i = 0; i < tokens->count && !status; i++) {
        found[i] = (mh_head_token){.position = -1, .word = -1, .row = -1, .column = -1};
        status = name_token(s, tokens->text[i], &found[i]);
    }
    if (status)
        return status;
    if (!join_tokens(s, tokens, found, ends))
        return MH_ERROR_MEMORY;
    const char *text = s->text.buffer.data;
    const size_t size = s->text.buffer.size;
    size_t at = 0;
    int32_t position = 0;
    for (size_t begin, end = 0; !status && next_word(text, size, &begin, &end);)
        status = number_word(s, text, begin, end, position++, tokens->count, ends, &at, found);
    for (size_t i = 0; i < tokens->count; i++)
        found[i].punctuation = found[i].punctuation && found[i].position < 0;
    return status;
}

static bool find_patches(const mh_trace_tokens *tokens, mh_head_token *found)
{
    size_t patches = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        if (!found[i].special && !read_patch(tokens->text[i], &found[i]))
            return false;
        patches += !found[i].special;
    }
    return patches > 0;
}

mh_status mh_head_tokens_find(mh_context *context, mh_head_words *words, uint64_t rare,
                              const mh_trace_tokens *keys, const mh_trace_tokens *queries,
                              mh_head_token *found, bool *picture)
{
    const size_t most = keys->count > queries->count ? keys->count : queries->count;
    mh_head_words names = {0};
    token_search s = {context, words, &names, rare, {.context = context}};
    size_t *ends = mh_alloc(context, (most + 1) * sizeof *ends);
    mh_status status = ends ? find_words(&s, keys, found, ends) : MH_ERROR_MEMORY;
    if (!status)
        status = find_words(&s, queries, found + keys->count, ends);
    if (!status)
        *picture = find_patches(keys, found) && find_patches(queries, found + keys->count);
    mh_free(context, ends, (most + 1) * sizeof *ends);
    mh_buffer_free(context, &s.text.buffer);
    mh_head_words_free(context, &names);
    return status;
}
