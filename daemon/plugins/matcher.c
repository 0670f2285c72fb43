/* SPDX-License-Identifier: Apache-2.0
 *
 * matcher.c: which lines match, by two ways that give the same answer.
 * Owns the compiled patterns, and one set of the C library's for each task that runs at once, since regexec() locks its
 * pattern. Knows nothing of files or output.
 *
 * The scanner goes over many lines at once. A line that it is sure of matches. One that it only suspects is given to
 * the C library, and so are all lines where the scanner does not take the patterns.
 * Keeps: the C library's automata are given back when they have grown for long. */
#include "matcher.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

#define POLL_LINES  1024u        /* between two looks at the cancel flag */
#define CHECK_BYTES (16u * 1024) /* between two looks at what matching costs */
#define LONG_LINE   (64u << 20)
#define IGNORED_MAX 8u /* matches of a line that is known to match, before the scan begins anew behind it */

/* regexec() keeps each state of its automaton, of 2 KiB and more, as long as the pattern. It makes at most one for each
 * byte, in microseconds, so that CPU time is what tells how many there are: nothing else does. */
#define SLOW_BYTE_NSEC 50u
#define SLOW_NSEC      UINT64_C(1000000000)

/* ---- counting ---- */

#define LANES 16u

typedef uint8_t lanes __attribute__((vector_size(LANES)));

/* Each lane counts to 255 at most. */
static uint64_t sum_lanes(lanes counts)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < LANES; i++)
        n += counts[i];
    return n;
}

static lanes newlines_at(const char *data)
{
    lanes bytes;

    memcpy(&bytes, data, LANES);
    return (lanes)(bytes == '\n'); /* 255, which is -1, where it is one */
}

uint64_t count_newlines(const char *data, size_t size)
{
    uint64_t n = 0;

    while (size >= 4 * LANES) {
        size_t rounds = MIN(size / (4 * LANES), 255);
        lanes counts[4] = {{0}};

        for (size_t i = 0; i < rounds; i++, data += 4 * LANES)
            for (unsigned j = 0; j < 4; j++)
                counts[j] -= newlines_at(data + j * LANES);
        size -= rounds * 4 * LANES;
        for (unsigned j = 0; j < 4; j++)
            n += sum_lanes(counts[j]);
    }
    for (size_t i = 0; i < size; i++)
        n += data[i] == '\n';
    return n;
}

/* ---- sets ---- */

struct place {
    regoff_t begin, end; /* begin is negative: nowhere */
    bool lasts;          /* it is the next one from each place up to its begin */
};

/* What one task has at a time. Its patterns are compiled when the first is needed. */
struct set {
    struct scratch *scratch;
    struct place *next;     /* of each pattern in a line, where places are asked for */
    size_t n;               /* patterns that are compiled */
    uint64_t compiled_nsec; /* what it took to compile */
    uint64_t slow_nsec;     /* what matching took where it was slow, since then */
    regex_t patterns[];
};

static void set_release(struct set *set)
{
    for (size_t i = 0; i < set->n; i++)
        regfree(&set->patterns[i]);
    set->n = 0;
    set->slow_nsec = 0;
}

static void set_free(void *object)
{
    struct set *set = object;

    if (!set)
        return;
    set_release(set);
    scratch_free(set->scratch);
    free(set->next);
    free(set);
}

static void *set_new(void *context)
{
    const struct matcher *matcher = context;
    struct set *set = calloc(1, sizeof(*set) + matcher->n_patterns * sizeof(regex_t));

    if (!set)
        return NULL;
    if (matcher->scanner)
        set->scratch = scratch_new(matcher->scanner);
    if (matcher->places)
        set->next = calloc(matcher->n_patterns, sizeof(*set->next));
    if ((matcher->scanner && !set->scratch) || (matcher->places && !set->next)) {
        set_free(set);
        return NULL;
    }
    return set;
}

