// SPDX-License-Identifier: MIT
// Tables of heads as a picture, and a page around it; see heads_parts.h, and head_svg.h.
//
//     name          prev next self ...  dist
//     0.0           [ 3] [61] [ 8] ...   1.4  next       a cell is as dark as its figure is large
//
// Only numbers and our own words are written, and the model's name, which is escaped. There is no
// script, and nothing is loaded. The picture is light or dark as the reader's system is.
#include "head_svg.h"
#include "messages.h"
#include "model_path.h"

#include <multihead/io.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    "<style>\n"
    "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "fill:#3a3f47;font-variant-numeric:tabular-nums}\n"
    ".back{fill:#fff}.name{font-size:17px;font-weight:600;fill:#1c1f24}\n"
    ".m{text-anchor:middle}.e{text-anchor:end}.b{fill:#fff}.f{fill:#7a818b}\n"
    ".c{fill:#0b5fa5}.n{stroke:#d55e00;stroke-width:2}\n"
    ".line{fill:none;stroke:#0b5fa5;stroke-width:2}.grid{stroke:#d5d8dd}\n"
    "@media(prefers-color-scheme:dark){\n"
    "text{fill:#c3c8d0}.back{fill:#15181d}.name{fill:#f0f2f5}.b,.h{fill:#0d1014}.f{fill:#8b929c}\n"
    ".c{fill:#6cb8f0}.line{stroke:#6cb8f0}.grid{stroke:#2f353e}.n{stroke:#f0803c}\n"
    "}\n"
    "</style>\n";

// ---- elements -----------------------------------------------------------------------------------

static void put_escaped(FILE *to, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        default:
            putc((unsigned char)*text < ' ' || *text == 0x7F ? '?' : *text, to);
        }
}

void svg_put_words(const svg_picture *p, const char *class, int x, int y, const char *words)
{
    fprintf(p->to, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
    put_escaped(p->to, words);
    fputs("</text>\n", p->to);
}

void svg_put_box(const svg_picture *p, int x, int y, int width, double part, bool named,
                 const char *figure, const char *title)
{
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    fprintf(p->to,
            "<g><title>%s</title><rect class=\"c%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
            "fill-opacity=\"%.3f\"/><text class=\"m%s\" x=\"%d\" y=\"%d\">%s</text></g>\n",
            title, named ? " n" : "", x + 1, y + 1, width - 2, ROW - 2, 0.06 + 0.94 * part,
            part > 0.65  ? " b"
            : part > 0.5 ? " h"
                         : "",
            x + width / 2, y + ROW - 7, figure);
}

void svg_widen(svg_picture *p, int width) { p->width = width > p->width ? width : p->width; }

// ---- the picture --------------------------------------------------------------------------------

// The size is known at the end, so that the picture is drawn into memory first.
static bool draw(const head_output *o, const mh_head_statistics *s, const ablation *a, FILE *to)
{
    char *bytes = NULL;
    size_t size = 0;
    svg_picture p = {.to = open_memstream(&bytes, &size), .o = o, .height = TOP};
    char line[160];
    if (!p.to)
        return false;
    for (int kind = 0; s && kind < MH_TRACE_KINDS_MAX; kind++)
        svg_put_group(&p, o->arguments->context, s, (mh_trace_kind)kind);
    if (a)
        svg_put_ablation(&p, a);
    const bool failed = ferror(p.to) != 0;
    if (fclose(p.to) != 0 || failed) {
        free(bytes);
        return false;
    }
    svg_widen(&p, 560);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"what heads do\">\n%s"
            "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n",
            p.width, p.height, p.width, p.height, style, p.width, p.height);
    p.to = to;
    fprintf(to, "<text class=\"name\" x=\"%d\" y=\"34\">", MARGIN);
    put_escaped(to, model_name(o->arguments->directory));
    fputs("</text>\n", to);
    if (a)
        snprintf(line, sizeof line, "loss %.3f per token, %zu tokens of %zu %s", a->all_on.loss,
                 a->tokens, o->texts, plural(o->texts, "text", "texts"));
    else
        snprintf(line, sizeof line, "%% of attention, mean of %zu %s; uniform: equal weights",
                 o->texts, plural(o->texts, "text", "texts"));
    svg_put_words(&p, "f", MARGIN, 58, line);
    fwrite(bytes, 1, size, to);
    fputs("</svg>\n", to);
    free(bytes);
    return true;
}

static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'\">\n"
    "<title>What heads do</title>\n<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "margin:2rem auto;max-width:60rem;padding:0 1rem}\n"
    "figure{margin:1rem 0}svg{max-width:100%;height:auto}\n"
    "dl{display:grid;grid-template-columns:auto 1fr;gap:.1rem "
    "1rem}dd{margin:0}dt{font-weight:600}\n"
    "h2{font-size:1.1rem}\n</style>\n</head>\n<body>\n";

