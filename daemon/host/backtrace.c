/* SPDX-License-Identifier: Apache-2.0
 *
 * backtrace.c: where a thread is, in words or addresses, from inside a signal handler.
 * Owns the table of the plugins with mapped code; entries stay for the life of the process, as the code does. Keeps: no
 * lock, no allocation and no file in a handler. The unwinder finds its tables through _dl_find_object(), which was made
 * for that. Function names come from the sealed copy of the plugin's file, each offset checked.
 * Does not read what lies beyond a destroyed stack safely: the note of the fault is written before. A walk that goes on
 * afterwards is backtrace_take(), which comes back from a fault. */
#include "host/backtrace.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

#include "base/cleanup.h"

#define FRAMES_MAX   48u
#define MODULES_MAX  1024u
#define LINE_LEAST   96u  /* room that a line wants beside the name of a function */
#define FUNCTION_MAX 192u /* bytes of that: C++ has long ones */

/* [atomic: release by the control thread, acquire in handlers: entries below n_modules are there] */
static const struct host_plugin *modules[MODULES_MAX];
static _Atomic uint32_t n_modules;

struct text {
    char *at, *end; /* end: of what may be written, room for a NUL behind it */
};

struct walk {
    struct text text;
    uintptr_t fault; /* where the handler was called from; 0: every frame is told */
    bool found;      /* the frames of the handler are behind us */
    uint32_t n;
    const struct host_plugin *plugin; /* of the first frame that lies in one */
};

/* --- texts -------------------------------------------------------------------------------------------------------- */

static void put_printable(struct text *t, const char *s, size_t max)
{
    for (size_t i = 0; i < max && s[i] && t->at < t->end; i++)
        *t->at++ = s[i] > 0x20 && s[i] < 0x7f ? s[i] : s[i] == ' ' ? ' ' : '?';
    *t->at = 0;
}

static void put_number(struct text *t, uintptr_t n, unsigned base)
{
    char digits[24];
    size_t at = sizeof(digits);

    digits[--at] = 0;
    do {
        digits[--at] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n);
    put_printable(t, digits + at, sizeof(digits));
}

static void put_newline(struct text *t)
{
    if (t->at < t->end)
        *t->at++ = '\n';
    *t->at = 0;
}

/* --- the plugin's file -------------------------------------------------------------------------------------------- */

/* n bytes at this offset of the file, or NULL. */
static const void *image_at(const struct host_plugin *p, uint64_t offset, uint64_t n)
{
    return offset <= p->image_size && n <= p->image_size - offset ? (const char *)p->image + offset : NULL;
}

static const ElfW(Shdr) * sections(const struct host_plugin *p, size_t *ret_n)
{
    const ElfW(Ehdr) *e = image_at(p, 0, sizeof(*e));

    *ret_n = e ? e->e_shnum : 0;
    return e && e->e_shentsize == sizeof(ElfW(Shdr)) && e->e_shoff % _Alignof(ElfW(Shdr)) == 0
               ? image_at(p, e->e_shoff, (uint64_t)e->e_shnum * sizeof(ElfW(Shdr)))
               : NULL;
}

/* The function of that kind of table that this offset lies in: its name, of at most *ret_max bytes, or NULL. */
static const char *symbol_in(const struct host_plugin *p, uint32_t kind, uintptr_t offset, uintptr_t *ret_into,
                             size_t *ret_max)
{
    size_t n_sections;
    const ElfW(Shdr) *s = sections(p, &n_sections);

    for (size_t i = 0; s && i < n_sections; i++) {
        if (s[i].sh_type != kind || s[i].sh_link >= n_sections || s[i].sh_offset % _Alignof(ElfW(Sym)) != 0)
            continue;
        const ElfW(Sym) *symbols = image_at(p, s[i].sh_offset, s[i].sh_size);
        const ElfW(Shdr) *names = &s[s[i].sh_link];
        const char *name = image_at(p, names->sh_offset, names->sh_size);

        for (size_t k = 0; symbols && name && k < s[i].sh_size / sizeof(*symbols); k++) {
            const ElfW(Sym) *y = &symbols[k];

            if (ELF64_ST_TYPE(y->st_info) != STT_FUNC || offset < y->st_value || offset - y->st_value >= y->st_size ||
                y->st_name >= names->sh_size)
                continue;
            *ret_into = offset - y->st_value;
            *ret_max = names->sh_size - y->st_name;
            return name + y->st_name;
        }
    }
    return NULL;
}

