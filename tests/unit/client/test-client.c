/* SPDX-License-Identifier: Apache-2.0
 *
 * test-client.c: the connection: finding wsd, the handshake, broken and hostile daemons, questions. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SECOND 1000000u

static struct peer peer;
static struct wsd_client *client;
static unsigned fds_before;

static void setup(void)
{
    fds_before = count_fds();
    peer_init(&peer, PEER_WELCOME, 65536);
}

static void setup_open(void)
{
    setup();
    ck_assert_int_eq(peer_open(&peer, &client, SECOND * 5), 0);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
    ck_assert_uint_eq(count_fds(), fds_before);
}

static void *accept_one(void *unused)
{
    peer_accept(&peer, NULL);
    return NULL;
}

static int open_with(enum peer_greeting greeting)
{
    int r;

    peer.greeting = greeting;
    r = peer_open(&peer, &client, greeting == PEER_SILENCE ? SECOND / 10 : SECOND * 5);
    ck_assert_ptr_nonnull(client);
    if (r < 0)
        ck_assert_uint_gt(strlen(wsd_client_error(client)), 0);
    return r;
}

/* --- handshake ------------------------------------------------------------------------------------------------------
 */

START_TEST(hello_tells_versions_directory_and_window)
{
    char cwd[4096];

    ck_assert_int_eq(open_with(PEER_WELCOME), 0);
    ck_assert_uint_eq(peer.hello.hello.version_min, 1);
    ck_assert_uint_ge(peer.hello.hello.version_max, 1);
    ck_assert_uint_gt(peer.hello.hello.window, 0);
    ck_assert_str_eq(peer.hello_directory, getcwd(cwd, sizeof(cwd)));
    ck_assert_str_eq(wsd_client_daemon_version(client), "wsd 9.9");
    ck_assert_int_ge(wsd_client_fd(client), 0);
    ck_assert_int_eq(wsd_client_events(client), POLLIN);
}
END_TEST

START_TEST(welcome_may_come_byte_by_byte)
{
    ck_assert_int_eq(open_with(PEER_WELCOME_BYTEWISE), 0);
}
END_TEST

START_TEST(wrong_version_is_told)
{
    ck_assert_int_eq(open_with(PEER_WRONG_VERSION), -EPROTONOSUPPORT);
    ck_assert_int_eq(wsd_client_exit(client), 76);
}
END_TEST

START_TEST(refused_version_is_told_in_the_words_of_wsd)
{
    ck_assert_int_eq(open_with(PEER_REFUSE_VERSION), -EPROTONOSUPPORT);
    ck_assert_int_eq(wsd_client_exit(client), 76);
    ck_assert_str_eq(wsd_client_error(client), "wsd speaks 7 to 9");
}
END_TEST

START_TEST(busy_daemon_is_told)
{
    ck_assert_int_eq(open_with(PEER_REFUSE_BUSY), -EAGAIN);
    ck_assert_int_eq(wsd_client_exit(client), 75);
}
END_TEST

START_TEST(garbage_in_the_handshake_is_a_protocol_error)
{
    ck_assert_int_eq(open_with(PEER_GARBAGE), -EPROTO);
    ck_assert_int_eq(wsd_client_exit(client), 76);
}
END_TEST

START_TEST(other_header_version_is_not_supported)
{
    ck_assert_int_eq(open_with(PEER_OTHER_HEADER), -EPROTONOSUPPORT);
    ck_assert_int_eq(wsd_client_exit(client), 76);
}
END_TEST

START_TEST(other_frame_in_the_handshake_is_a_protocol_error)
{
    ck_assert_int_eq(open_with(PEER_WRONG_FRAME), -EPROTO);
    ck_assert_int_eq(wsd_client_exit(client), 76);
}
END_TEST

START_TEST(early_close_is_told)
{
    ck_assert_int_eq(open_with(PEER_CLOSE), -ECONNRESET);
    ck_assert_int_eq(wsd_client_exit(client), 69);
}
END_TEST

START_TEST(silent_daemon_runs_into_the_timeout)
{
    ck_assert_int_eq(open_with(PEER_SILENCE), -ETIMEDOUT);
    ck_assert_int_eq(wsd_client_exit(client), 69);
    ck_assert_int_lt(wsd_client_ping(client, NULL), 0); /* a handle that did not open stays shut */
}
END_TEST

START_TEST(no_daemon_is_told)
{
    ck_assert_int_eq(wsd_client_open(&client, "/nonexistent/wsd.sock", SECOND), -ENOENT);
    ck_assert_int_eq(wsd_client_exit(client), 69);
    ck_assert_ptr_nonnull(strstr(wsd_client_error(client), "/nonexistent/wsd.sock"));
}
END_TEST

START_TEST(socket_without_listener_is_told)
{
    peer.listen_fd = close_fd(peer.listen_fd);
    ck_assert_int_eq(wsd_client_open(&client, peer.path, SECOND), -ECONNREFUSED);
    ck_assert_int_eq(wsd_client_exit(client), 69);
}
END_TEST

START_TEST(path_that_is_too_long_is_told)
{
    char path[200];

    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = 0;
    ck_assert_int_eq(wsd_client_open(&client, path, SECOND), -ENAMETOOLONG);
    ck_assert_int_eq(wsd_client_exit(client), 64);
}
END_TEST