/* The CPU time of this thread. */
static uint64_t thread_nsec(void)
{
    struct timespec t = {.tv_sec = 0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 0 or regcomp()'s error; nothing is compiled then. */
static int set_compile(const struct matcher *matcher, struct set *set)
{
    int flags = REG_EXTENDED | (matcher->fold ? REG_ICASE : 0) | (matcher->places || matcher->words ? 0 : REG_NOSUB);
    uint64_t begin = thread_nsec();
    int r = 0;

    for (; set->n < matcher->n_patterns && !r; set->n += !r)
        r = regcomp(&set->patterns[set->n], matcher->patterns[set->n].source, flags);
    if (r)
        set_release(set);
    set->compiled_nsec = thread_nsec() - begin;
    return r;
}

/* ---- the C library ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED                                                                                                      \
    (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer))
#else
#define SANITIZED 0
#endif

/* Of a call of the C library, before which errno was 0: 1 found, 0 not, or -ENOMEM. Where glibc gets no memory it may
 * say "no match", now or later: the automaton keeps states that are not whole. A failed allocation sets errno. */
static int answer_of(regoff_t at, bool found)
{
    return errno == ENOMEM || at < -1 ? -ENOMEM : found;
}

/* 1 yes, 0 no, or -ENOMEM. The line ends after size bytes, wherever a NUL may be. */
static int regex_searches(regex_t *pattern, const char *line, size_t size)
{
    errno = 0;
    regoff_t at = re_search(pattern, line, (regoff_t)size, 0, (regoff_t)size, NULL);

    return answer_of(at, at >= 0);
}

/* 1 yes, 0 no, or -ENOMEM. re_search() is slower, since it also finds the match's end. But glibc's limit on its buffers,
 * of which regexec() does not tell, is beyond LONG_LINE. The regexec() of the sanitizers does not know REG_STARTEND and
 * would read on. */
static int regex_matches(regex_t *pattern, const char *line, size_t size)
{
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)size};

    if (SANITIZED || size > LONG_LINE)
        return regex_searches(pattern, line, size);
    errno = 0;
    int r = regexec(pattern, line, 1, &range, REG_STARTEND);
    return answer_of(0, r == 0);
}

static bool is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool stands_alone(const char *line, size_t size, const struct place *place)
{
    return (place->begin == 0 || !is_word(line[place->begin - 1])) &&
           ((size_t)place->end == size || !is_word(line[place->end]));
}

/* The next match, the longest there. 1, 0, or -ENOMEM. */
static int regex_place(regex_t *pattern, const char *line, size_t size, size_t from, struct re_registers *registers,
                       struct place *ret_place)
{
    errno = 0;
    regoff_t at = re_search(pattern, line, (regoff_t)size, (regoff_t)from, (regoff_t)size - (regoff_t)from, registers);

    *ret_place = (struct place){.begin = at, .end = at < 0 ? at : registers->end[0], .lasts = at >= -1};
    return answer_of(at, at >= 0);
}

/* A shorter match at the same place. 1, 0, or -ENOMEM. Like grep's, it does not see what comes before
 * `from`. */
static int regex_shorter(regex_t *pattern, const char *line, size_t from, struct re_registers *registers,
                         struct place *place)
{
    regoff_t size = place->end - 1 - (regoff_t)from, n;

    if (place->end == place->begin)
        return 0;
    pattern->not_eol = 1;
    errno = 0;
    n = size < place->begin ? -1 : re_match(pattern, line, size, place->begin, registers);
    pattern->not_eol = 0;
    int r = answer_of(n, n >= 0);
    if (r == 1)
        place->end = place->begin + n;
    return r;
}

/* As grep -w: where a match touches a word character, shorter ones are tried, then later ones. What that finds depends on
 * `from`, and does not last. */
static int regex_word(const struct matcher *matcher, regex_t *pattern, const char *line, size_t size, size_t from,
                      struct re_registers *registers, struct place *place)
{
    int r = regex_place(pattern, line, size, from, registers, place);
    bool lasts = true;

