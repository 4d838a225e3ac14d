// SPDX-License-Identifier: MIT
// Which heads link two words; see look.h.
#include "look.h"
#include "messages.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void link_words_parse(struct argp_state *state, link_words *words, const char *argument)
{
    const char *comma = strchr(argument, ',');
    if (!comma || comma == argument || !comma[1])
        argp_error(state, "--link: found '%s', expected two words, A,B", argument);
    link_words_free(words);
    words->first = strndup(argument, (size_t)(comma - argument));
    words->second = strdup(comma + 1);
    if (!words->first || !words->second)
        refuse_memory();
}

void link_words_free(link_words *words)
{
    free(words->first);
    free(words->second);
}

// ---- words --------------------------------------------------------------------------------------

typedef struct token_range {
    size_t begin, end;
} token_range;

static const mh_trace_tokens *trace_tokens(const mh_trace *trace)
{
    return trace->source.count ? &trace->source : &trace->target;
}

// Whether the tokens from `begin` on, with spaces between words, make up the text; then *end is the
// one after them. ASCII letters match in either case, as uncased models read them.
static bool tokens_match(const mh_trace_tokens *tokens, size_t begin, const char *text, size_t *end)
{
    for (size_t i = begin; i < tokens->count; i++) {
        if (i > begin && tokens->word_start[i] && *text++ != ' ')
            return false;
        const size_t length = strlen(tokens->text[i]);
        if (length == 0 || strncasecmp(text, tokens->text[i], length) != 0)
            return false;
        text += length;
        *end = i + 1;
        if (!*text)
            return true;
    }
    return false;
}

static bool is_letter(char c)
{
    return (unsigned char)c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z');
}

// Whether tokens are whole words: "cat" of "cat", "s" is not.
static bool is_whole(const mh_trace_tokens *tokens, token_range r)
{
    return (tokens->word_start[r.begin] || !is_letter(*tokens->text[r.begin - 1])) &&
           (r.end == tokens->count || tokens->word_start[r.end] ||
            !is_letter(*tokens->text[r.end]));
}

// The first position of a word from token `from` on, as a whole word if there is one.
static bool find_word(const mh_trace_tokens *tokens, size_t from, const char *text, token_range *r)
{
    bool found = false;
    for (size_t i = from; i < tokens->count; i++) {
        token_range at = {.begin = i};
        if (!tokens_match(tokens, i, text, &at.end))
            continue;
        const bool whole = is_whole(tokens, at);
        if (whole || !found)
            *r = at;
        found = true;
        if (whole)
            break;
    }
    return found;
}

// Says which words there are.
static int complain_word(const mh_trace_tokens *tokens, const char *word)
{
    char list[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        const char *gap = i == 0 ? "" : tokens->word_start[i] ? " " : "|";
        const size_t more = strlen(gap) + strlen(tokens->text[i]);
        if (used + more + sizeof " ..." > sizeof list) {
            memcpy(list + used, " ...", sizeof " ...");
            break;
        }
        memcpy(list + used, gap, strlen(gap));
        memcpy(list + used + strlen(gap), tokens->text[i], strlen(tokens->text[i]) + 1);
        used += more;
    }
    complain("--link: '%s' is not in the text, whose tokens are: %s", word, list);
    return EXIT_USAGE;
}

// ---- heads --------------------------------------------------------------------------------------

static double attention_between(const mh_tensor *w, size_t layer, size_t head, token_range from,
                                token_range to)
{
    const size_t H = w->shape[1], T = w->shape[2];
    const float *rows = (const float *)w->data + (layer * H + head) * T * T;
    double sum = 0;
    for (size_t t = from.begin; t < from.end; t++)
        for (size_t s = to.begin; s < to.end; s++)
            sum += (double)rows[t * T + s];
    return sum / (double)(from.end - from.begin);
}

static double larger_of(const head_link *link)
{
    return link->forward > link->backward ? link->forward : link->backward;
}

// Inserts a head among the best; equal ones keep their order.
static void insert_link(head_link *links, size_t *count, head_link link)
{
    size_t at = *count;
    while (at > 0 && larger_of(&links[at - 1]) < larger_of(&link))
        at--;
    if (at == LINKS_SHOWN)
        return;
    if (*count < LINKS_SHOWN)
        ++*count;
    for (size_t i = *count - 1; i > at; i--)
        links[i] = links[i - 1];
    links[at] = link;
}