START_TEST(full_backlog_runs_into_the_timeout)
{
    struct wsd_client *others[4];

    ck_assert_int_eq(listen(peer.listen_fd, 0), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(wsd_client_open(&others[i], peer.path, SECOND / 20), -ETIMEDOUT);
        ck_assert_int_eq(wsd_client_exit(others[i]), 69);
    }
    for (int i = 0; i < 3; i++)
        wsd_client_free(others[i]);
}
END_TEST

/* Where is it looked for? The words of the failure say. */
START_TEST(socket_is_looked_for_in_the_order_of_the_contract)
{
    char path[128];

    setenv("WSD_SOCKET", "/nonexistent/by-env", 1);
    ck_assert_int_lt(wsd_client_open(&client, NULL, SECOND), 0);
    ck_assert_ptr_nonnull(strstr(wsd_client_error(client), "/nonexistent/by-env"));
    client = wsd_client_free(client);

    unsetenv("WSD_SOCKET");
    setenv("XDG_RUNTIME_DIR", peer.directory, 1);
    snprintf(path, sizeof(path), "%s/wsd", peer.directory);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    strcat(path, "/wsd.sock");
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ck_assert_int_eq(wsd_client_open(&client, NULL, SECOND), -ECONNREFUSED);
    ck_assert_ptr_nonnull(strstr(wsd_client_error(client), path));
    client = wsd_client_free(client);

    unlink(path);
    if (access("/run/wsd/wsd.sock", F_OK) < 0) {
        ck_assert_int_eq(wsd_client_open(&client, NULL, SECOND), -ENOENT);
        ck_assert_ptr_nonnull(strstr(wsd_client_error(client), "/run/wsd/wsd.sock"));
    }
    *strrchr(path, '/') = 0;
    rmdir(path);
}
END_TEST

START_TEST(directory_that_is_gone_is_no_obstacle)
{
    char cwd[4096], gone[128];

    ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
    snprintf(gone, sizeof(gone), "%s/gone", peer.directory);
    ck_assert_int_eq(mkdir(gone, 0700), 0);
    ck_assert_int_eq(chdir(gone), 0);
    ck_assert_int_eq(rmdir(gone), 0);
    ck_assert_int_eq(open_with(PEER_WELCOME), 0);
    ck_assert_str_eq(peer.hello_directory, "");
    ck_assert_int_eq(chdir(cwd), 0);
}
END_TEST

static int open_as(const char *user, uint64_t features)
{
    const struct wsd_open how = {.size = sizeof(how), .socket = peer.path, .user = user};
    pthread_t thread;

    peer.features = features;
    ck_assert_int_eq(pthread_create(&thread, NULL, accept_one, NULL), 0);
    int r = wsd_client_open_with(&client, &how);
    pthread_join(thread, NULL);
    return r;
}

START_TEST(hello_names_the_user_that_it_acts_for)
{
    ck_assert_int_eq(open_as("alice", FEATURE_USER), 0);
    ck_assert_str_eq(peer.hello_user, "alice");
    ck_assert(peer.hello.hello.features & FEATURE_USER);
}
END_TEST

START_TEST(hello_names_no_user_where_none_is_wanted)
{
    ck_assert_int_eq(open_as(_i ? "" : NULL, 0), 0);
    ck_assert_str_eq(peer.hello_user, "");
}
END_TEST

/* An old one would take the connection for the own user's. */
START_TEST(a_wsd_that_ignores_the_user_is_refused)
{
    ck_assert_int_eq(open_as("alice", FEATURES_ALL & ~(uint64_t)FEATURE_USER), -EOPNOTSUPP);
    ck_assert_int_eq(wsd_client_exit(client), 76);
    ck_assert_str_eq(wsd_client_error(client), "wsd 9.9 cannot act for another user: it is too old");
    ck_assert_int_lt(wsd_client_ping(client, NULL), 0);
}
END_TEST

START_TEST(a_user_has_a_name_of_limited_length)
{
    const struct wsd_tls tls = {.size = sizeof(tls), .host = "there:1"};
    struct wsd_open how = {.size = sizeof(how), .socket = "/none"};
    char name[CODEC_TEXT_MAX + 1];

    memset(name, 'x', sizeof(name));
    name[CODEC_TEXT_MAX] = 0;
    how.user = name;
    ck_assert_int_eq(wsd_client_open_with(&client, &how), -EINVAL);
    ck_assert_str_eq(wsd_client_error(client), "user: no user has a name of more than 255 bytes");
    wsd_client_free(client);
    how.user = name + 1;
    ck_assert_int_eq(wsd_client_open_with(&client, &how), -ENOENT); /* no wsd is there */
    wsd_client_free(client);
    how = (struct wsd_open){.size = sizeof(how), .tls = &tls, .user = "alice"};
    ck_assert_int_eq(wsd_client_open_with(&client, &how), -EINVAL);
    ck_assert_ptr_nonnull(strstr(wsd_client_error(client), "leave TLS and WSD_HOST out"));
}
END_TEST

/* --- an established connection breaks
 * --------------------------------------------------------------------------------- */

static void check_broken(int exit)
{
    uint64_t usec;

    ck_assert_int_eq(wsd_client_wait(client, SECOND * 5), -ECONNRESET);
    ck_assert_int_eq(wsd_client_exit(client), exit);
    ck_assert_int_eq(wsd_client_process(client), -ECONNRESET); /* and stays so */
    ck_assert_int_eq(wsd_client_ping(client, &usec), -ECONNRESET);
    ck_assert_int_eq(wsd_client_exit(client), exit);
}