    while (r > 0 && !stands_alone(line, size, place)) {
        if (wsd_job_cancelled(matcher->job))
            return -ECANCELED;
        lasts = false;
        r = regex_shorter(pattern, line, from, registers, place);
        if (r)
            continue;
        if ((size_t)place->begin == size)
            break;
        r = regex_place(pattern, line, size, (size_t)place->begin + 1, registers, place);
    }
    place->lasts &= lasts;
    return r;
}

static int regex_find(const struct matcher *matcher, regex_t *pattern, const char *line, size_t size, size_t from,
                      struct place *ret_place)
{
    struct re_registers registers = {.num_regs = 0};
    int r;

    /* The registers are regcomp()'s to allocate, each time anew. */
    pattern->regs_allocated = REGS_UNALLOCATED;
    r = matcher->words ? regex_word(matcher, pattern, line, size, from, &registers, ret_place)
                       : regex_place(pattern, line, size, from, &registers, ret_place);
    if (registers.num_regs) { /* else glibc was out of memory, and has freed what it had */
        free(registers.start);
        free(registers.end);
    }
    return r;
}

static bool may_match(const struct pattern *pattern, const char *line, size_t size)
{
    return !pattern->must_size || memmem(line, size, pattern->must, pattern->must_size);
}

/* 1 yes, 0 no, or a negative errno. */
static int set_matches(const struct matcher *matcher, struct set *set, const char *line, size_t size)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct pattern *pattern = &matcher->patterns[i];
        struct place place;
        int r;

        if (!may_match(pattern, line, size))
            continue;
        if (matcher->words)
            r = regex_find(matcher, &set->patterns[i], line, size, 0, &place);
        else
            r = pattern->literal ? 1 : regex_matches(&set->patterns[i], line, size);
        if (r)
            return r;
    }
    return 0;
}

/* Finds a pattern's next place, but not again before `from` has passed it. 0 or a negative errno. */
static int find_next(const struct matcher *matcher, struct set *set, size_t i, const char *line, size_t size,
                     size_t from)
{
    const struct pattern *pattern = &matcher->patterns[i];
    struct place *next = &set->next[i];
    int r = 0;

    if (next->lasts && (next->begin < 0 || (size_t)next->begin >= from))
        return 0;
    if (wsd_job_cancelled(matcher->job))
        return -ECANCELED;
    next->lasts = true;
    if (may_match(pattern, line + from, size - from))
        r = regex_find(matcher, &set->patterns[i], line, size, from, next);
    if (r <= 0)
        next->begin = -1;
    next->lasts = r >= 0 && (next->lasts || pattern->literal);
    return MIN(r, 0);
}

/* The first of the longest. 1, 0, or a negative errno. */
static int set_finds(const struct matcher *matcher, struct set *set, const char *line, size_t size, size_t from,
                     struct place *ret_place)
{
    bool found = false;

    for (size_t i = 0; i < set->n; i++) {
        const struct place *next = &set->next[i];
        int r = find_next(matcher, set, i, line, size, from);

        if (r < 0)
            return r;
        if (next->begin >= 0 && (!found || next->begin < ret_place->begin ||
                                 (next->begin == ret_place->begin && next->end > ret_place->end))) {
            *ret_place = *next;
            found = true;
        }
    }
    return found;
}

/* Compiles anew: the automaton that regexec() has built so far, and never shrinks, is given back first. 0, -ENOMEM, or
 * -EINVAL if the scanner took what regcomp() refuses. */
static int renew(const struct matcher *matcher, struct set *set)
{
    int r;

    set_release(set);
    r = set_compile(matcher, set);
    return !r ? 0 : r == REG_ESPACE ? -ENOMEM : -EINVAL;
}

/* As set_matches() or, with ret_place, set_finds(). If memory is short, gives back what the automaton has taken, and
 * tries again. */
static int set_asks(const struct matcher *matcher, struct set *set, const char *line, size_t size, size_t from,
                    struct place *ret_place)
{
    int r = set->n ? 0 : renew(matcher, set);