static const char of_statistics[] =
    "<h1>Where the attention of each head goes</h1>\n"
    "<p>A row is a head, LAYER.HEAD. A figure is the part of its attention, in %, that goes to "
    "keys "
    "of a kind, on average over the queries that have such a key. The first row is what a head "
    "with equal weights would have. Frames mark figures that are far above "
    "that: 30 % or more of the way to 100 %. Point at a cell to read it.</p>\n";

static const char of_ablation[] =
    "<h1>What the model loses without each head</h1>\n"
    "<p>A cell is the change of the loss per token when one head is switched off. A row is a "
    "layer: of the encoder, of the decoder, of cross-attention. <b>all heads</b> is the change "
    "without all heads of the layer, <b>sum</b> the changes of its heads one by one added up: "
    "where <b>all heads</b> is larger, the heads compensate for each other. Point at a cell to "
    "read it.</p>\n";

static void put_explanation(FILE *to, const char *name, const char *meaning)
{
    fprintf(to, "<dt>%s</dt><dd>%s</dd>\n", name, meaning);
}

// The columns of a group that no group before it has by this name, in words.
static void explain_group(const head_output *o, const mh_head_statistics *s, mh_trace_kind kind,
                          bool explained[2][MH_PATTERN_COUNT], FILE *to)
{
    size_t layers, heads;
    bool is_picture;
    mh_head_figures f = mh_head_figures_default();
    char text[120];
    if (!mh_head_statistics_size(s, kind, &layers, &heads, &is_picture) ||
        mh_head_statistics_read(o->arguments->context, s, kind, 0, 0, &f))
        return;
    for (const head_column *c = head_columns(kind, is_picture); c->label; c++) {
        const char *meaning = head_meaning(kind, is_picture, c->pattern);
        const bool own = kind == MH_TRACE_CROSS && c->pattern <= MH_PATTERN_ITSELF;
        if (f.queries[c->pattern] == 0 || explained[own][c->pattern])
            continue;
        explained[own][c->pattern] = true;
        if (c->pattern == MH_PATTERN_RARE && mh_head_statistics_rare(s) == 1)
            snprintf(text, sizeof text, "words that occur once in these texts");
        else if (c->pattern == MH_PATTERN_RARE)
            snprintf(text, sizeof text, "words that occur at most %llu times in these texts",
                     (unsigned long long)mh_head_statistics_rare(s));
        else
            snprintf(text, sizeof text, "more than %zu %s away", o->far,
                     is_picture ? "patches" : "tokens");
        put_explanation(to, mh_head_pattern_name(kind, c->pattern), meaning ? meaning : text);
    }
}

static void put_explanations(const head_output *o, const mh_head_statistics *s, FILE *to)
{
    bool explained[2][MH_PATTERN_COUNT] = {{false}};
    fputs("<h2>The columns, and the names of heads</h2>\n<dl>\n", to);
    for (int kind = 0; kind < MH_TRACE_KINDS_MAX; kind++)
        explain_group(o, s, (mh_trace_kind)kind, explained, to);
    put_explanation(to, "distance",
                    "the mean distance from the query, of cross-attention from the "
                    "aligned token, in tokens or patches");
    put_explanation(to, "broad", "a head that spreads its attention nearly evenly");
    put_explanation(to, "mixed", "a head for which no column is far above a uniform head");
    fputs("</dl>\n", to);
}

static bool put_page(const head_output *o, const mh_head_statistics *s, const ablation *a, FILE *to)
{
    fputs(page_head, to);
    fputs(s ? of_statistics : of_ablation, to);
    fputs("<figure>\n", to);
    const bool drawn = draw(o, s, a, to);
    fputs("</figure>\n", to);
    if (s)
        put_explanations(o, s, to);
    fputs("</body>\n</html>\n", to);
    return drawn;
}

// ---- files --------------------------------------------------------------------------------------

static int save(const head_output *o, const mh_head_statistics *s, const ablation *a,
                const output *file, bool page)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&bytes, &size);
    bool done = to && (page ? put_page : draw)(o, s, a, to);
    if (to) {
        done = done && !ferror(to);
        done = fclose(to) == 0 && done;
    }
    int code = EXIT_MEMORY;
    if (done) {
        begin_saving();
        mh_status status = mh_bytes_write(o->arguments->context, file->path, bytes, size);
        code = status ? complain_output(o->arguments->context, status, NULL) : EXIT_DONE;
        end_saving();
    } else {
        complain("out of memory for %s", file->path);
    }
    free(bytes);
    return code;
}

int save_pictures(const head_output *o, const mh_head_statistics *s, const ablation *a,
                  const output *files)
{
    int code = EXIT_DONE;
    for (int i = 0; i < FILE_COUNT && code == EXIT_DONE; i++)
        if (files[i].path)
            code = save(o, s, a, &files[i], i == FILE_PAGE);
    return code;
}