START_TEST(end_of_the_stream_ends_the_connection)
{
    peer_close(&peer);
    check_broken(69);
}
END_TEST

START_TEST(half_a_frame_and_the_end)
{
    peer_send_raw(&peer, "W\1\113\0\1\0\0", 7);
    ck_assert_int_eq(wsd_client_process(client), 0);
    peer_close(&peer);
    check_broken(69);
}
END_TEST

START_TEST(garbage_ends_the_connection)
{
    peer_send_raw(&peer, "garbage", 7);
    check_broken(76);
}
END_TEST

START_TEST(oversized_frame_ends_the_connection)
{
    uint8_t header[FRAME_HEADER_SIZE];

    frame_put_header(header, FRAME_PONG, 1, 0, FRAME_PAYLOAD_MAX + 1);
    peer_send_raw(&peer, header, sizeof(header));
    check_broken(76);
}
END_TEST

START_TEST(unknown_type_ends_the_connection)
{
    uint8_t header[FRAME_HEADER_SIZE];

    frame_put_header(header, 200, 1, 0, 0);
    peer_send_raw(&peer, header, sizeof(header));
    check_broken(76);
}
END_TEST

START_TEST(second_welcome_ends_the_connection)
{
    peer_send(&peer, &(struct msg){.type = FRAME_WELCOME, .welcome = {.version = 1}}, 0, NULL, 0);
    check_broken(76);
}
END_TEST

START_TEST(error_about_the_connection_is_told)
{
    peer_send_error(&peer, 0, 77, "you are\n\033[31mnot welcome");
    peer_close(&peer);
    check_broken(77);
    ck_assert_str_eq(wsd_client_error(client), "you are\\x0a\\x1b[31mnot welcome");
}
END_TEST

START_TEST(reason_is_read_even_where_sending_fails_first)
{
    peer_send_error(&peer, 0, 76, "because");
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_ping(client, NULL), -ECONNRESET); /* its send hits EPIPE */
    ck_assert_str_eq(wsd_client_error(client), "because");
}
END_TEST

START_TEST(goodbye_is_no_end)
{
    peer_send(&peer, &(struct msg){.type = FRAME_GOODBYE, .error = {.code = 75}}, 0, NULL, 0);
    ck_assert_int_eq(wsd_client_wait(client, SECOND), 0);
    ck_assert_int_eq(wsd_client_process(client), 0);
}
END_TEST

START_TEST(frames_with_unknown_tags_are_ignored)
{
    peer_send_output(&peer, 77, 5, "x", 1);
    peer_send_done(&peer, 77, 5, 0, "");
    peer_send_empty(&peer, FRAME_END, 78);
    ck_assert_int_eq(wsd_client_wait(client, SECOND), 0);
    ck_assert_int_eq(wsd_client_process(client), 0);
}
END_TEST