static void put_build_id(struct text *t, const struct host_plugin *p)
{
    size_t n_sections;
    const ElfW(Shdr) *s = sections(p, &n_sections);

    for (size_t i = 0; s && i < n_sections; i++) {
        const ElfW(Nhdr) *n =
            s[i].sh_type == SHT_NOTE && s[i].sh_offset % 4 == 0 ? image_at(p, s[i].sh_offset, sizeof(*n) + 4) : NULL;

        if (!n || n->n_type != NT_GNU_BUILD_ID || n->n_namesz != 4)
            continue;
        const uint8_t *id = image_at(p, s[i].sh_offset + sizeof(*n) + 4, n->n_descsz);
        put_printable(t, "build-id of ", SIZE_MAX);
        put_printable(t, p->name, sizeof(p->name));
        put_printable(t, ": ", SIZE_MAX);
        for (size_t k = 0; id && k < n->n_descsz; k++) {
            put_printable(t, &"0123456789abcdef"[id[k] >> 4], 1);
            put_printable(t, &"0123456789abcdef"[id[k] & 15], 1);
        }
        put_newline(t);
        return;
    }
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

static const struct host_plugin *plugin_at(uintptr_t base)
{
    uint32_t n = atomic_load_explicit(&n_modules, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++)
        if (modules[i]->load_address == base)
            return modules[i];
    return NULL;
}

static void put_frame(struct walk *w, uintptr_t pc, bool is_return)
{
    uintptr_t look = pc - is_return, into; /* a call may be a function's last instruction */
    struct dl_find_object o;
    size_t max;

    put_printable(&w->text, "#", 1);
    put_number(&w->text, w->n++, 10);
    put_printable(&w->text, " ", 1);
    if (_dl_find_object((void *)look, &o) != 0) {
        put_printable(&w->text, "0x", 2);
        put_number(&w->text, pc, 16);
        put_newline(&w->text);
        return;
    }
    uintptr_t base = o.dlfo_link_map->l_addr;
    const struct host_plugin *p = plugin_at(base);
    if (p) {
        const char *name = symbol_in(p, SHT_SYMTAB, look - base, &into, &max);

        if (!name)
            name = symbol_in(p, SHT_DYNSYM, look - base, &into, &max);
        if (name) {
            put_printable(&w->text, name, MIN(max, (size_t)FUNCTION_MAX));
            put_printable(&w->text, "+0x", 3);
            put_number(&w->text, into + is_return, 16);
            put_printable(&w->text, " in ", 4);
        }
        put_printable(&w->text, p->name, sizeof(p->name));
        if (!w->plugin)
            w->plugin = p;
    } else {
        const char *file = o.dlfo_link_map->l_name, *slash = strrchr(file, '/');

        put_printable(&w->text, !*file ? program_invocation_short_name : slash ? slash + 1 : file, LINE_LEAST);
    }
    put_printable(&w->text, "+0x", 3);
    put_number(&w->text, pc - base, 16);
    put_newline(&w->text);
}

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *userdata)
{
    struct walk *w = userdata;
    int before = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &before);

    if (pc == 0 || w->n >= FRAMES_MAX || (size_t)(w->text.end - w->text.at) < FUNCTION_MAX + LINE_LEAST)
        return _URC_END_OF_STACK;
    if (w->fault && !w->found) {
        if (pc != w->fault)
            return _URC_NO_REASON;
        w->found = true;
        before = 1;
    }
    put_frame(w, pc, !before);
    return _URC_NO_REASON;
}

static uintptr_t program_counter(const ucontext_t *c)
{
#if defined __x86_64__
    return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return (uintptr_t)c->uc_mcontext.pc;
#elif defined __riscv
    return (uintptr_t)c->uc_mcontext.__gregs[REG_PC];
#else
    (void)c;
    return 0;
#endif
}

void backtrace_write(char *text, size_t room, const void *context)
{
    struct walk w = {.text = {.at = text, .end = text + room - 1}, .fault = context ? program_counter(context) : 0};

    *text = 0;
    _Unwind_Backtrace(on_frame, &w);
    if (w.fault && !w.found) /* a jump to where there is no code: nothing leads back from there */
        put_frame(&w, w.fault, false);
    if (w.plugin)
        put_build_id(&w.text, w.plugin);
}

static _Unwind_Reason_Code on_first(struct _Unwind_Context *context, void *userdata)
{
    return _URC_NO_REASON;
}