    if (r)
        return r;
    if (size >= INT_MAX)
        return -ENOMEM; /* what regexec() can address; grep ends in the same way */
    for (unsigned tries = 0; tries < 2; tries++) {
        r = ret_place ? set_finds(matcher, set, line, size, from, ret_place) : set_matches(matcher, set, line, size);
        if (r != -ENOMEM || tries)
            break;
        r = renew(matcher, set);
        if (r)
            break;
    }
    return r;
}

/* After so many bytes that took so long: an automaton that has grown for SLOW_NSEC is given back. Where bytes are
 * matched by an automaton that is there, they take a few nanoseconds each. */
static int limit_memory(const struct matcher *matcher, struct set *set, size_t bytes, uint64_t nsec)
{
    if (nsec < bytes * SLOW_BYTE_NSEC)
        return 0;
    set->slow_nsec += nsec;
    if (set->slow_nsec < MAX(SLOW_NSEC, 8 * set->compiled_nsec))
        return 0;
    return renew(matcher, set);
}

/* ---- a search ---- */

struct search {
    struct matcher *matcher;
    struct set *set;
    const char *data;
    size_t size;
    matcher_found found;
    void *arg;
    size_t bytes; /* given to the C library since the last look at its cost */
    uint64_t since_nsec;
    size_t base;      /* where this scan began */
    size_t done;      /* lines before it are decided */
    unsigned ignored; /* matches before it */
};

/* Looks at the cancel flag, and at what matching costs, where it is time for that. */
static int check(struct search *search, bool now)
{
    if (search->bytes < CHECK_BYTES && !now)
        return 0;

    uint64_t at_nsec = thread_nsec();
    int r = limit_memory(search->matcher, search->set, search->bytes, at_nsec - search->since_nsec);

    search->bytes = 0;
    search->since_nsec = at_nsec;
    return r ? r : wsd_job_cancelled(search->matcher->job) ? -ECANCELED : 0;
}

static size_t line_begin(const struct search *search, size_t from, size_t at)
{
    const char *newline = memrchr(search->data + from, '\n', at - from);

    return newline ? (size_t)(newline - search->data) + 1 : from;
}

static size_t line_end(const struct search *search, size_t at)
{
    const char *newline = memchr(search->data + at, '\n', search->size - at);

    return newline ? (size_t)(newline - search->data) : search->size;
}

/* By the C library. 0, what found() returned, or a negative errno. */
static int ask_line(struct search *search, size_t begin, size_t end)
{
    int r = set_asks(search->matcher, search->set, search->data + begin, end - begin, 0, NULL);

    if (r > 0)
        r = search->found(search->arg, begin, end);
    search->bytes += end - begin;
    return r ? r : check(search, false);
}

enum { AGAIN = 1 }; /* the scan ends, and begins anew behind the line */

/* found() may return anything, so that its answer goes beside the scan's. */
struct scan {
    struct search *search;
    int result;
};

static int on_match(void *arg, size_t at, bool exact)
{
    struct scan *scan = arg;
    struct search *search = scan->search;
    size_t begin, end;

    at += search->base;
    if (at == search->size && search->data[at - 1] == '\n')
        return 0; /* no line begins at the end */
    if (at < search->done)
        return search->ignored++ < IGNORED_MAX ? 0 : AGAIN;
    begin = line_begin(search, search->done, at);
    end = line_end(search, at);
    search->ignored = 0;
    search->done = end + 1;
    scan->result = exact ? search->found(search->arg, begin, end) : ask_line(search, begin, end);
    return scan->result ? AGAIN : 0;
}

/* By the scanner. */
static int search_scanned(struct search *search)
{
    struct scan scan = {.search = search};

    if (search->size > SCANNER_SIZE_MAX)
        return -ENOMEM; /* one line of so many bytes */
    for (int r = AGAIN; r == AGAIN && search->done < search->size;) {
        search->base = search->done;
        search->ignored = 0;
        r = scanner_scan(search->matcher->scanner, search->set->scratch, search->data + search->base,
                         search->size - search->base, on_match, &scan);
        if (r < 0 || scan.result)
            return r < 0 ? r : scan.result;
        if (wsd_job_cancelled(search->matcher->job))
            return -ECANCELED;
    }
    return 0;
}