START_TEST(unrequested_descriptors_are_closed)
{
    union {
        char bytes[CMSG_SPACE(20 * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    uint8_t data[FRAME_HEADER_SIZE];
    struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
    struct msghdr header = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    unsigned before = count_fds();

    frame_put_header(data, FRAME_PONG, 1, 0, 0);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(20 * sizeof(int));
    for (size_t i = 0; i < 20; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(int), &peer.fd, sizeof(int));
    ck_assert_int_eq(sendmsg(peer.fd, &header, 0), sizeof(data));
    ck_assert_int_eq(wsd_client_wait(client, SECOND), 0);
    ck_assert_uint_eq(count_fds(), before);
}
END_TEST

/* --- questions: the peer answers before they are asked, with the tag that they will have
 * -------------------------------- */

START_TEST(ping_measures)
{
    uint64_t usec = UINT64_MAX;

    peer_send_empty(&peer, FRAME_PONG, 1);
    /* The answer waits in the socket before the request is sent: it belongs to no request. */
    ck_assert_int_eq(wsd_client_process(client), 0);
    peer_send_empty(&peer, FRAME_PONG, 1);
    ck_assert_int_eq(wsd_client_ping(client, &usec), 0);
    ck_assert_uint_lt(usec, 5 * SECOND);
    peer_expect(&peer, client, FRAME_PING);
    ck_assert_uint_eq(peer.frame.tag, 1);
}
END_TEST

static struct msg job_message(uint16_t type, uint8_t id)
{
    return (struct msg){.type = type,
                        .job = {.id = {id},
                                .plugin = {"sort", 4},
                                .function = {"lines", 5},
                                .error = {"", 0},
                                .status = {"", 0},
                                .worker = {"", 0},
                                .state = 3,
                                .uid = 1000}};
}

START_TEST(job_is_shown)
{
    struct wsd_job_info info = {.size = sizeof(info)};
    struct wsd_id id = {{5}};
    struct msg msg = job_message(FRAME_JOB, 5);

    peer_send(&peer, &msg, 1, NULL, 0);
    ck_assert_int_eq(wsd_client_job(client, &id, &info), 0);
    ck_assert_str_eq(info.plugin, "sort");
    ck_assert_str_eq(info.function, "lines");
    ck_assert_int_eq(info.state, WSD_JOB_QUEUED);
    ck_assert_uint_eq(info.uid, 1000);
    ck_assert_mem_eq(&info.id, &id, sizeof(id));
    peer_expect(&peer, client, FRAME_STATUS);
    ck_assert_mem_eq(peer.msg.id.id, id.bytes, 16);
}
END_TEST

START_TEST(program_with_a_smaller_struct_gets_no_more_than_it_has)
{
    struct {
        struct wsd_job_info info;
    } old;
    struct wsd_id id = {{5}};
    struct msg msg = job_message(FRAME_JOB, 5);
    size_t size = offsetof(struct wsd_job_info, attempts);

    memset(&old, 0xaa, sizeof(old));
    old.info.size = size;
    peer_send(&peer, &msg, 1, NULL, 0);
    ck_assert_int_eq(wsd_client_job(client, &id, &old.info), 0);
    ck_assert_uint_eq(old.info.size, size);
    ck_assert_str_eq(old.info.worker, "");
    ck_assert_uint_eq(old.info.attempts, 0xaaaaaaaau);
}
END_TEST

START_TEST(missing_job_is_told)
{
    struct wsd_job_info info = {.size = sizeof(info)};
    struct wsd_id id = {{5}};

    peer_send_error(&peer, 1, 66, "no such job");
    ck_assert_int_eq(wsd_client_job(client, &id, &info), -ENOENT);
    ck_assert_int_eq(wsd_client_exit(client), 66);
    ck_assert_str_eq(wsd_client_error(client), "no such job");
    peer_send_error(&peer, 2, 77, "not yours");
    ck_assert_int_eq(wsd_client_cancel(client, &id), -EACCES);
    peer_send_empty(&peer, FRAME_END, 3);
    ck_assert_int_eq(wsd_client_cancel(client, &id), 0);
}
END_TEST

static int count_each(const struct wsd_job_info *info, void *userdata)
{
    int *n = userdata;

    ck_assert_int_eq(info->id.bytes[0], *n);
    ck_assert_str_eq(info->plugin, "sort");
    return ++*n == 5 ? 1234 : 0;
}

START_TEST(list_shows_every_job)
{
    int n = 0;

    for (uint8_t i = 0; i < 3; i++) {
        struct msg msg = job_message(FRAME_JOB, i);

        peer_send(&peer, &msg, 1, NULL, 0);
    }
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_list(client, count_each, &n), 0);
    ck_assert_int_eq(n, 3);
}
END_TEST

START_TEST(listing_can_be_ended_by_the_callback)
{
    int n = 0;

    for (uint8_t i = 0; i < 8; i++) {
        struct msg msg = job_message(FRAME_JOB, i);

        peer_send(&peer, &msg, 1, NULL, 0);
    }
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_list(client, count_each, &n), 1234);
    ck_assert_int_eq(n, 5);
    peer_send_empty(&peer, FRAME_PONG, 2);
    ck_assert_int_eq(wsd_client_ping(client, NULL), 0); /* the rest was dropped */
}
END_TEST

static int ask_each(const struct wsd_job_info *info, void *userdata)
{
    struct wsd_job_info other = {.size = sizeof(other)};
    struct wsd_id id = {{77}};
    int *n = userdata;

    /* A query inside the answer to another: what is being shown stays as it is. */
    ck_assert_int_eq(wsd_client_job(client, &id, &other), 0);
    ck_assert_uint_eq(other.id.bytes[0], 77);
    ck_assert_str_eq(info->plugin, "sort");
    ck_assert_str_eq(info->function, "lines");
    ++*n;
    return 0;
}

START_TEST(callback_may_ask_another_question)
{
    struct msg msg = job_message(FRAME_JOB, 0), other = job_message(FRAME_JOB, 77);
    int n = 0;

    other.job.plugin = (struct span){"xxxxxxxxxxxxxxxxxxxxxxxx", 24};
    peer_send(&peer, &msg, 1, NULL, 0);
    for (uint32_t tag = 2; tag < 4; tag++) {
        peer_send(&peer, &other, tag, NULL, 0);
        if (tag == 2)
            peer_send(&peer, &msg, 1, NULL, 0);
    }
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_list(client, ask_each, &n), 0);
    ck_assert_int_eq(n, 2);
}
END_TEST

static int check_plugin(const struct wsd_plugin_info *info, void *userdata)
{
    ck_assert_str_eq(info->name, "fib");
    ck_assert_str_eq(info->path, "/p/fib.so");
    ck_assert_str_eq(info->error, "");
    ck_assert_uint_eq(info->n_functions, 2);
    ck_assert_str_eq(info->functions[1].name, "other");
    ck_assert_str_eq(info->functions[1].help, "helps");
    ck_assert_uint_eq(info->functions[1].flags, 3);
    ck_assert_uint_eq(info->crashes[0].crashes, 0);
    ck_assert_str_eq(info->crashes[0].why, "");
    ck_assert_uint_eq(info->crashes[1].crashes, 4);
    ck_assert_uint_eq(info->crashes[1].quarantine, 2);
    ck_assert_uint_eq(info->crashes[1].quarantine_usec, 5);
    ck_assert_str_eq(info->crashes[1].why, "Aborted");
    ck_assert_int_eq(info->apart, 2);
    ++*(int *)userdata;
    return 0;
}

