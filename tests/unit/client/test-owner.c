/* SPDX-License-Identifier: Apache-2.0
 *
 * test-owner.c: a handle in a child of fork(): nothing works there, nothing is told to wsd, the parent notices nothing;
 * and the child that takes the handle over. */
#include "client/owner.h"
#include "peer.h"
#include "tests/unit/suite.h"
#include "proto/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SECOND 1000000u

static struct peer peer;
static struct wsd_client *client;
static struct wsd_call *call;
static struct wsd_batch *batch;
static struct wsd_arena *arena;
static unsigned n_done;
static uint32_t call_tag;

static void on_done(struct wsd_call *of, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
}

static const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
static const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .function = "f"};
static const struct wsd_id id = {{1}};

static void setup(void)
{
    n_done = 0;
    peer_start(&peer, &client, 100000, ~(uint64_t)FEATURE_LANE);
}

/* What a handle can have open: a call that was sent, one that was not, a batch with one, an arena. */
static void setup_open(void)
{
    const struct wsd_item item = {.size = sizeof(item)};

    setup();
    peer_send_empty(&peer, FRAME_ARENA, 1);
    ck_assert_int_eq(wsd_arena_new(client, 4096, &arena), 0);
    peer_expect(&peer, client, FRAME_ARENA_OPEN);
    close_fd(peer.fds[--peer.n_fds]);
    ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, &call), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    call_tag = peer.frame.tag;
    ck_assert_int_eq(wsd_batch_open(client, &job, 0, &batch), 0);
    ck_assert_int_eq(wsd_batch_submit(batch, &item, &callbacks, NULL), 0);
    peer_expect(&peer, client, FRAME_BATCH);
    peer_expect(&peer, client, FRAME_ARRAY);
    ck_assert_int_eq(wsd_client_submit(client, &job, &callbacks, NULL), 0); /* is gathered */
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static void teardown_open(void)
{
    wsd_arena_free(arena);
    teardown();
}

/* Runs that in a child, which ends with what it returns: 0, or the number of what went wrong. */
static void in_a_child(int (*run)(void))
{
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(run());
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %x", (unsigned)status);
}

/* --- each call ---------------------------------------------------------------------------------------------------- */

static int on_job(const struct wsd_job_info *info, void *userdata)
{
    return 0;
}

static int on_counter(const char *name, uint64_t value, void *userdata)
{
    return 0;
}

static int call_it(void)
{
    const struct wsd_call_request q = {.size = sizeof(q), .plugin = "p"};
    struct wsd_call_result r = {.size = sizeof(r)};

    return wsd_call(client, &q, &r);
}

static int map(void)
{
    const struct wsd_item item = {.size = sizeof(item)};

    return wsd_map(client, &job, 0, &item, 1, NULL, NULL);
}

static int ask(void)
{
    struct wsd_job_info info = {.size = sizeof(info)};
    struct wsd_batch_info state = {.size = sizeof(state)};
    const struct wsd_schedule schedule = {.size = sizeof(schedule), .name = "n", .calendar = "daily", .job = &job};
    const struct wsd_filter filter = {.size = sizeof(filter), .states = 2};
    const int codes[] = {
        wsd_client_ping(client, NULL),
        wsd_client_job(client, &id, &info),
        wsd_client_list(client, on_job, NULL),
        wsd_client_list_where(client, &filter, on_job, NULL),
        wsd_client_cancel(client, &id),
        wsd_client_cancel_where(client, &filter, NULL),
        wsd_client_dead(client, on_job, NULL),
        wsd_client_dead_drop(client, &id),
        wsd_client_stats(client, on_counter, NULL),
        wsd_client_plugins(client, NULL, NULL, NULL),
        wsd_client_plugin_reload(client, "p", NULL, NULL),
        wsd_client_gate(client, WSD_GATE_PAUSE, NULL, NULL, 0),
        wsd_client_gate_tag(client, WSD_GATE_PAUSE, "t", 0),
        wsd_client_limits(client, NULL, NULL),
        wsd_client_functions(client, NULL, NULL, NULL),
        wsd_client_actions(client, 0, NULL, NULL),
        wsd_client_workers(client, NULL, NULL, NULL),
        wsd_client_set_workers(client, 2, NULL, NULL),
        wsd_client_trace_start(client, false),
        wsd_client_profile_start(client, 99, false),
        wsd_client_profile_stop(client, NULL, NULL, NULL),
        wsd_client_stack(client, &id, NULL, NULL, NULL),
        wsd_client_schedule_add(client, &schedule),
        wsd_client_schedules(client, NULL, NULL),
        wsd_client_batch(client, &id, &state),
        wsd_client_batch_await(client, &id, UINT64_MAX, NULL, NULL, NULL),
        wsd_client_batch_cancel(client, &id),
    };

    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (codes[i] != -ECHILD)
            return 1 + (int)i;
    return 0;
}