// Where the words are; the same word twice: at its next position, if there is one. False, and
// *missing is the one that the text does not have.
static bool find_positions(const mh_trace_tokens *tokens, const link_words *words, token_range *a,
                           token_range *b, const char **missing)
{
    const bool same = strcasecmp(words->first, words->second) == 0;
    *missing = words->first;
    if (!find_word(tokens, 0, words->first, a))
        return false;
    *missing = words->second;
    return find_word(tokens, same ? a->end : 0, words->second, b) ||
           find_word(tokens, 0, words->second, b);
}

static const mh_tensor *link_weights(const mh_trace *trace)
{
    const bool encoder = trace->groups[MH_TRACE_ENCODER].weights.data != NULL;
    return &trace->groups[encoder ? MH_TRACE_ENCODER : MH_TRACE_DECODER].weights;
}

static head_link link_of(const mh_tensor *w, size_t layer, size_t head, token_range a,
                         token_range b)
{
    return (head_link){.layer = layer,
                       .head = head,
                       .forward = attention_between(w, layer, head, a, b),
                       .backward = attention_between(w, layer, head, b, a)};
}

int links_find(const mh_trace *trace, const link_words *words, head_link *links, size_t *count)
{
    const mh_trace_tokens *tokens = trace_tokens(trace);
    const mh_tensor *w = link_weights(trace);
    const char *missing;
    token_range a, b;
    *count = 0;
    if (!find_positions(tokens, words, &a, &b, &missing))
        return complain_word(tokens, missing);
    for (size_t l = 0; l < w->shape[0]; l++)
        for (size_t h = 0; h < w->shape[1]; h++)
            insert_link(links, count, link_of(w, l, h, a, b));
    return EXIT_DONE;
}

// ---- over many texts ----------------------------------------------------------------------------

bool links_add(const mh_trace *trace, const link_words *words, link_sums *sums)
{
    const mh_tensor *w = link_weights(trace);
    const size_t L = w->shape[0], H = w->shape[1];
    const char *missing;
    token_range a, b;
    if (!find_positions(trace_tokens(trace), words, &a, &b, &missing))
        return true;
    if (!sums->heads) {
        sums->heads = calloc(L * H, sizeof *sums->heads);
        if (!sums->heads)
            return false;
        sums->layers = L;
        sums->heads_each = H;
    }
    for (size_t i = 0; i < L * H; i++) {
        const head_link link = link_of(w, i / H, i % H, a, b);
        sums->heads[i].forward += link.forward;
        sums->heads[i].backward += link.backward;
    }
    sums->texts++;
    return true;
}

void links_rank(const link_sums *sums, head_link *links, size_t *count)
{
    const size_t H = sums->heads_each;
    *count = 0;
    for (size_t i = 0; i < sums->layers * H; i++)
        insert_link(links, count,
                    (head_link){.layer = i / H,
                                .head = i % H,
                                .forward = sums->heads[i].forward / (double)sums->texts,
                                .backward = sums->heads[i].backward / (double)sums->texts});
}

// ---- printing -----------------------------------------------------------------------------------

// Columns of a word, whose characters are taken to be one wide.
static int count_columns(const char *word)
{
    int columns = 0;
    for (; *word; word++)
        columns += (*word & 0xC0) != 0x80;
    return columns;
}

void links_print(const link_words *words, const head_link *links, size_t count)
{
    const char *first = words->first, *second = words->second;
    printf("layer  head   %s to %s   %s to %s\n", first, second, second, first);
    const int width = count_columns(first) + count_columns(" to ") + count_columns(second);
    for (size_t i = 0; i < count; i++)
        printf("%5zu %5zu   %*.3f   %*.3f\n", links[i].layer, links[i].head, width,
               links[i].forward, width, links[i].backward);
}

void links_print_json(const link_words *words, const head_link *links, size_t count)
{
    printf("\"link\": [");
    put_json_string(stdout, words->first, strlen(words->first));
    printf(", ");
    put_json_string(stdout, words->second, strlen(words->second));
    printf("], \"heads\": [");
    for (size_t i = 0; i < count; i++)
        printf("%s{\"layer\": %zu, \"head\": %zu, \"forward\": %.9g, \"backward\": %.9g}",
               i ? ", " : "", links[i].layer, links[i].head, links[i].forward, links[i].backward);
    printf("]");
}