START_TEST(plugins_are_shown)
{
    struct msg_function functions[] = {{{"fib", 3}, {"", 0}, 0},
                                       {{"other", 5}, {"helps", 5}, 3, 4, 2, 5, {"Aborted", 7}}};
    struct msg msg = {.type = FRAME_PLUGIN,
                      .plugin = {{"fib", 3}, {"1", 1}, {"h", 1}, {"/p/fib.so", 9}, {"", 0}, functions, 2, 2}};
    int n = 0;

    peer_send(&peer, &msg, 1, NULL, 0);
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_plugins(client, "fib", check_plugin, &n), 0);
    ck_assert_int_eq(n, 1);
    peer_expect(&peer, client, FRAME_PLUGINS);
    ck_assert_str_eq(peer.msg.plugins.name.data, "fib");
    peer_send_error(&peer, 2, 66, "none");
    ck_assert_int_eq(wsd_client_plugins(client, NULL, check_plugin, &n), -ENOENT);
}
END_TEST

static int see_gate(const struct wsd_gate_info *info, void *userdata)
{
    ck_assert_str_eq(info->plugin, "fib");
    ck_assert_str_eq(info->function, "f");
    ck_assert(info->paused && info->drained && info->limit == 3 && info->running == 4 && info->waiting == 5);
    return ++*(int *)userdata;
}

START_TEST(gates_are_set_and_shown)
{
    struct msg state = {.type = FRAME_GATE_STATE,
                        .gate_state = {{"fib", 3}, {"f", 1}, GATE_PAUSED | GATE_DRAINED, 3, 4, 5}};
    int n = 0;

    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_gate(client, WSD_GATE_LIMIT, "fib", "f", 7), 0);
    peer_expect(&peer, client, FRAME_GATE);
    ck_assert_str_eq(peer.msg.gate.plugin.data, "fib");
    ck_assert_str_eq(peer.msg.gate.function.data, "f");
    ck_assert(peer.msg.gate.action == GATE_LIMIT && peer.msg.gate.limit == 7);
    peer_send_error(&peer, 2, 77, "no");
    ck_assert_int_eq(wsd_client_gate(client, WSD_GATE_PAUSE, NULL, NULL, 0), -EACCES);
    peer_expect(&peer, client, FRAME_GATE);
    ck_assert_str_eq(peer.msg.gate.plugin.data, "");
    peer_send(&peer, &state, 3, NULL, 0);
    peer_send(&peer, &state, 3, NULL, 0);
    peer_send_empty(&peer, FRAME_END, 3);
    ck_assert_int_eq(wsd_client_gates(client, see_gate, &n), 1); /* ended by the callback */
    ck_assert_int_eq(n, 1);
}
END_TEST

START_TEST(release_names_what_it_lets_out)
{
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_plugin_release(client, "fib", NULL), 0);
    peer_expect(&peer, client, FRAME_RELEASE);
    ck_assert_str_eq(peer.msg.release.name.data, "fib");
    ck_assert_str_eq(peer.msg.release.function.data, "");
    peer_send_error(&peer, 2, 66, "nothing");
    ck_assert_int_eq(wsd_client_plugin_release(client, "fib", "other"), -ENOENT);
    peer_expect(&peer, client, FRAME_RELEASE);
    ck_assert_str_eq(peer.msg.release.function.data, "other");
}
END_TEST

static int keep_reload(const struct wsd_reload_info *info, void *userdata)
{
    unsigned *n = userdata;

    ck_assert_uint_eq(info->size, sizeof(*info));
    ck_assert_str_eq(info->name, "fib");
    ck_assert_str_eq(info->path, "/fib.so");
    ck_assert_str_eq(info->version, "2");
    ck_assert_str_eq(info->build, "ab");
    ck_assert_str_eq(info->old_version, "1");
    ck_assert_str_eq(info->old_build, "cd");
    ck_assert_str_eq(info->error, "why");
    ck_assert(info->outcome == WSD_RELOAD_KEPT && info->uid == 7 && info->exit == 66);
    return ++*n == 3 ? -5 : 0;
}

START_TEST(reload_tells_of_each_executor)
{
    const struct msg m = {
        .type = FRAME_RELOADED,
        .reloaded = {
            WSD_RELOAD_KEPT, 7, 66, {"fib", 3}, {"/fib.so", 7}, {"2", 1}, {"ab", 2}, {"1", 1}, {"cd", 2}, {"why", 3}}};
    unsigned n = 0;

    peer_send(&peer, &m, 1, NULL, 0);
    peer_send(&peer, &m, 1, NULL, 0);
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_plugin_reload(client, "fib", keep_reload, &n), 0);
    ck_assert_uint_eq(n, 2);
    peer_expect(&peer, client, FRAME_RELOAD);
    ck_assert_str_eq(peer.msg.reload.name.data, "fib");
    peer_send(&peer, &m, 2, NULL, 0); /* what the callback says ends it */
    peer_send_empty(&peer, FRAME_END, 2);
    ck_assert_int_eq(wsd_client_plugin_reload(client, "fib", keep_reload, &n), -5);
    peer_expect(&peer, client, FRAME_RELOAD);
    peer_send(&peer, &m, 3, NULL, 0);
    peer_send_empty(&peer, FRAME_END, 3);
    ck_assert_int_eq(wsd_client_plugin_reload(client, "fib", NULL, NULL), 0);
    peer_expect(&peer, client, FRAME_RELOAD);
    peer_send_error(&peer, 4, 66, "nothing");
    ck_assert_int_eq(wsd_client_plugin_reload(client, "other", NULL, NULL), -ENOENT);
}
END_TEST

