/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c: many jobs from many client processes at once; every answer is checked.
 * Each job echoes bytes that no other job has, so that an answer to the wrong call shows. Prints one line of counts.
 * Exits 0 where every job was answered exactly once and every success was right; else 1.
 *
 * Usage:
 *     load [-p PROCESSES] [-n JOBS, all together] [-w IN_FLIGHT, each] [-b BYTES] [-m OTHER] PLUGIN[:FUNCTION]
 *
 * -m: every second process submits OTHER (PLUGIN[:FUNCTION] too). The counts others and others-succeeded are of these.
 *
 *     load -c CONNECTIONS: no jobs; holds that many open, says "held", until it is killed.
 *
 * -f: wsd is short of a resource. Refusals and ends of connections, also with jobs under way, are no errors. A process
 * begins again on a new connection. Each answer must be right, and none may come twice.
 *
 * -t: the daemon is being stopped. A refusal or the end of the connection ends a process and is no error. Jobs that
 * were accepted must be answered all the same. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <wsd/client.h>

struct counts {
    uint64_t submitted, accepted, answered, right, wrong, doubled, refused, lost, cut, strange;
    uint64_t states[16];
};

struct load {
    struct counts *counts;
    struct wsd_client *client;
    const char *plugin, *function;
    uint64_t first, n, next, done;
    unsigned in_flight, window, bytes;
    bool tolerant, lied_to, faulty, stopped;
};

struct one {
    struct load *load;
    char *payload;
    struct wsd_id id;
    bool accepted, answered;
};

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    struct one *o = userdata;

    (void)call;
    if (o->accepted)
        o->load->counts->doubled++;
    o->id = *id;
    o->accepted = true;
    o->load->counts->accepted++;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct one *o = userdata;
    struct load *l = o->load;
    struct counts *n = l->counts;
    size_t size;
    const void *output = wsd_call_output(call, &size);

    if (o->answered)
        n->doubled++;
    o->answered = true;
    l->in_flight--;
    l->done++;
    if (error == -ECONNRESET || error == -EPIPE) {
        /* accepted and never answered: that is what must not happen, whatever is being stopped */
        *(o->accepted && !l->faulty ? &n->lost : &n->cut) += 1;
        l->stopped = true;
    } else if (error) {
        n->refused++;
        if (!l->tolerant && !l->lied_to && !l->faulty && n->refused == 1)
            fprintf(stderr, "load: refused: %s\n", text);
        l->stopped |= l->tolerant && !l->faulty;
    } else {
        n->answered++;
        if (!o->accepted || memcmp(&o->id, &info->id, sizeof(o->id)) != 0)
            n->strange++;
        n->states[info->state & 15]++;
        if (info->state == WSD_JOB_SUCCEEDED) {
            bool right = size == l->bytes && memcmp(output, o->payload, size) == 0;

            *(right ? &n->right : &n->wrong) += 1;
        }
    }
    wsd_call_free(call);
    free(o->payload);
    free(o);
}

static int submit_one(struct load *l)
{
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .accepted = on_accepted, .done = on_done};
    struct one *o = calloc(1, sizeof(*o));
    struct wsd_call *call;

    o->load = l;
    o->payload = malloc(l->bytes + 32);
    memset(o->payload, '.', l->bytes);
    snprintf(o->payload, l->bytes, "%" PRIu64, l->first + l->next);
    struct wsd_submit submit = {.size = sizeof(submit),
                                .plugin = l->plugin,
                                .function = l->function,
                                .input = o->payload,
                                .input_size = l->bytes};
    callbacks.userdata = o;
    int r = wsd_client_submit(l->client, &submit, &callbacks, &call);
    if (r < 0) {
        free(o->payload);
        free(o);
        return r;
    }
    l->counts->submitted++;
    l->next++;
    l->in_flight++;
    return 0;
}

static int run(struct load *l)
{
    int r = wsd_client_open(&l->client, NULL, 0);

    if (r < 0) {
        if (!l->faulty)
            fprintf(stderr, "load: %s\n", wsd_client_error(l->client));
        wsd_client_free(l->client);
        return l->tolerant ? 0 : 1;
    }
    while ((l->next < l->n && !l->stopped) || l->in_flight) {
        while (l->next < l->n && !l->stopped && l->in_flight < l->window && r == 0)
            r = submit_one(l);
        if (r == 0 && l->in_flight)
            r = wsd_client_wait(l->client, UINT64_MAX);
        if (r < 0)
            break;
    }
    wsd_client_free(l->client); /* tells every call that is still open */
    return r < 0 && !l->tolerant ? 1 : 0;
}

