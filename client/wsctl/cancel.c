/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel.c: `wsctl cancel`: jobs by their ids, or by what they are.
 * Owns nothing. One thread.
 * Keeps: nothing is cancelled where one thing is mistyped; everything only where that is said. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "filter.h"
#include "json-write.h"
#include "list.h"
#include "options.h"
#include "print.h"

enum { OPT_ALL = 400, OPT_DRY_RUN };

static const struct option options[] = {
    FILTER_OPTIONS, {"all", no_argument, NULL, OPT_ALL}, {"dry-run", no_argument, NULL, OPT_DRY_RUN}, {0}};

/* Whether what could not be cancelled has ended: wsd knows the end of a job or a batch for a while. Returns 0: it has;
 * -ENOENT: it is neither, or may not be cancelled; or another negative errno. */
static int find_ended(struct wsd_client *client, const struct wsd_id *id)
{
    struct wsd_job_info job = {.size = sizeof(job)};
    struct wsd_batch_info batch = {.size = sizeof(batch)};
    int r = wsd_client_job(client, id, &job);

    if (r == 0)
        return job.state >= WSD_JOB_SUCCEEDED ? 0 : -ENOENT;
    if (r == -ENOENT)
        r = wsd_client_batch(client, id, &batch);
    if (r == 0)
        return batch.ended ? 0 : -ENOENT;
    return r == -EOPNOTSUPP ? -ENOENT : r;
}

/* Of a job, or else of a batch. 0, or the exit code, said. */
static int cancel_id(struct wsd_client *client, const char *text)
{
    struct wsd_id id;
    int r = wsd_id_parse(text, &id) == 0 ? wsd_client_cancel(client, &id) : 0;

    if (r == -ENOENT)
        r = wsd_client_batch_cancel(client, &id);
    if (r == -ENOENT || r == -EOPNOTSUPP) { /* of batches */
        r = find_ended(client, &id);
        if (r == 0 || r == -ENOENT)
            return ctl_error(CODE_NOT_FOUND, text,
                             r == 0 ? "it has ended: there is nothing to cancel" : "no such job or batch");
    }
    return r < 0 ? ctl_client_error(client, text, NULL) : 0;
}

static int cancel_ids(struct wsd_client *client, int argc, char **argv)
{
    int first = 0;

    for (int i = optind; i < argc; i++) {
        int r = cancel_id(client, argv[i]);

        first = first ? first : r;
        if (r && wsd_client_process(client) < 0)
            break; /* the connection is gone: once is enough */
    }
    return first;
}

struct dry {
    struct ctl *ctl;
    uint64_t n;
};

static int on_dry(const struct wsd_job_info *info, void *userdata)
{
    struct dry *dry = userdata;

    dry->n++;
    return list_show(info, dry->ctl);
}

static int cancel_where(struct ctl *ctl, struct wsd_client *client, struct wsd_filter *filter, bool dry_run)
{
    struct dry dry = {.ctl = ctl};
    struct json json = {0};
    int r;

    filter->states = filter->states ? filter->states & FILTER_OPEN : FILTER_OPEN;
    if (!filter->states) { /* of those that have ended */
        r = 0;
    } else if (dry_run) {
        list_heading(ctl);
        r = wsd_client_list_where(client, filter, on_dry, &dry);
    } else {
        r = wsd_client_cancel_where(client, filter, &dry.n);
    }
    if (r != 0)
        return r < 0 ? ctl_client_error(client, "cancel", NULL) : r;
    if (ctl->json) {
        json_number(&json, dry_run ? "would_cancel" : "cancelled", dry.n);
        return json_end(&json);
    }
    if (!ctl->quiet)
        print_line("%s %" PRIu64 " job%s", dry_run ? "would cancel" : "cancelled", dry.n, plural(dry.n));
    return 0;
}

int verb_cancel(struct ctl *ctl, int argc, char **argv)
{
    struct wsd_filter filter = {.size = sizeof(filter)};
    struct wsd_client *client = NULL;
    bool chosen = false, dry_run = false;
    struct wsd_id id;
    int c, r = 0;

    while ((c = ctl_getopt(ctl, argc, argv, "", options, &r)) != CTL_END) {
        if (c == CTL_EXIT)
            return r;
        chosen |= c != OPT_DRY_RUN;
        if (c == OPT_DRY_RUN)
            dry_run = true;
        else if (c != OPT_ALL && (r = filter_option(&filter, c)) != 0)
            return r;
    }
    if (chosen ? optind < argc : optind == argc || dry_run)
        return ctl_error(CODE_USAGE, "cancel",
                         chosen ? "either ids, or what the jobs are"
                                : "which ones? name their ids, or what they are (--state, --user, --plugin, --since, "
                                  "--older-than), or --all");
    for (int i = optind; i < argc; i++)
        if ((r = ctl_id(argv[i], &id)) != 0)
            return r;
    if ((r = ctl_connect(ctl, &client)) != 0)
        return r;
    r = chosen ? cancel_where(ctl, client, &filter, dry_run) : cancel_ids(client, argc, argv);
    wsd_client_free(client);
    return r ? r : print_end();
}