static int sum_counter(const char *name, uint64_t value, void *userdata)
{
    *(uint64_t *)userdata += value;
    return strcmp(name, "stop") == 0 ? -7 : 0;
}

START_TEST(counters_are_shown)
{
    struct msg_counter counters[] = {{{"jobs", 4}, 5}, {{"stop", 4}, 6}, {{"more", 4}, 7}};
    struct msg msg = {.type = FRAME_COUNTERS, .stats = {counters, 1}};
    uint64_t sum = 0;

    peer_send(&peer, &msg, 1, NULL, 0);
    ck_assert_int_eq(wsd_client_stats(client, sum_counter, &sum), 0);
    ck_assert_uint_eq(sum, 5);
    msg.stats.n_counters = 3;
    peer_send(&peer, &msg, 2, NULL, 0);
    ck_assert_int_eq(wsd_client_stats(client, sum_counter, &sum), -7);
    ck_assert_uint_eq(sum, 16);
}
END_TEST

struct seen {
    uint32_t workers, executors, last_error;
    uint64_t sum, lost;
    int cpu, answer;
    char events[64];
};

static int see_worker(const struct wsd_worker_info *info, void *userdata)
{
    struct seen *seen = userdata;

    ck_assert_uint_eq(info->size, sizeof(*info));
    ck_assert_uint_eq(info->executor, 3);
    ck_assert_int_eq(info->kind, WSD_WORKER_RETIRED);
    ck_assert_str_eq(info->counters[0].name, "jobs");
    seen->workers++;
    seen->cpu = info->cpu;
    for (size_t i = 0; i < info->n_counters; i++)
        seen->sum += info->counters[i].value;
    return seen->answer;
}

static int see_executor(const struct wsd_executor_info *info, void *userdata)
{
    struct seen *seen = userdata;

    ck_assert_uint_eq(info->size, sizeof(*info));
    seen->executors++;
    seen->last_error = (uint32_t)info->error;
    seen->lost += info->lost;
    return 0;
}

static int see_events(const void *data, size_t size, void *userdata)
{
    struct seen *seen = userdata;

    ck_assert_uint_lt(strlen(seen->events) + size, sizeof(seen->events));
    strncat(seen->events, data, size);
    return seen->answer;
}

START_TEST(workers_are_shown)
{
    struct msg_counter counters[] = {{{"jobs", 4}, 5}, {{"more", 4}, 7}};
    struct msg worker = {.type = FRAME_WORKER, .worker = {3, 0, 2, 0, counters, 2}};
    struct msg executor = {.type = FRAME_EXECUTOR, .executor = {.executor = 3, .workers = 2, .error = 110}};
    struct seen seen = {0};

    peer_send(&peer, &worker, 1, NULL, 0);
    worker.worker.cpu = 8;
    peer_send(&peer, &worker, 1, NULL, 0);
    peer_send(&peer, &executor, 1, NULL, 0);
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_workers(client, see_worker, see_executor, &seen), 0);
    ck_assert(seen.workers == 2 && seen.executors == 1 && seen.sum == 24 && seen.cpu == 7 && seen.last_error == 110);
    peer_expect(&peer, client, FRAME_WORKERS);
    ck_assert_uint_eq(peer.msg.workers.set, 0);

    seen.answer = 9;
    worker.worker.cpu = 0;
    peer_send(&peer, &worker, 2, NULL, 0);
    peer_send_empty(&peer, FRAME_END, 2);
    ck_assert_int_eq(wsd_client_workers(client, see_worker, NULL, &seen), 9);
    ck_assert_int_eq(seen.cpu, -1);
    peer_expect(&peer, client, FRAME_WORKERS);
    peer_send(&peer, &worker, 3, NULL, 0);
    peer_send_empty(&peer, FRAME_END, 3);
    ck_assert_int_eq(wsd_client_workers(client, NULL, NULL, NULL), 0);
}
END_TEST

START_TEST(number_of_workers_is_asked_for)
{
    struct msg executor = {.type = FRAME_EXECUTOR, .executor = {.executor = 3, .workers = 2}};
    struct seen seen = {0};

    ck_assert_int_eq(wsd_client_set_workers(client, 0, see_executor, &seen), -EINVAL);
    ck_assert_int_eq(wsd_client_set_workers(client, 1025, see_executor, &seen), -EINVAL);
    ck_assert_int_eq(wsd_client_exit(client), 64);
    peer_send(&peer, &executor, 1, NULL, 0);
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_set_workers(client, 1024, see_executor, &seen), 0);
    ck_assert_uint_eq(seen.executors, 1);
    peer_expect(&peer, client, FRAME_WORKERS);
    ck_assert_uint_eq(peer.msg.workers.set, 1024);
    peer_send_error(&peer, 2, 77, "no");
    ck_assert_int_eq(wsd_client_set_workers(client, 1, NULL, NULL), -EACCES);
}
END_TEST