static int search_always(struct search *search)
{
    int r = 0;

    for (size_t at = 0; at < search->size && !r;) {
        size_t end = line_end(search, at);

        r = search->found(search->arg, at, end);
        at = end + 1;
    }
    return r;
}

/* The line around the next place of bytes that each line that matches has; what comes before it cannot match. */
static size_t skip_lines(const struct search *search, const struct pattern *pattern, size_t at)
{
    const char *found = memmem(search->data + at, search->size - at, pattern->must, pattern->must_size);

    return found ? line_begin(search, at, (size_t)(found - search->data)) : search->size;
}

/* By the C library, line by line. */
static int search_lines(struct search *search)
{
    const struct matcher *matcher = search->matcher;
    const struct pattern *skip = matcher->n_patterns == 1 && matcher->patterns->must_size ? matcher->patterns : NULL;
    unsigned polls = 0;

    for (size_t at = 0; at < search->size;) {
        if (++polls % POLL_LINES == 0 && wsd_job_cancelled(matcher->job))
            return -ECANCELED;
        if (skip)
            at = skip_lines(search, skip, at);
        if (at == search->size)
            break;

        size_t end = line_end(search, at);
        int r = ask_line(search, at, end);

        if (r)
            return r;
        at = end + 1;
    }
    return check(search, true);
}

int matcher_search(struct matcher *matcher, const char *data, size_t size, matcher_found found, void *arg)
{
    struct search search = {.matcher = matcher, .data = data, .size = size, .found = found, .arg = arg};
    int r;

    if (matcher->always)
        return search_always(&search);
    search.set = cache_take(&matcher->sets);
    if (!search.set)
        return -ENOMEM;
    search.since_nsec = thread_nsec();
    r = matcher->scanner ? search_scanned(&search) : search_lines(&search);
    cache_give(&matcher->sets, search.set);
    return r;
}

static int search_places(struct matcher *matcher, struct set *set, const char *line, size_t size, matcher_found found,
                         void *arg)
{
    struct place place = {.begin = 0};
    int r = 0;

    memset(set->next, 0, matcher->n_patterns * sizeof(*set->next));
    for (size_t from = 0; from < size && !r; from = (size_t)MAX(place.end, place.begin + 1)) {
        if (wsd_job_cancelled(matcher->job))
            return -ECANCELED;
        r = set_asks(matcher, set, line, size, from, &place);
        if (r <= 0)
            return r;
        r = place.end > place.begin ? found(arg, (size_t)place.begin, (size_t)place.end) : 0;
    }
    return r;
}

int matcher_places(struct matcher *matcher, const char *line, size_t size, matcher_found found, void *arg)
{
    struct set *set = cache_take(&matcher->sets);
    int r = set ? search_places(matcher, set, line, size, found, arg) : -ENOMEM;

    if (set)
        cache_give(&matcher->sets, set);
    return r;
}

/* ---- making one ---- */

static int take_patterns(struct matcher *matcher, const char *text)
{
    size_t n = 1 + count_newlines(text, strlen(text));
    uint64_t added = 0;

    matcher->patterns = calloc(n, sizeof(*matcher->patterns));
    if (!matcher->patterns)
        return -ENOMEM;
    for (; matcher->n_patterns < n; matcher->n_patterns++) {
        size_t size = strcspn(text, "\n");
        struct pattern *pattern = &matcher->patterns[matcher->n_patterns];
        int r = matcher->fixed ? pattern_init_fixed(pattern, text, size, matcher->fold)
                               : pattern_init(pattern, text, size, matcher->fold);

        if (r)
            return r;
        added += pattern->added;
        text += size + 1;
    }
    return added > PATTERN_ADDED_MAX ? PATTERN_E_LARGE : 0;
}