/* Opens connections until all jobs are done, or until connecting fails for long. */
static int run_faulty(struct load *l)
{
    const struct timespec pause = {.tv_nsec = 10000000};

    for (int failures = 0; l->next < l->n && failures < 3000;) {
        uint64_t before = l->next;

        l->stopped = false;
        l->in_flight = 0;
        l->client = NULL;
        run(l);
        failures = l->next == before ? failures + 1 : 0;
        nanosleep(&pause, NULL);
    }
    return l->next < l->n;
}

static int hold(unsigned n)
{
    struct wsd_client *client;

    for (unsigned i = 0; i < n; i++)
        if (wsd_client_open(&client, NULL, 0) < 0) { /* each stays open until we end */
            fprintf(stderr, "load: %s\n", wsd_client_error(client));
            return 1;
        }
    puts("held");
    fflush(stdout);
    return pause();
}

/* PLUGIN[:FUNCTION]: cuts it, and gives the function. */
static const char *split(char *name)
{
    char *colon = strchr(name, ':');

    if (colon)
        *colon++ = 0;
    return colon;
}

int main(int argc, char **argv)
{
    char *other = NULL;
    unsigned processes = 8, window = 64, bytes = 24;
    uint64_t jobs = 100000;
    bool tolerant = false, lied_to = false, faulty = false;
    int o, failed = 0;

    while ((o = getopt(argc, argv, "p:n:w:b:m:ftxc:")) != -1)
        switch (o) {
        case 'p':
            processes = (unsigned)atoi(optarg);
            break;
        case 'n':
            jobs = strtoull(optarg, NULL, 10);
            break;
        case 'w':
            window = (unsigned)atoi(optarg);
            break;
        case 'b':
            bytes = (unsigned)atoi(optarg);
            break;
        case 'c':
            return hold((unsigned)atoi(optarg));
        case 'f':
            tolerant = faulty = true;
            break;
        case 'm':
            other = optarg;
            break;
        case 't':
            tolerant = true;
            break;
        case 'x':
            lied_to = true;
            break;
        default:
            return 64;
        }
    if (optind + 1 != argc)
        return 64;
    const char *function = split(argv[optind]), *other_function = other ? split(other) : NULL;
    struct counts *all =
        mmap(NULL, (processes + 1) * sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 70;
    for (unsigned i = 0; i < processes; i++)
        if (fork() == 0) {
            bool is_other = other && i % 2;
            struct load l = {.counts = &all[i],
                             .plugin = is_other ? other : argv[optind],
                             .function = is_other ? other_function : function,
                             .first = i * jobs,
                             .n = jobs / processes,
                             .window = window,
                             .bytes = bytes,
                             .tolerant = tolerant,
                             .lied_to = lied_to,
                             .faulty = faulty};

            prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with its parent */
            _exit(faulty ? run_faulty(&l) : run(&l));
        }
    for (int status; wait(&status) > 0;)
        failed |= status;
    struct counts *sum = &all[processes];
    for (unsigned i = 0; i < processes; i++)
        for (size_t j = 0; j < sizeof(*sum) / sizeof(uint64_t); j++)
            ((uint64_t *)sum)[j] += ((uint64_t *)&all[i])[j];
    printf("submitted %" PRIu64 " accepted %" PRIu64 " answered %" PRIu64 " right %" PRIu64 " wrong %" PRIu64
           " doubled %" PRIu64 " refused %" PRIu64 " lost %" PRIu64 " cut %" PRIu64 " strange %" PRIu64,
           sum->submitted, sum->accepted, sum->answered, sum->right, sum->wrong, sum->doubled, sum->refused, sum->lost,
           sum->cut, sum->strange);
    if (other) {
        uint64_t others = 0, succeeded = 0;

        for (unsigned i = 1; i < processes; i += 2) {
            others += all[i].answered;
            succeeded += all[i].states[WSD_JOB_SUCCEEDED];
        }
        printf(" others %" PRIu64 " others-succeeded %" PRIu64, others, succeeded);
    }
    for (enum wsd_job_state s = WSD_JOB_SUCCEEDED; s <= WSD_JOB_INTERRUPTED; s++)
        printf(" %s %" PRIu64, wsd_job_state_name(s), sum->states[s]);
    printf("\n");
    if (faulty && sum->wrong)
        return 1;
    if (failed || sum->doubled || sum->lost || sum->strange || (lied_to && sum->accepted != sum->answered))
        return 1;
    return (!lied_to && (sum->wrong || (!tolerant && sum->refused))) || (!tolerant && sum->cut) ? 1 : 0;
}