START_TEST(trace_comes_in_pieces)
{
    struct msg executor = {.type = FRAME_EXECUTOR, .executor = {.executor = 3, .lost = 4}};
    struct msg piece = {.type = FRAME_PIECE};
    struct seen seen = {0};

    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_trace_start(client, false), 0);
    peer_expect(&peer, client, FRAME_TRACE);
    ck_assert_uint_eq(peer.msg.trace.action, TRACE_ACTION_START);
    peer_send_error(&peer, 2, 75, "another");
    ck_assert_int_eq(wsd_client_trace_start(client, true), -EAGAIN);
    peer_expect(&peer, client, FRAME_TRACE);
    ck_assert_uint_eq(peer.msg.trace.action, TRACE_ACTION_KEEP);
    peer_send(&peer, &executor, 3, NULL, 0);
    peer_send(&peer, &piece, 3, "{}\n{", 4);
    piece.chunk.offset = 4;
    peer_send(&peer, &piece, 3, "}\n", 2);
    peer_send_empty(&peer, FRAME_END, 3);
    ck_assert_int_eq(wsd_client_trace_stop(client, see_executor, see_events, &seen), 0);
    ck_assert_str_eq(seen.events, "{}\n{}\n");
    ck_assert_uint_eq(seen.lost, 4);
    peer_expect(&peer, client, FRAME_TRACE);
    ck_assert_uint_eq(peer.msg.trace.action, TRACE_ACTION_STOP);
    seen.answer = 5;
    peer_send(&peer, &executor, 4, NULL, 0);
    peer_send(&peer, &piece, 4, "x\n", 2);
    ck_assert_int_eq(wsd_client_trace_stop(client, NULL, see_events, &seen), 5);
}
END_TEST

START_TEST(profile_and_stack_come_in_pieces)
{
    struct msg executor = {.type = FRAME_EXECUTOR, .executor = {.executor = 3, .lost = 4}};
    struct msg piece = {.type = FRAME_PIECE};
    const struct wsd_id id = {{7}};
    struct seen seen = {0};

    ck_assert_int_eq(wsd_client_profile_start(client, 99, false), -EOPNOTSUPP);
    ck_assert_int_eq(wsd_client_stack(client, &id, NULL, NULL, NULL), -EOPNOTSUPP);
    teardown();
    setup();
    peer.features = FEATURE_PROFILE;
    ck_assert_int_eq(peer_open(&peer, &client, SECOND * 5), 0);
    ck_assert_int_eq(wsd_client_profile_start(client, 0, false), -EINVAL);
    ck_assert_int_eq(wsd_client_profile_start(client, CODEC_RATE_MAX + 1, false), -EINVAL);
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_profile_start(client, CODEC_RATE_MAX, false), 0);
    peer_expect(&peer, client, FRAME_TRACE);
    ck_assert(peer.msg.trace.action == TRACE_ACTION_START && peer.msg.trace.kind == TRACE_OF_STACKS);
    ck_assert_uint_eq(peer.msg.trace.rate, CODEC_RATE_MAX);
    peer_send(&peer, &executor, 2, NULL, 0);
    peer_send(&peer, &piece, 2, "a;b 1\n", 6);
    peer_send_empty(&peer, FRAME_END, 2);
    ck_assert_int_eq(wsd_client_profile_stop(client, see_executor, see_events, &seen), 0);
    ck_assert_str_eq(seen.events, "a;b 1\n");
    ck_assert_uint_eq(seen.lost, 4);
    peer_expect(&peer, client, FRAME_TRACE);
    ck_assert(peer.msg.trace.action == TRACE_ACTION_STOP && peer.msg.trace.kind == TRACE_OF_STACKS);
    peer_send_error(&peer, 3, 66, "no such job");
    ck_assert_int_eq(wsd_client_stack(client, &id, see_executor, see_events, &seen), -ENOENT);
    peer_expect(&peer, client, FRAME_TRACE);
    ck_assert(peer.msg.trace.action == TRACE_ACTION_STACK && peer.msg.trace.id.has_id);
    ck_assert_uint_eq(peer.msg.trace.id.id[0], 7);
}
END_TEST

START_TEST(wrong_answer_ends_the_connection)
{
    peer_send_empty(&peer, FRAME_PONG, 1);
    ck_assert_int_eq(wsd_client_stats(client, sum_counter, NULL), -ECONNRESET);
    ck_assert_int_eq(wsd_client_exit(client), 76);
}
END_TEST

START_TEST(end_of_the_stream_answers_the_question)
{
    peer_close(&peer);
    ck_assert_int_eq(wsd_client_ping(client, NULL), -ECONNRESET);
}
END_TEST

START_TEST(name_above_the_limit_is_refused_here)
{
    char name[CODEC_PATH_MAX + 1];
    int n = 0;

    memset(name, 'x', sizeof(name));
    name[CODEC_PATH_MAX] = 0;
    ck_assert_int_eq(wsd_client_plugins(client, name, check_plugin, &n), -EINVAL);
    ck_assert_int_eq(wsd_client_exit(client), 64);
    ck_assert_int_eq(wsd_client_process(client), 0);
}
END_TEST

/* --- helpers
 * ----------------------------------------------------------------------------------------------------------- */

