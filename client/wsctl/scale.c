/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.c: `wsctl profile --parallelism` and `--scale`.
 * Owns nothing.
 * Keeps: the same job each time; its output is dropped.
 * Does not say what a busy machine takes away: the shortest of some rounds counts. */
#include "scale.h"

#include <inttypes.h>
#include <string.h>

#include "base/cpus.h"
#include "json-write.h"
#include "local-module.h"
#include "local.h"
#include "print.h"
#include "progress.h"
#include "svg.h"

/* --- work and span ------------------------------------------------------------------------------------------------ */

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 1;
}

static int say_json(const struct local_measure *m)
{
    struct json json = {0};

    json_number(&json, "spawns", m->spawns);
    json_number(&json, "work_nsec", m->work_nsec);
    json_number(&json, "work_strands", m->work_strands);
    json_number(&json, "span_nsec", m->span_nsec);
    json_number(&json, "span_strands", m->span_strands);
    json_number(&json, "burdened_nsec", m->burdened_nsec);
    json_real(&json, "parallelism", ratio(m->work_nsec, m->span_nsec));
    json_real(&json, "burdened_parallelism", ratio(m->work_nsec, m->burdened_nsec));
    json_number(&json, "hidden", m->hidden);
    return json_end(&json);
}

int scale_parallelism(const struct ctl *ctl, const struct submit_options *options)
{
    struct local_measure m = {0};
    char work[32], span[32], burdened[32];
    uint64_t usec;
    int r = local_probe(ctl, options, &m, &usec);

    if (r != 0)
        return r;
    if (m.hidden && !ctl->quiet)
        ctl_error(0, options->name, "%" PRIu64 " future%s or graph%s ran where waited for; what that gains is not here",
                  m.hidden, plural(m.hidden), plural(m.hidden));
    if (ctl->json)
        return say_json(&m);
    print_line("spawns                %" PRIu64, m.spawns);
    print_line("work (T1)             %s, %" PRIu64 " strand%s", duration_text(m.work_nsec / 1000, work, sizeof(work)),
               m.work_strands, plural(m.work_strands));
    print_line("span (T-infinity)     %s, %" PRIu64 " strand%s", duration_text(m.span_nsec / 1000, span, sizeof(span)),
               m.span_strands, plural(m.span_strands));
    print_line("parallelism           %.2f (of strands %.2f)", ratio(m.work_nsec, m.span_nsec),
               ratio(m.work_strands, m.span_strands));
    print_line("burdened span         %s", duration_text(m.burdened_nsec / 1000, burdened, sizeof(burdened)));
    print_line("burdened parallelism  %.2f", ratio(m.work_nsec, m.burdened_nsec));
    return 0;
}

/* --- speed -------------------------------------------------------------------------------------------------------- */

static int run_once(const struct ctl *ctl, const struct submit_options *options, unsigned workers, uint64_t *ret_usec)
{
    struct submit_options o = *options;

    o.workers = workers;
    return local_probe(ctl, &o, NULL, ret_usec);
}

static void say_row(const struct ctl *ctl, const struct scale *s, unsigned workers)
{
    uint64_t usec = s->usec[workers - 1];
    double speed = ratio(s->usec[0], usec);
    struct json json = {0};
    char text[32];

    if (!ctl->json) {
        print_line("%7u  %10s  %8.2f  %9.0f %%", workers, duration_text(usec, text, sizeof(text)), speed,
                   100 * speed / workers);
        return;
    }
    json_number(&json, "workers", workers);
    json_number(&json, "run_usec", usec);
    json_real(&json, "speed", speed);
    (void)json_end(&json);
}

int scale_run(const struct ctl *ctl, const struct submit_options *options, struct scale *ret)
{
    int unread, r = 0;

    ret->name = options->name;
    ret->n = options->workers ? options->workers : cpus_usable(&unread);
    ret->n = ret->n < SCALE_WORKERS ? ret->n : SCALE_WORKERS;
    if (!ctl->json)
        print_line("workers        time     speed  efficiency");
    for (unsigned n = 1; n <= ret->n && r == 0; n++) {
        uint64_t least = UINT64_MAX;

        for (unsigned round = 0; round < SCALE_ROUNDS && r == 0; round++) {
            uint64_t usec = 0;

            progress_draw("profile", n - 1, ret->n, 0);
            r = run_once(ctl, options, n, &usec);
            least = usec < least ? usec : least;
        }
        ret->usec[n - 1] = least ? least : 1;
        progress_clear_for_stdout();
        if (r == 0)
            say_row(ctl, ret, n);
    }
    progress_clear();
    return r;
}

#define LEFT  60.0
#define TOP   50.0
#define SIDE  500.0 /* of the square */
#define GRIDS 4u

static double x_of(const struct scale *s, double workers)
{
    return LEFT + SIDE * workers / s->n;
}

static double y_of(const struct scale *s, double speed)
{
    return TOP + SIDE - SIDE * (speed < s->n * 1.05 ? speed : s->n * 1.05) / s->n;
}

static void put_grid(const struct scale *s, FILE *to)
{
    unsigned step = (s->n + GRIDS - 1) / GRIDS;

    for (unsigned at = 0; at <= s->n; at += step) {
        fprintf(
            to,
            "<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%u</text>\n",
            x_of(s, at), TOP, TOP + SIDE, x_of(s, at), TOP + SIDE + 18, at);
        fprintf(to,
                "<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%u</text>\n",
                LEFT, y_of(s, at), LEFT + SIDE, LEFT - 8, y_of(s, at) + 4, at);
    }
}

void scale_write(const struct scale *s, FILE *to)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 600 620\" width=\"100%\" role=\"img\">\n<title>",
          to);
    svg_escape(to, s->name, strlen(s->name));
    fputs(": speed over workers</title>\n<style>text{font:12px ui-monospace,monospace;fill:#1b1b1b}.b{fill:#fff}\n"
          ".g{stroke:#d8d8d8}.i{stroke:#8a8a8a;stroke-dasharray:5 "
          "5}.s{stroke:#c2410c;stroke-width:2;fill:none}.p{fill:#c2410c}\n"
          "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.b{fill:#16181d}.g{stroke:#3a3d44}.s{stroke:#fb923c}"
          ".p{fill:#fb923c}}</style>\n<rect class=\"b\" width=\"600\" height=\"620\"/>\n<text x=\"12\" y=\"24\">",
          to);
    svg_escape(to, s->name, strlen(s->name));
    fputs(": speed, against one worker; dashed: ideal</text>\n", to);
    put_grid(s, to);
    fprintf(to,
            "<text x=\"%.1f\" y=\"608\" text-anchor=\"middle\">workers</text>\n<path class=\"i\" d=\"M%.1f %.1fL%.1f "
            "%.1f\"/>\n",
            LEFT + SIDE / 2, x_of(s, 0), y_of(s, 0), x_of(s, s->n), y_of(s, s->n));
    fputs("<path class=\"s\" d=\"", to);
    for (unsigned n = 1; n <= s->n; n++)
        fprintf(to, "%c%.1f %.1f", n == 1 ? 'M' : 'L', x_of(s, n), y_of(s, ratio(s->usec[0], s->usec[n - 1])));
    fputs("\"/>\n", to);
    for (unsigned n = 1; n <= s->n; n++)
        fprintf(to, "<circle class=\"p\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%u worker%s: %.2f</title></circle>\n",
                x_of(s, n), y_of(s, ratio(s->usec[0], s->usec[n - 1])), n, plural(n),
                ratio(s->usec[0], s->usec[n - 1]));
    fputs("</svg>\n", to);
}
