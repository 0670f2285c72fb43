/* SPDX-License-Identifier: Apache-2.0
 *
 * promised.c: durable jobs of a daemon that is killed.
 *
 *     promised submit FUNCTION LEDGER NAME IN_FLIGHT ACKNOWLEDGED
 *         Submits ledger:FUNCTION LEDGER NAME.N for N = 1.. until the connection ends. Each job that wsd has accepted
 *         is a line ID FUNCTION NAME.N in the file ACKNOWLEDGED. Exits 0.
 *     promised check ACKNOWLEDGED...
 *         Waits for each of them to end; a right output is NAME.N. Prints `acknowledged N succeeded N interrupted N
 *         missing N wrong N doubled N`, and a line NAME.N STATE FUNCTION for each on descriptor 3. Exits 0 where the
 *         last three are 0 and only such as may not run twice were interrupted. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wsd/client.h>

static struct wsd_client *client;

static int lost(const char *what)
{
    fprintf(stderr, "promised: %s: %s\n", what, wsd_client_error(client));
    return 1;
}

/* --- submit ------------------------------------------------------------------------------------------------------- */

static const char *function;
static unsigned in_flight;
static int acknowledged;
static bool failed;

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    char text[WSD_ID_TEXT], line[256];

    wsd_id_text(id, text);
    int n = snprintf(line, sizeof(line), "%s %s %s\n", text, function, (const char *)userdata);
    if (write(acknowledged, line, (size_t)n) != n)
        failed = true;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    if (error && error != -ECONNRESET) {
        fprintf(stderr, "promised: %s\n", text);
        failed = true;
    }
    in_flight--;
    free(userdata);
}

static int submit(char **argv)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .accepted = on_accepted, .done = on_done};
    unsigned window = (unsigned)atoi(argv[3]);
    int r = 0;

    function = argv[0];
    acknowledged = open(argv[4], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (acknowledged < 0)
        return 1;
    if (wsd_client_open(&client, NULL, 0) < 0)
        return 0; /* it was killed before we came */
    for (unsigned n = 1; r == 0 && !failed;) {
        while (r == 0 && in_flight < window) {
            struct wsd_callbacks c = callbacks;
            char *name;

            if (asprintf(&name, "%s.%u", argv[2], n++) < 0)
                return 70;
            const char *args[] = {argv[1], name};
            struct wsd_submit s = {.size = sizeof(s),
                                   .plugin = "ledger",
                                   .function = function,
                                   .args = args,
                                   .n_args = 2,
                                   .flags = WSD_SUBMIT_DURABLE};
            c.userdata = name;
            r = wsd_client_submit(client, &s, &c, NULL);
            in_flight += r == 0;
        }
        if (r == 0)
            r = wsd_client_wait(client, UINT64_MAX);
    }
    wsd_client_free(client);
    return failed;
}

/* --- check -------------------------------------------------------------------------------------------------------- */

struct job {
    struct wsd_id id;
    char function[16], name[64];
    unsigned listed;
};

static struct job *jobs;
static size_t n_jobs, n_done;
static unsigned n_succeeded, n_interrupted, n_missing, n_wrong, n_doubled;

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct wsd_id));
}

static int load(const char *path)
{
    char line[256], text[64];
    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof(line), f)) {
        jobs = realloc(jobs, (n_jobs + 1) * sizeof(*jobs));
        struct job *j = &jobs[n_jobs];
        memset(j, 0, sizeof(*j));
        if (sscanf(line, "%63s %15s %63s", text, j->function, j->name) == 3 && wsd_id_parse(text, &j->id) == 0)
            n_jobs++;
    }
    return f ? fclose(f) : -1;
}

static int on_listed(const struct wsd_job_info *info, void *userdata)
{
    struct job *j = bsearch(&info->id, jobs, n_jobs, sizeof(*jobs), by_id);

    if (j)
        j->listed++;
    return 0;
}

static void on_end(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct job *j = userdata;
    char want[80];
    size_t size;
    const char *output = wsd_call_output(call, &size);
    int n = snprintf(want, sizeof(want), "%s\n", j->name);

    n_done++;
    if (error) {
        fprintf(stderr, "promised: %s: %s\n", j->name, text);
        n_missing++;
        return;
    }
    dprintf(3, "%s %s %s\n", j->name, wsd_job_state_name(info->state), j->function);
    if (info->state == WSD_JOB_SUCCEEDED && size == (size_t)n && memcmp(output, want, size) == 0)
        n_succeeded++;
    else if (info->state == WSD_JOB_INTERRUPTED && strcmp(j->function, "once") == 0)
        n_interrupted++;
    else
        n_wrong++;
}

static int check(int argc, char **argv)
{
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_end};

    for (int i = 0; i < argc; i++)
        if (load(argv[i]) < 0)
            fprintf(stderr, "promised: %s: %s\n", argv[i], strerror(errno));
    qsort(jobs, n_jobs, sizeof(*jobs), by_id);
    if (wsd_client_open(&client, NULL, 0) < 0 || wsd_client_list(client, on_listed, NULL) < 0)
        return lost("cannot begin");
    for (size_t i = 0; i < n_jobs; i++) {
        n_doubled += jobs[i].listed != 1 || (i > 0 && by_id(&jobs[i - 1], &jobs[i]) == 0);
        callbacks.userdata = &jobs[i];
        if (wsd_client_attach(client, &jobs[i].id, &callbacks, NULL) < 0)
            return lost("cannot ask");
    }
    while (n_done < n_jobs)
        if (wsd_client_wait(client, 60000000) < 0)
            return lost("cannot wait");
    printf("acknowledged %zu succeeded %u interrupted %u missing %u wrong %u doubled %u\n", n_jobs, n_succeeded,
           n_interrupted, n_missing, n_wrong, n_doubled);
    wsd_client_free(client);
    return n_missing || n_wrong || n_doubled;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "submit") == 0)
        return submit(argv + 2);
    if (argc > 2 && strcmp(argv[1], "check") == 0)
        return check(argc - 2, argv + 2);
    return 64;
}