/* Whether regcomp() can take all of them. */
static bool are_short(const struct matcher *matcher)
{
    for (size_t i = 0; i < matcher->n_patterns; i++)
        if (matcher->patterns[i].empty > PATTERN_EMPTY_MAX)
            return false;
    return true;
}

/* 0, TRANSLATION_E_*, SCANNER_E_* or -ENOMEM: what is not 0 leaves the C library to do all. */
static int make_scanner(struct matcher *matcher, struct translation *translations)
{
    for (size_t i = 0; i < matcher->n_patterns; i++) {
        int r = translation_init(&translations[i], matcher->patterns[i].source, matcher->fold, matcher->words);

        if (r)
            return r;
        matcher->always |= translations[i].always;
        matcher->asks |= !translations[i].exact;
    }
    if (matcher->always)
        return 0;
    return scanner_new(translations, matcher->n_patterns, matcher->fold, &matcher->scanner);
}

static int take_scanner(struct matcher *matcher)
{
    struct translation *translations = calloc(matcher->n_patterns, sizeof(*translations));
    int r = translations ? make_scanner(matcher, translations) : -ENOMEM;

    for (size_t i = 0; translations && i < matcher->n_patterns; i++)
        translation_deinit(&translations[i]);
    free(translations);
    return r;
}

/* Compiled once for the message; the tasks take this one first. 0 or an exit code. */
static int take_set(struct matcher *matcher)
{
    struct set *set = set_new(matcher);
    int r = set ? set_compile(matcher, set) : REG_ESPACE;

    if (r) {
        char why[128];

        regerror(r, NULL, why, sizeof(why));
        set_free(set);
        return wsd_job_fail(matcher->job, 2, "%s", why);
    }
    cache_give(&matcher->sets, set);
    return 0;
}

int matcher_init(struct matcher *matcher, const char *text)
{
    int r = take_patterns(matcher, text);

    cache_init(&matcher->sets, set_new, set_free, matcher);
    if (r == PATTERN_E_CLASS)
        return wsd_job_fail(matcher->job, 2, "character class syntax is [[:space:]], not [:space:]");
    if (r == PATTERN_E_LARGE)
        return wsd_job_fail(matcher->job, 2,
                            "pattern too large: its repeats, written out, add more than %u bytes and sets; make its "
                            "repeats smaller",
                            PATTERN_ADDED_MAX);
    if (r == PATTERN_E_NESTED)
        return wsd_job_fail(matcher->job, 2, "pattern too deep: it has more than %u repeats in repeats",
                            PATTERN_NESTED_MAX);
    if (r == PATTERN_E_DEPTH)
        return wsd_job_fail(matcher->job, 2, "pattern too deep: it has more than %u groups in groups",
                            PATTERN_DEPTH_MAX);
    if (r)
        return wsd_job_fail(matcher->job, 2, "out of memory");
    r = take_scanner(matcher);
    if (r == TRANSLATION_E_LARGE)
        return wsd_job_fail(matcher->job, 2,
                            "pattern too large: it has more than %u bytes and sets with its repeats written out; make "
                            "its repeats smaller",
                            TRANSLATION_POSITIONS_MAX);
    bool at_once = r || matcher->places; /* places are the C library's to find */
    if ((at_once || matcher->asks) && !are_short(matcher))
        return wsd_job_fail(matcher->job, 2,
                            "pattern too large: with its repeats written out it has more than %u pieces in a row that "
                            "may match nothing, or more than %u anchors in a row; make its repeats smaller",
                            PATTERN_EMPTY_MAX, PATTERN_EMPTY_MAX / PATTERN_ANCHOR_WEIGHT);
    return at_once ? take_set(matcher) : 0;
}

void matcher_deinit(struct matcher *matcher)
{
    cache_deinit(&matcher->sets);
    matcher->scanner = scanner_free(matcher->scanner);
    for (size_t i = 0; i < matcher->n_patterns; i++)
        pattern_deinit(&matcher->patterns[i]);
    free(matcher->patterns);
}