static int do_all(void)
{
    const struct wsd_item item = {.size = sizeof(item)};
    struct wsd_batch_info state = {.size = sizeof(state)};
    struct wsd_arena *other;
    struct wsd_batch *another;
    size_t size = 1;
    const int codes[] = {
        wsd_client_reconnect(client, 0),
        wsd_client_process(client),
        wsd_client_flush(client),
        wsd_client_wait(client, UINT64_MAX),
        wsd_client_set_deadline(client, 1),
        wsd_client_set_interrupt(client, NULL, NULL),
        wsd_client_submit(client, &job, &callbacks, NULL),
        wsd_client_attach(client, &id, NULL, NULL),
        (int)wsd_call_feed(call, "x", 1, true),
        wsd_call_resume(call),
        wsd_call_cancel(call),
        wsd_call_wait(call, UINT64_MAX, NULL),
        wsd_arena_new(client, 4096, &other),
        call_it(),
        wsd_batch_open(client, &job, 0, &another),
        wsd_batch_submit(batch, &item, NULL, NULL),
        wsd_batch_close(batch),
        wsd_batch_cancel(batch),
        wsd_batch_look(batch, &state),
        wsd_batch_wait(batch, UINT64_MAX, NULL),
        map(),
    };

    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (codes[i] != -ECHILD)
            return 100 + (int)i;
    wsd_call_output(call, &size);
    if (size || wsd_client_fd(client) != -1 || wsd_client_events(client) != 0 || wsd_client_takes_files(client))
        return 150;
    if (!strstr(wsd_client_error(client), "another process") || wsd_client_exit(client) != 64)
        return 151;
    return ask();
}

/* Nothing came, and what was gathered in the parent leaves when the parent says so. */
static void wants_nothing_told(void)
{
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert(peer_quiet(&peer, client));
    ck_assert_uint_eq(n_done, 0);
    peer_send_done(&peer, peer.frame.tag, 5, 0, "");
    for (int i = 0; i < 100 && !n_done; i++)
        wsd_client_wait(client, SECOND / 10);
    ck_assert_uint_eq(n_done, 1);
    memset(wsd_arena_data(arena), 1, wsd_arena_size(arena));
}

START_TEST(each_call_fails_in_a_child)
{
    in_a_child(do_all);
    wants_nothing_told();
}
END_TEST

static int grandchild(void)
{
    in_a_child(do_all);
    return do_all();
}

START_TEST(and_in_a_child_of_that)
{
    in_a_child(grandchild);
    wants_nothing_told();
}
END_TEST

/* --- freeing there ------------------------------------------------------------------------------------------------ */

static int free_all(void)
{
    int fd = peer.fd; /* any that is not the handle's */
    unsigned before = count_fds(), told = n_done;

    wsd_call_free(call);
    wsd_batch_free(batch);
    wsd_arena_free(arena);
    if (wsd_client_free(client) || n_done != told)
        return 1;
    return fcntl(fd, F_GETFD) < 0 || count_fds() != before - 2 ? 2 : 0; /* the connection, the directory */
}

START_TEST(freeing_in_a_child_only_closes)
{
    in_a_child(free_all);
    wants_nothing_told();
}
END_TEST

static int free_the_handle(void)
{
    wsd_client_free(client);
    wsd_arena_free(arena);
    return (int)n_done;
}

START_TEST(the_handle_alone)
{
    in_a_child(free_the_handle);
    wants_nothing_told();
}
END_TEST

/* What the child does in a callback, in the midst of the handle. */
static int adopt_or_free(void)
{
    if (wsd_client_adopt(client) != -EBUSY)
        return 1;
    if (do_all())
        return 2;
    return free_all();
}

static void on_done_fork(struct wsd_call *of, int error, const struct wsd_job_info *info, const char *text,
                         void *userdata)
{
    in_a_child(adopt_or_free);
    n_done++;
}