void backtrace_init(void)
{
    _Unwind_Backtrace(on_first, NULL); /* the unwinder sets itself up once */
}

void backtrace_plugin(const struct host_plugin *p)
{
    uint32_t n = atomic_load_explicit(&n_modules, memory_order_relaxed);

    if (n == MODULES_MAX || plugin_at(p->load_address) || !p->image)
        return;
    modules[n] = p;
    atomic_store_explicit(&n_modules, n + 1, memory_order_release);
}

/* --- addresses ---------------------------------------------------------------------------------------------------- */

/* What a walk has found, also where it ends by a fault. */
struct taking {
    uintptr_t *frames;
    size_t n, max;
    uintptr_t from; /* where the handler was called */
    bool found;     /* the frames of the handler are behind us */
};

static _Thread_local struct {
    sigjmp_buf out;
    volatile sig_atomic_t on;
} walking __attribute__((tls_model("initial-exec")));

static _Unwind_Reason_Code on_taken(struct _Unwind_Context *context, void *userdata)
{
    struct taking *t = userdata;
    int before = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &before);

    if (pc == 0 || t->n == t->max)
        return _URC_END_OF_STACK;
    if (!t->found && pc != t->from)
        return _URC_NO_REASON;
    /* a call may be a function's last instruction */
    t->frames[t->n++] = t->found && !before ? pc - 1 : pc;
    t->found = true;
    return _URC_NO_REASON;
}

size_t backtrace_take(uintptr_t *ret, size_t max, const void *context)
{
    /* static: its fields are not in registers that a fault would set back */
    static _Thread_local struct taking t __attribute__((tls_model("initial-exec")));

    t = (struct taking){.frames = ret, .max = max, .from = program_counter(context)};
    if (sigsetjmp(walking.out, 1) == 0) {
        walking.on = 1;
        _Unwind_Backtrace(on_taken, &t);
    }
    walking.on = 0;
    if (t.n == 0 && max > 0)
        t.frames[t.n++] = t.from;
    return t.n;
}

void backtrace_stack(char *text, size_t room, const void *context)
{
    static _Thread_local struct walk w __attribute__((tls_model("initial-exec")));

    w = (struct walk){.text = {.at = text, .end = text + room - 1}, .fault = program_counter(context)};
    *text = 0;
    if (sigsetjmp(walking.out, 1) == 0) {
        walking.on = 1;
        _Unwind_Backtrace(on_frame, &w);
    }
    walking.on = 0;
    *w.text.at = 0;
    if (!w.found)
        put_frame(&w, w.fault, false);
}

void backtrace_fault(void)
{
    if (!walking.on)
        return;
    walking.on = 0;
    siglongjmp(walking.out, 1);
}

static void clean_name(char *name)
{
    for (; *name; name++)
        if (*name < 0x20 || *name >= 0x7f || *name == ';')
            *name = '?';
}

static enum backtrace_where name_in_plugin(const struct host_plugin *p, uintptr_t offset, char *name, size_t size)
{
    uintptr_t into;
    size_t max;
    const char *found = symbol_in(p, SHT_SYMTAB, offset, &into, &max);

    if (!found)
        found = symbol_in(p, SHT_DYNSYM, offset, &into, &max);
    if (found)
        snprintf(name, size, "%.*s", (int)MIN(max, size - 1), found);
    else
        snprintf(name, size, "[%s]", p->name);
    clean_name(name);
    return BACKTRACE_PLUGIN;
}

enum backtrace_where backtrace_name(uintptr_t address, char *name, size_t size)
{
    struct dl_find_object o;
    Dl_info info;

    if (_dl_find_object((void *)address, &o) != 0) {
        snprintf(name, size, "[no file]");
        return BACKTRACE_NOWHERE;
    }
    const struct host_plugin *p = plugin_at(o.dlfo_link_map->l_addr);
    if (p)
        return name_in_plugin(p, address - o.dlfo_link_map->l_addr, name, size);
    const char *file = o.dlfo_link_map->l_name, *slash = strrchr(file, '/');
    if (!*file) {
        snprintf(name, size, "[%s]", program_invocation_short_name);
        return BACKTRACE_OWN;
    }
    if (dladdr((void *)address, &info) != 0 && info.dli_sname)
        snprintf(name, size, "%s", info.dli_sname);
    else
        snprintf(name, size, "[%s]", slash ? slash + 1 : file);
    clean_name(name);
    return BACKTRACE_LIBRARY;
}
