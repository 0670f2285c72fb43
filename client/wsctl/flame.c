/* SPDX-License-Identifier: Apache-2.0
 *
 * flame.c: a flame graph as one SVG file: without a script it is whole, and each frame has its numbers as a tooltip. The
 * script, which is ours and is all in the file, zooms into a frame that is clicked, and finds names.
 * Owns nothing.
 * Keeps: text from profiles is escaped. The file loads nothing.
 * Does not draw frames that are narrower than NARROW. */
#include "flame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "svg.h"

#define WIDTH  1200.0
#define ROW    18u
#define HEAD   44u
#define FOOT   10u
#define NARROW 0.2 /* of the 1200 */
#define LETTER 6.8 /* width of one of the font's */

struct canvas {
    FILE *to;
    uint64_t total;
    unsigned rows;
};

static const char style[] =
    "<style>\n"
    "text{font:11px ui-monospace,monospace;fill:#1b1b1b}\n"
    ".t{font-size:15px}.b{fill:#fff}.f{cursor:pointer}.f:hover rect{stroke:#000;stroke-width:1}\n"
    ".f text{pointer-events:none}.found rect{fill:#b45cf0!important}.f:focus{outline:none}"
    ".f:focus rect{stroke:#000;stroke-width:1.5}\n"
    "@media(prefers-color-scheme:dark){.b{fill:#16181d}.o{fill:#e6e6e6}.f:hover rect,.f:focus rect{stroke:#fff}}\n"
    "</style>\n";

static const char script[] =
    "<script><![CDATA[\n"
    "(function(){'use strict';\n"
    "var fs=[].slice.call(document.querySelectorAll('.f')),said=document.getElementById('said');\n"
    "function num(g,k){return +g.getAttribute('data-'+k)}\n"
    "function fit(g,x,w){var r=g.querySelector('rect'),t=g.querySelector('text'),n=g.getAttribute('data-n'),"
    "m=Math.floor((w-6)/6.8);\n"
    " r.setAttribute('x',x);r.setAttribute('width',Math.max(w-.5,0));t.setAttribute('x',x+3);\n"
    " t.textContent=m<3?'':n.length>m?n.slice(0,m-2)+'..':n}\n"
    "function zoom(z){var x0=num(z,'x'),w0=num(z,'w'),d0=num(z,'d');fs.forEach(function(g){\n"
    " var x=num(g,'x'),w=num(g,'w'),d=num(g,'d'),outer=d<d0&&x<=x0+1e-6&&x+w>=x0+w0-1e-6,"
    "inner=d>=d0&&x>=x0-1e-6&&x+w<=x0+w0+1e-6;\n"
    " g.style.display=outer||inner?'':'none';g.style.opacity=outer?.5:1;\n"
    " if(outer)fit(g,0,1200);else if(inner)fit(g,(x-x0)/w0*1200,w/w0*1200)})}\n"
    "function find(){var q=prompt('Find functions with these letters in their name:','');if(q===null)return;\n"
    " fs.forEach(function(g){g.classList.toggle('found',q!==''&&g.getAttribute('data-n').indexOf(q)>=0)})}\n"
    "fs.forEach(function(g){g.addEventListener('click',function(){zoom(g)});\n"
    " g.addEventListener('keydown',function(e){if(e.key==='Enter')zoom(g)});\n"
    " g.addEventListener('mouseover',function(){said.textContent=g.querySelector('title').textContent})});\n"
    "document.addEventListener('keydown',function(e){if(e.key==='Escape')zoom(fs[0]);"
    "if(e.key==='/'){e.preventDefault();find()}});\n"
    "})();\n"
    "]]></script>\n";

/* The same name has the same colour in each graph; the engine and what has no name are grey. */
static void put_colour(FILE *to, const struct call_frame *f)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < f->size; i++)
        hash = (hash ^ (unsigned char)f->name[i]) * 16777619u;
    if (f->size > 0 && f->name[0] == '[')
        fprintf(to, "hsl(220,8%%,%u%%)", 68 + hash % 8);
    else
        fprintf(to, "hsl(%u,%u%%,%u%%)", 15 + hash % 40, 80 + hash / 64 % 15, 62 + hash / 1024 % 10);
}

static unsigned depth_of(const struct call_frame *f, uint64_t total, unsigned depth)
{
    unsigned deepest = depth;

    for (; f; f = f->next) {
        if ((double)f->total / (double)total * WIDTH < NARROW)
            continue;
        unsigned below = depth_of(f->child, total, depth + 1);

        deepest = below > deepest ? below : deepest;
    }
    return deepest;
}

static void put_frame(const struct canvas *c, const struct call_frame *f, double x, unsigned depth)
{
    double width = (double)f->total / (double)c->total * WIDTH;
    unsigned y = HEAD + (c->rows - 1 - depth) * ROW;
    size_t letters = width > 6 + 3 * LETTER ? (size_t)((width - 6) / LETTER) : 0;

    if (width < NARROW)
        return;
    fprintf(c->to, "<g class=\"f\" tabindex=\"0\" data-x=\"%.4f\" data-w=\"%.4f\" data-d=\"%u\" data-n=\"", x, width,
            depth);
    svg_escape(c->to, f->name, f->size);
    fputs("\"><title>", c->to);
    svg_escape(c->to, f->name, f->size);
    fprintf(c->to, ": %" PRIu64 " sample%s, %.2f %%", f->total, plural(f->total),
            100.0 * (double)f->total / (double)c->total);
    if (f->self)
        fprintf(c->to, "; itself %" PRIu64, f->self);
    fprintf(c->to, "</title><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" rx=\"2\" fill=\"", x, y,
            width > 0.5 ? width - 0.5 : width, ROW - 1);
    put_colour(c->to, f);
    fprintf(c->to, "\"/><text x=\"%.2f\" y=\"%u\">", x + 3, y + 13);
    svg_escape(c->to, f->name, letters == 0 || f->size <= letters ? (letters ? f->size : 0) : letters - 2);
    fputs(letters && f->size > letters ? "..</text></g>\n" : "</text></g>\n", c->to);
    for (const struct call_frame *child = f->child; child; child = child->next) {
        put_frame(c, child, x, depth + 1);
        x += (double)child->total / (double)c->total * WIDTH;
    }
}

void flame_write(const struct call_frame *all, const char *title, FILE *to)
{
    struct canvas c = {.to = to, .total = all->total ? all->total : 1};

    c.rows = depth_of(all, c.total, 0);
    c.rows = c.rows ? c.rows : 1;
    fprintf(to,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 %u\" width=\"100%%\" role=\"img\">\n<title>",
            HEAD + c.rows * ROW + FOOT);
    svg_escape(to, title, strlen(title));
    fprintf(to, "</title>\n%s<rect class=\"b\" width=\"1200\" height=\"%u\"/>\n<text class=\"t o\" x=\"8\" y=\"18\">",
            style, HEAD + c.rows * ROW + FOOT);
    svg_escape(to, title, strlen(title));
    fputs("</text>\n<text class=\"o\" id=\"said\" x=\"8\" y=\"36\">A click zooms, Esc shows all, / finds a "
          "name.</text>\n",
          to);
    put_frame(&c, all, 0, 0);
    fprintf(to, "%s</svg>\n", script);
}