START_TEST(a_child_that_begins_in_a_callback)
{
    const struct wsd_callbacks forks = {.size = sizeof(forks), .done = on_done_fork};
    struct wsd_call *other;

    ck_assert_int_eq(wsd_client_submit(client, &job, &forks, &other), 0);
    peer_expect(&peer, client, FRAME_ARRAY); /* with the one that was gathered */
    const struct msg_end ends[] = {{.index = 0, .n = 1, .state = 5}, {.index = 1, .n = 1, .state = 5}};
    struct msg m = {.type = FRAME_ENDS, .ends = {.plugin = {"p", 1}, .function = {"f", 1}, .records = 2, .last = true}};
    uint8_t body[256];
    codec_put_end(&ends[0], body);
    codec_put_end(&ends[1], body + codec_end_size(&ends[0]));
    peer_send(&peer, &m, peer.frame.tag, body, 2 * codec_end_size(&ends[0]));
    ck_assert_int_eq(wsd_call_wait(other, 5 * SECOND, NULL), 0);
    ck_assert_uint_eq(n_done, 2);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

/* --- another thread is at work ------------------------------------------------------------------------------------ */

static void *wait_in_a_thread(void *arg)
{
    ck_assert_int_eq(wsd_call_wait(call, 20 * SECOND, NULL), 0);
    return NULL;
}

START_TEST(a_thread_that_waits_does_so_undisturbed)
{
    pthread_t thread;

    ck_assert_int_eq(wsd_client_flush(client), 0);
    peer_expect(&peer, NULL, FRAME_SUBMIT);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_in_a_thread, NULL), 0);
    for (int i = 0; i < 50; i++) /* before, while and after it begins to wait */
        in_a_child(i % 2 ? do_all : free_the_handle);
    peer_send_done(&peer, call_tag, 5, 0, "");
    pthread_join(thread, NULL);
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

/* --- taking it over ----------------------------------------------------------------------------------------------- */

/* What the parent's peer says is for the child now. */
static int take_over(void)
{
    const struct wsd_job_info *info;

    if (wsd_client_adopt(client) != 0 || wsd_client_adopt(client) != 0 || wsd_client_fd(client) < 0)
        return 1;
    if (wsd_call_wait(call, 10 * SECOND, &info) != 0 || info->state != WSD_JOB_SUCCEEDED || n_done != 1)
        return 2;
    if (wsd_client_ping(client, NULL) != 0)
        return 3;
    wsd_call_free(call);
    memset(wsd_arena_data(arena), 1, wsd_arena_size(arena));
    wsd_arena_free(arena);
    wsd_client_free(client);
    return n_done == 3 ? 0 : 4; /* each that was open has ended, once */
}

START_TEST(a_child_takes_over)
{
    int status;

    peer_send_done(&peer, call_tag, 5, 0, "");
    pid_t pid = fork();
    if (pid == 0)
        _exit(take_over());
    peer_expect(&peer, NULL, FRAME_SUBMIT); /* what was gathered leaves once, from there */
    peer_expect(&peer, NULL, FRAME_PING);
    peer_send_empty(&peer, FRAME_PONG, peer.frame.tag);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    peer_expect(&peer, NULL, FRAME_ARENA_CLOSE);
}
END_TEST

static int adopt_and_fork(void)
{
    if (wsd_client_adopt(client) != 0)
        return 1;
    in_a_child(do_all);
    return wsd_client_process(client) == 0 ? 0 : 2;
}

START_TEST(the_one_that_took_over_has_children_too)
{
    in_a_child(adopt_and_fork);
}
END_TEST

START_TEST(the_owner_need_not_adopt)
{
    ck_assert_int_eq(wsd_client_adopt(client), 0);
    wants_nothing_told();
}
END_TEST

/* --- the owner alone ---------------------------------------------------------------------------------------------- */

static struct owner owner;

static int is_not_here(void)
{
    return owner_is_here(&owner);
}

static int takes(void)
{
    owner_take(&owner);
    return !owner_is_here(&owner);
}

/* Also where the kernel clears no pages in children. */
START_TEST(a_child_knows_itself)
{
    ck_assert_int_eq(owner_init(&owner), 0);
    if (_i) {
        ck_assert_int_eq(madvise((void *)owner.here, 4096, MADV_KEEPONFORK), 0);
        owner.pid = getpid();
    } else {
        ck_assert_int_eq(owner.pid, 0); /* this kernel does */
    }
    ck_assert(owner_is_here(&owner));
    in_a_child(is_not_here);
    in_a_child(takes);
    ck_assert(owner_is_here(&owner));
    owner_enter(&owner);
    ck_assert(!owner_was_idle(&owner));
    owner_leave(&owner);
    ck_assert(owner_was_idle(&owner));
    owner_deinit(&owner);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("owner");
    TCase *open = tcase_create("open"), *alone = tcase_create("alone");

    tcase_add_checked_fixture(open, setup_open, teardown_open);
    suite_add_tcase(suite, open);
    suite_add_tcase(suite, alone);
    tcase_add_test(open, each_call_fails_in_a_child);
    tcase_add_test(open, and_in_a_child_of_that);
    tcase_add_test(open, freeing_in_a_child_only_closes);
    tcase_add_test(open, the_handle_alone);
    tcase_add_test(open, a_child_that_begins_in_a_callback);
    tcase_add_test(open, a_thread_that_waits_does_so_undisturbed);
    tcase_add_test(open, a_child_takes_over);
    tcase_add_test(open, the_one_that_took_over_has_children_too);
    tcase_add_test(open, the_owner_need_not_adopt);
    tcase_add_loop_test(alone, a_child_knows_itself, 0, 2);
    return run_suite(suite);
}
