/* mine.c: an example of a plugin for wsd, with two functions. */
#include <ctype.h>
#include <stdlib.h>
#include <wsd/plugin.h>
#include <wsd/task.h>

/* Small enough to be done within a millisecond, large enough to be worth a task. */
#define PIECE 10000

static long count_primes(long begin, long end)
{
    long found = 0;

    for (long n = begin; n < end; n++) {
        long divisor = 2;

        while (divisor * divisor <= n && n % divisor != 0)
            divisor++;
        found += n >= 2 && divisor * divisor > n;
    }
    return found;
}

/* Halves the range until it is small. The first half is offered to other workers, the second is done here. */
WSD_TASK_3(long, primes, struct wsd_job *, job, long, begin, long, end)
{
    if (wsd_job_cancelled(job))
        return 0;
    if (end - begin <= PIECE)
        return count_primes(begin, end);

    long middle = begin + (end - begin) / 2;

    WSD_SPAWN(primes, job, begin, middle);
    long upper = WSD_CALL(primes, job, middle, end);
    return WSD_SYNC(primes) + upper;
}

static int run_primes(struct wsd_job *job, struct wsd_worker *self)
{
    char *rest = NULL;
    long end = job->argc == 2 ? strtol(job->argv[1], &rest, 10) : -1;

    if (end < 0 || *rest)
        return wsd_job_fail(job, 2, "usage: %s N", job->argv[0]);

    long found = WSD_CALL(primes, job, 0, end);

    if (wsd_job_cancelled(job))
        return 1;
    return wsd_job_print(job, "%ld primes below %ld\n", found, end) ? 1 : 0;
}

/* Input of any size becomes upper case: it is read as it comes, straight into the output. */
static int run_upper(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t done = 0;

    for (;;) {
        size_t size;
        char *text = wsd_job_reserve(job, 65536, &size);
        int64_t n = text ? wsd_job_read(job, text, size) : -1;

        if (n <= 0)
            return n < 0 ? 1 : 0;
        for (int64_t i = 0; i < n; i++)
            text[i] = (char)toupper((unsigned char)text[i]);
        if (wsd_job_commit(job, (size_t)n))
            return 1;
        done += (uint64_t)n;
        wsd_job_progress(job, done, 0);
    }
}

static const struct wsd_function functions[] = {
    {.name = "primes", .help = "N: counts the primes below N", .flags = WSD_FN_IDEMPOTENT, .run = run_primes},
    {.name = "upper", .help = "the input in upper case", .flags = WSD_FN_IDEMPOTENT | WSD_FN_STREAMING, .run = run_upper},
};

WSD_PLUGIN(.n_functions = 2, .functions = functions, .name = "mine", .version = "1", .help = "an example");
