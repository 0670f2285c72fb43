/* SPDX-License-Identifier: Apache-2.0
 *
 * test-lane.c: the direct lane that a program opens and closes itself: what wsd may answer, and what then. That calls
 * go through it is integration/lane.sh's. */
#include "peer.h"
#include "ring/lane-ring.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND 1000000u

static struct peer peer;
static struct wsd_client *client;

static void setup(void)
{
    peer_start(&peer, &client, 1 << 20, FEATURE_LANE);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static int lane(enum wsd_lane_action action)
{
    return wsd_client_lane(client, action);
}

/* --- wsd answers while the program waits -------------------------------------------------------------------------- */

static _Atomic unsigned n_asked, n_lost;

/* A frame with these descriptors. */
static void send_lane(uint32_t tag, const int *fds, size_t n_fds)
{
    char room[CMSG_SPACE(2 * sizeof(int))] = {0};
    uint8_t bytes[64];
    size_t size = codec_encode(&(struct msg){.type = FRAME_LANE}, tag, 0, bytes, sizeof(bytes));
    struct iovec iov = {bytes, size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds) {
        m.msg_control = room;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
        CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, n_fds * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(peer.fd, &m, 0), (ssize_t)size);
}

static void send_whole_lane(uint32_t tag)
{
    struct lane_front front;

    ck_assert_int_eq(lane_front_init(&front), 0);
    const int fds[] = {front.memory_fd, front.grant_fd};
    send_lane(tag, fds, 2);
    lane_front_deinit(&front);
}

/* Says that it is to be asked again, n_lost times; then there is one. */
static void *have_it_ask_again(void *arg)
{
    for (n_asked = 0;;) {
        peer_expect(&peer, NULL, FRAME_LANE_OPEN);
        if (++n_asked > n_lost)
            break;
        peer_send(&peer, &(struct msg){.type = FRAME_LANE_LOST, .error = {.text = {"ask again", 9}}}, peer.frame.tag,
                  NULL, 0);
    }
    send_whole_lane(peer.frame.tag);
    return NULL;
}

static void *refuse(void *arg)
{
    peer_expect(&peer, NULL, FRAME_LANE_OPEN);
    peer_send_error(&peer, peer.frame.tag, 75, "too many");
    return NULL;
}

static void *send_half_a_lane(void *arg)
{
    const int fds[] = {peer.fd};

    peer_expect(&peer, NULL, FRAME_LANE_OPEN);
    send_lane(peer.frame.tag, fds, *(const size_t *)arg);
    peer_expect(&peer, NULL, FRAME_LANE_CLOSE);
    peer_send_empty(&peer, FRAME_END, peer.frame.tag);
    return NULL;
}

static int open_while(void *(*answers)(void *arg), void *arg)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, answers, arg), 0);
    int r = lane(WSD_LANE_OPEN);
    pthread_join(thread, NULL);
    return r;
}

START_TEST(a_lane_is_opened_once)
{
    n_lost = 0;
    ck_assert_int_eq(open_while(have_it_ask_again, NULL), 0);
    ck_assert_int_eq(lane(WSD_LANE_OPEN), 0); /* nothing answers */
    ck_assert_uint_eq(n_asked, 1);
}
END_TEST

START_TEST(it_is_asked_for_again_after_a_while)
{
    n_lost = 3;
    ck_assert_int_eq(open_while(have_it_ask_again, NULL), 0);
    ck_assert_uint_eq(n_asked, 4);
}
END_TEST

/* Not as often as it can be: the pauses double from a millisecond. */
START_TEST(asking_again_has_pauses)
{
    pthread_t thread;

    n_lost = UINT32_MAX;
    ck_assert_int_eq(wsd_client_set_deadline(client, 200000), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, have_it_ask_again, NULL), 0);
    ck_assert_int_eq(lane(WSD_LANE_OPEN), -EAGAIN);
    ck_assert_int_eq(wsd_client_exit(client), 75);
    ck_assert_uint_ge(n_asked, 2);
    ck_assert_uint_le(n_asked, 9);
    n_lost = 0; /* and now there is one */
    ck_assert_int_eq(wsd_client_set_deadline(client, 0), 0);
    ck_assert_int_eq(lane(WSD_LANE_OPEN), 0);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(a_refusal_has_its_words)
{
    ck_assert_int_eq(open_while(refuse, NULL), -EAGAIN);
    ck_assert_str_eq(wsd_client_error(client), "too many");
    ck_assert_int_eq(wsd_client_exit(client), 75);
    ck_assert_int_eq(open_while(refuse, NULL), -EAGAIN); /* it is asked for at once, each time */
    n_lost = 0;
    ck_assert_int_eq(open_while(have_it_ask_again, NULL), 0);
}
END_TEST

