/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-driver.c: runs a fuzzer's entry point over its corpus and over mutations of it, with any compiler.
 * Owns the corpus in memory. Arguments: directories or files of the corpus.
 * WSD_FUZZ_RUNS: the number of mutated inputs (1000000); a fifth of it without WSD_THOROUGH. WSD_FUZZ_SEED: the seed of
 * the random numbers (1), so that every run can be repeated. WSD_FUZZ_CRASH: a file; each input is written to it before
 * it is run (slow), so that an input that crashes is kept. It does not look at coverage: that is libFuzzer's work. */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX  (70u * 1024u)
#define CORPUS_MAX 1024

struct input {
    uint8_t *data;
    size_t size;
};

static struct input corpus[CORPUS_MAX];
static size_t n_corpus;
static uint64_t state;

static uint64_t next(void)
{
    /* splitmix64 */
    uint64_t z = (state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t n)
{
    return n ? (size_t)(next() % n) : 0;
}

static int load_file(const char *path)
{
    static uint8_t data[INPUT_MAX];
    FILE *file = fopen(path, "re");

    if (!file || n_corpus == CORPUS_MAX) {
        fprintf(stderr, "%s: cannot be read, or too many\n", path);
        return -1;
    }
    struct input *input = &corpus[n_corpus++];

    input->size = fread(data, 1, sizeof(data), file);
    input->data = malloc(input->size + 1);
    if (!input->data)
        abort();
    memcpy(input->data, data, input->size);
    fclose(file);
    return 0;
}

static int load(const char *path)
{
    struct dirent **names;
    char file[4096];
    int n = scandir(path, &names, NULL, alphasort), r = 0;

    if (n < 0)
        return load_file(path);
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.' && r == 0) {
            snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
            r = load_file(file);
        }
        free(names[i]);
    }
    free(names);
    return r;
}

static size_t insert(uint8_t *data, size_t size, size_t at, const uint8_t *piece, size_t n)
{
    if (size + n > INPUT_MAX)
        return size;
    memmove(data + at + n, data + at, size - at);
    memcpy(data + at, piece, n);
    return size + n;
}

static size_t mutate(uint8_t *data, size_t size)
{
    static const uint8_t interesting[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x0a, 0x12, 0x1a, 0x32, 0x57, 0xf0, 0xfe, 0x10};
    uint8_t piece[16];
    size_t at = below(size), n;

    switch (below(8)) {
    case 0:
        if (size)
            data[at] ^= (uint8_t)(1u << below(8));
        return size;
    case 1:
        if (size)
            data[at] = interesting[below(sizeof(interesting))];
        return size;
    case 2:
        if (size)
            data[at] = (uint8_t)next();
        return size;
    case 3: /* a number nudged */
        if (size)
            data[at] = (uint8_t)(data[at] + (below(2) ? 1 : -1));
        return size;
    case 4: /* something removed */
        n = 1 + below(below(4) ? 4 : size);
        n = n > size - at ? size - at : n;
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    case 5: /* something new */
        n = 1 + below(sizeof(piece));
        for (size_t i = 0; i < n; i++)
            piece[i] = (uint8_t)next();
        return insert(data, size, at, piece, n);
    case 6: /* something twice */
        n = 1 + below(size - at);
        if (n > size - at)
            return size;
        {
            uint8_t *copy = malloc(n);

            if (!copy)
                abort();
            memcpy(copy, data + at, n);
            size = insert(data, size, below(size), copy, n);
            free(copy);
        }
        return size;
    default: { /* something of another */
        const struct input *other = &corpus[below(n_corpus)];
        size_t from = below(other->size);

        return insert(data, size, at, other->data + from, below(other->size - from + 1));
    }
    }
}

static void keep(const char *path, const uint8_t *data, size_t size)
{
    FILE *file = fopen(path, "we");

    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

/* In a block of the exact size, so that ASan and valgrind see a read beyond it. */
static void run(const uint8_t *data, size_t size)
{
    const char *crash = getenv("WSD_FUZZ_CRASH");
    uint8_t *exact = malloc(size ? size : 1);

    if (!exact)
        abort();
    if (crash)
        keep(crash, data, size);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

int main(int argc, char **argv)
{
    const char *runs_text = getenv("WSD_FUZZ_RUNS"), *seed_text = getenv("WSD_FUZZ_SEED");
    unsigned long long runs = runs_text ? strtoull(runs_text, NULL, 10) : 1000000;
    unsigned long long share = getenv("WSD_THOROUGH") ? 1 : 5;
    static uint8_t data[INPUT_MAX];

    state = seed_text ? strtoull(seed_text, NULL, 10) : 1;
    for (int i = 1; i < argc; i++)
        if (load(argv[i]) < 0)
            return 1;
    if (n_corpus == 0) {
        fprintf(stderr, "usage: %s CORPUS...\n", argv[0]);
        return 1;
    }
    for (size_t i = 0; i < n_corpus; i++)
        run(corpus[i].data, corpus[i].size);
    for (unsigned long long i = 0; i < runs / share; i++) {
        const struct input *input = &corpus[below(n_corpus)];
        size_t size = input->size;

        memcpy(data, input->data, size);
        for (size_t n = 1 + below(below(4) ? 3 : 12); n > 0; n--)
            size = mutate(data, size);
        run(data, size);
    }
    for (size_t i = 0; i < n_corpus; i++)
        free(corpus[i].data);
    printf("%zu kept inputs, %llu mutated ones\n", n_corpus, runs / share);
    return 0;
}
