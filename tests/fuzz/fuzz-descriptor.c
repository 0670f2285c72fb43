/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-descriptor.c: any descriptor through plugin_new(). Input: abi, size, n_functions, function_size (four bytes
 * each, the upper ones only where the first says so), then the texts one behind the other, each ending in NUL.
 * Keeps: no more is read than the descriptor says it has (each block has that size exactly); what is taken over keeps
 * every promise of wsd/plugin.h. What a pointer into nowhere does is the executor's affair. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "host/loader.h"
#include "host/plugin.h"

struct input {
    const uint8_t *data;
    size_t size;
};

static uint32_t number(struct input *in, uint32_t usual)
{
    uint32_t value = usual;

    if (in->size < 5)
        return usual;
    if (in->data[0] & 1)
        memcpy(&value, in->data + 1, sizeof(value));
    else
        value = usual + in->data[1] - 128u * (in->data[1] >> 7) * 2u;
    in->data += 5;
    in->size -= 5;
    return value;
}

/* In a block of its own; NULL where nothing is left, or a byte of 0xff says so. */
static char *text(struct input *in)
{
    const uint8_t *end = in->size ? memchr(in->data, 0, in->size) : NULL;
    size_t n = end ? (size_t)(end - in->data) : in->size;
    char *ret;

    if (in->size == 0)
        return NULL;
    ret = n == 1 && in->data[0] == 0xff ? NULL : strndup((const char *)in->data, n);
    in->data += n + (end ? 1 : 0);
    in->size -= n + (end ? 1 : 0);
    return ret;
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    return 0;
}

static void check_plugin(const struct host_plugin *p)
{
    const struct plugin_function *f;
    uint32_t index;

    FUZZ_CHECK(p->n_functions >= 1 && p->n_functions <= PLUGIN_FUNCTIONS_MAX && p->name[0]);
    FUZZ_CHECK(memchr(p->name, 0, sizeof(p->name)) && memchr(p->version, 0, sizeof(p->version)));
    FUZZ_CHECK(memchr(p->help, 0, sizeof(p->help)) && !strchr(p->help, '\n') && !strchr(p->help, '\033'));
    for (uint32_t i = 0; i < p->n_functions; i++) {
        f = plugin_find(p, p->functions[i].name, &index);
        FUZZ_CHECK(f == &p->functions[i] && index == i && f->plugin == p && f->run == run && f->name[0]);
        FUZZ_CHECK(!strpbrk(f->name, ":/ ") && !strchr(f->help, '\n'));
    }
    FUZZ_CHECK(plugin_find(p, NULL, NULL) && plugin_find(p, "", NULL) == plugin_find(p, NULL, NULL));
}

/* Only as many bytes as it says, where wsd may read them at all. */
static void *block(const void *whole, size_t whole_size, size_t said)
{
    uint8_t *ret = calloc(1, said ? said : 1);

    FUZZ_CHECK(ret);
    memcpy(ret, whole, said < whole_size ? said : whole_size);
    return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct wsd_plugin whole = {.abi = number(&in, WSD_PLUGIN_ABI),
                               .size = number(&in, sizeof(struct wsd_plugin)),
                               .n_functions = number(&in, 1),
                               .function_size = number(&in, sizeof(struct wsd_function))};
    size_t said = whole.size >= 64 && whole.size <= 8192 ? whole.size : sizeof(whole);
    size_t stride = whole.function_size <= 8192 ? whole.function_size : 8192;
    uint32_t n = whole.n_functions <= 2 * PLUGIN_FUNCTIONS_MAX ? whole.n_functions : 0, n_texts = 3;
    char error[LOADER_ERROR] = "", *texts[3 + 4 * PLUGIN_FUNCTIONS_MAX];
    struct host_plugin *p = NULL;

    whole.name = texts[0] = text(&in);
    whole.version = texts[1] = text(&in);
    whole.help = texts[2] = text(&in);
    uint8_t *functions = calloc(n ? n : 1, stride ? stride : 1);
    FUZZ_CHECK(functions);
    for (uint32_t i = 0; i < n; i++) {
        struct wsd_function f = {
            .name = texts[n_texts] = text(&in), .help = texts[n_texts + 1] = text(&in), .run = run};

        if (f.name && f.name[0] == '~')
            f.run = NULL;
        n_texts += 2;
        memcpy(functions + (size_t)i * stride, &f, stride < sizeof(f) ? stride : sizeof(f));
    }
    whole.functions = n || whole.n_functions == 0 ? (const struct wsd_function *)(const void *)functions : NULL;
    void *descriptor = block(&whole, sizeof(whole), said);
    int r = plugin_new(&p, descriptor, error, sizeof(error));

    if (r == 0)
        check_plugin(p);
    else
        FUZZ_CHECK((r == -ENOEXEC || r == -ELIBBAD) && *error && !strchr(error, '\n') && !p);
    plugin_free(p);
    free(descriptor);
    free(functions);
    for (uint32_t i = 0; i < n_texts; i++)
        free(texts[i]);
    return 0;
}