START_TEST(what_cannot_be_used_is_given_back_and_said)
{
    size_t n_fds = (size_t)_i;
    unsigned before = count_fds();

    ck_assert_int_eq(open_while(send_half_a_lane, &n_fds), -EBADMSG);
    ck_assert_ptr_nonnull(strstr(wsd_client_error(client), "the direct lane cannot be used"));
    ck_assert_uint_eq(count_fds(), before);
}
END_TEST

START_TEST(an_answer_that_does_not_come_is_waited_for_until_the_deadline)
{
    ck_assert_int_eq(wsd_client_set_deadline(client, 1000), 0);
    ck_assert_int_eq(lane(WSD_LANE_OPEN), -ETIMEDOUT);
}
END_TEST

/* --- closing ------------------------------------------------------------------------------------------------------ */

START_TEST(a_lane_is_closed)
{
    n_lost = 0;
    ck_assert_int_eq(lane(WSD_LANE_CLOSE), 0); /* there is none */
    ck_assert(peer_quiet(&peer, client));
    ck_assert_int_eq(open_while(have_it_ask_again, NULL), 0);
    ck_assert_int_eq(lane(WSD_LANE_CLOSE), 0);
    peer_expect(&peer, client, FRAME_LANE_CLOSE);
    peer_send_empty(&peer, FRAME_END, peer.frame.tag);
    ck_assert_int_eq(open_while(have_it_ask_again, NULL), 0);
}
END_TEST

/* Before its answer has come: wsd has it back all the same. */
START_TEST(a_lane_that_is_asked_for_is_closed)
{
    unsigned before = count_fds();

    ck_assert_int_eq(wsd_client_set_deadline(client, 1000), 0);
    ck_assert_int_eq(lane(WSD_LANE_OPEN), -ETIMEDOUT);
    ck_assert_int_eq(lane(WSD_LANE_CLOSE), 0);
    peer_expect(&peer, client, FRAME_LANE_OPEN);
    if (_i == 0)
        send_whole_lane(peer.frame.tag);
    else if (_i == 1)
        peer_send_error(&peer, peer.frame.tag, 75, "too many");
    peer_expect(&peer, client, FRAME_LANE_CLOSE);
    if (_i != 1)
        peer_send_empty(&peer, FRAME_END, peer.frame.tag);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(count_fds(), before);
    ck_assert_int_eq(wsd_client_set_deadline(client, 0), 0);
    n_lost = 0;
    ck_assert_int_eq(open_while(have_it_ask_again, NULL), 0);
}
END_TEST

START_TEST(what_is_wrong_is_refused)
{
    ck_assert_int_eq(lane((enum wsd_lane_action)0), -EINVAL);
    ck_assert_int_eq(lane((enum wsd_lane_action)4), -EINVAL);
    peer_close(&peer);
    ck_assert_int_lt(wsd_client_process(client), 0);
    ck_assert_int_eq(lane(WSD_LANE_OPEN), -ECONNRESET);
    ck_assert_int_eq(lane(WSD_LANE_CLOSE), 0);
}
END_TEST

START_TEST(a_wsd_without_lanes_says_so)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
    peer_init(&peer, PEER_WELCOME, 1 << 20);
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(lane(WSD_LANE_OPEN), -EOPNOTSUPP);
    ck_assert_ptr_nonnull(strstr(wsd_client_error(client), "has no direct lanes"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lane");
    TCase *t = tcase_create("lane");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_lane_is_opened_once);
    tcase_add_test(t, it_is_asked_for_again_after_a_while);
    tcase_add_test(t, asking_again_has_pauses);
    tcase_add_test(t, a_refusal_has_its_words);
    tcase_add_loop_test(t, what_cannot_be_used_is_given_back_and_said, 0, 2);
    tcase_add_test(t, an_answer_that_does_not_come_is_waited_for_until_the_deadline);
    tcase_add_test(t, a_lane_is_closed);
    tcase_add_loop_test(t, a_lane_that_is_asked_for_is_closed, 0, 3);
    tcase_add_test(t, what_is_wrong_is_refused);
    tcase_add_test(t, a_wsd_without_lanes_says_so);
    suite_add_tcase(s, t);
    return run_suite(s);
}