START_TEST(ids_are_texts_of_32_digits)
{
    struct wsd_id id = {{0x00, 0x12, 0xff, [15] = 0xab}}, back;
    char text[WSD_ID_TEXT];

    wsd_id_text(&id, text);
    ck_assert_str_eq(text, "0012ff000000000000000000000000ab");
    ck_assert_int_eq(wsd_id_parse(text, &back), 0);
    ck_assert_mem_eq(&id, &back, sizeof(id));
    ck_assert_int_eq(wsd_id_parse("0012FF000000000000000000000000aB", &back), 0);
    ck_assert_mem_eq(&id, &back, sizeof(id));
    ck_assert_int_eq(wsd_id_parse("", &back), -EINVAL);
    ck_assert_int_eq(wsd_id_parse("0012ff000000000000000000000000a", &back), -EINVAL);
    ck_assert_int_eq(wsd_id_parse("0012ff000000000000000000000000ab0", &back), -EINVAL);
    ck_assert_int_eq(wsd_id_parse("0012ff000000000000000000000000ag", &back), -EINVAL);
}
END_TEST

START_TEST(states_have_the_names_of_the_contract)
{
    ck_assert_str_eq(wsd_job_state_name(WSD_JOB_TIMED_OUT), "timed-out");
    ck_assert_str_eq(wsd_job_state_name(WSD_JOB_HELD), "held");
    ck_assert_str_eq(wsd_job_state_name((enum wsd_job_state)99), "unknown");
    ck_assert_str_eq(wsd_job_state_name((enum wsd_job_state)0), "unknown");
    ck_assert_uint_gt(strlen(wsd_client_library_version()), 0);
    ck_assert_ptr_null(wsd_client_free(NULL));
    ck_assert_ptr_null(wsd_call_free(NULL));
}
END_TEST

static TCase *tcase(Suite *suite, const char *name, void (*before)(void))
{
    TCase *ret = tcase_create(name);

    suite_add_tcase(suite, ret);
    tcase_set_timeout(ret, 60);
    tcase_add_checked_fixture(ret, before, teardown);
    return ret;
}

int main(void)
{
    Suite *suite = suite_create("client");
    TCase *shake = tcase(suite, "handshake", setup), *live = tcase(suite, "connection", setup_open);

    tcase_add_test(shake, hello_tells_versions_directory_and_window);
    tcase_add_test(shake, hello_names_the_user_that_it_acts_for);
    tcase_add_loop_test(shake, hello_names_no_user_where_none_is_wanted, 0, 2);
    tcase_add_test(shake, a_wsd_that_ignores_the_user_is_refused);
    tcase_add_test(shake, a_user_has_a_name_of_limited_length);
    tcase_add_test(shake, welcome_may_come_byte_by_byte);
    tcase_add_test(shake, wrong_version_is_told);
    tcase_add_test(shake, refused_version_is_told_in_the_words_of_wsd);
    tcase_add_test(shake, busy_daemon_is_told);
    tcase_add_test(shake, garbage_in_the_handshake_is_a_protocol_error);
    tcase_add_test(shake, other_header_version_is_not_supported);
    tcase_add_test(shake, other_frame_in_the_handshake_is_a_protocol_error);
    tcase_add_test(shake, early_close_is_told);
    tcase_add_test(shake, silent_daemon_runs_into_the_timeout);
    tcase_add_test(shake, no_daemon_is_told);
    tcase_add_test(shake, socket_without_listener_is_told);
    tcase_add_test(shake, path_that_is_too_long_is_told);
    tcase_add_test(shake, full_backlog_runs_into_the_timeout);
    tcase_add_test(shake, socket_is_looked_for_in_the_order_of_the_contract);
    tcase_add_test(shake, directory_that_is_gone_is_no_obstacle);
    tcase_add_test(live, end_of_the_stream_ends_the_connection);
    tcase_add_test(live, half_a_frame_and_the_end);
    tcase_add_test(live, garbage_ends_the_connection);
    tcase_add_test(live, oversized_frame_ends_the_connection);
    tcase_add_test(live, unknown_type_ends_the_connection);
    tcase_add_test(live, second_welcome_ends_the_connection);
    tcase_add_test(live, error_about_the_connection_is_told);
    tcase_add_test(live, reason_is_read_even_where_sending_fails_first);
    tcase_add_test(live, goodbye_is_no_end);
    tcase_add_test(live, frames_with_unknown_tags_are_ignored);
    tcase_add_test(live, unrequested_descriptors_are_closed);
    tcase_add_test(live, ping_measures);
    tcase_add_test(live, job_is_shown);
    tcase_add_test(live, program_with_a_smaller_struct_gets_no_more_than_it_has);
    tcase_add_test(live, missing_job_is_told);
    tcase_add_test(live, list_shows_every_job);
    tcase_add_test(live, listing_can_be_ended_by_the_callback);
    tcase_add_test(live, callback_may_ask_another_question);
    tcase_add_test(live, plugins_are_shown);
    tcase_add_test(live, gates_are_set_and_shown);
    tcase_add_test(live, release_names_what_it_lets_out);
    tcase_add_test(live, reload_tells_of_each_executor);
    tcase_add_test(live, counters_are_shown);
    tcase_add_test(live, workers_are_shown);
    tcase_add_test(live, number_of_workers_is_asked_for);
    tcase_add_test(live, trace_comes_in_pieces);
    tcase_add_test(live, profile_and_stack_come_in_pieces);
    tcase_add_test(live, wrong_answer_ends_the_connection);
    tcase_add_test(live, end_of_the_stream_answers_the_question);
    tcase_add_test(live, name_above_the_limit_is_refused_here);
    tcase_add_test(live, ids_are_texts_of_32_digits);
    tcase_add_test(live, states_have_the_names_of_the_contract);
    return run_suite(suite);
}
