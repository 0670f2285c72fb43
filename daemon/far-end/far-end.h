/* SPDX-License-Identifier: Apache-2.0
 *
 * far-end.h: sockets and pipes with a far end that a stranger holds. Everything here is [loop].
 *
 * A read or write of ours wakes the waiters of the far end, one after the other, before it returns. A read of a socket
 * does so for each piece that was sent. By epoll(7), a stranger can have a million waiters there, which take 0.1 us
 * each. So there are two rules:
 *   - The loop only looks at what has come (MSG_PEEK), which wakes no waiter. SO_PEEK_OFF makes the next look see what
 *     comes behind it. A thread of the stranger's takes the bytes from the socket later, those of some looks at once.
 *   - The loop sends, and reads a pipe's text, as long as that takes no time. After the first such call that took long,
 *     the thread makes these calls for this stranger.
 * The loop never waits for such a thread, and makes no call on a socket that the thread works on.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define FAR_END_FDS       4u     /* descriptors of a message that is sent, at most */
#define FAR_END_LOOKS     64u    /* looks after which the thread takes what was seen from the socket */
#define FAR_END_SEEN      16384u /* bytes seen after which it does so */
#define FAR_END_LATER     5000u  /* us after the first look when it does so */
#define FAR_END_SLOW_USEC 1000u  /* a write or read of the loop that takes longer is the last one for its stranger */
#define FAR_END_LEAST     4096u  /* room for bytes that far_end_receive() is to have, at least */
#define FAR_END_PIECE     (64u * 1024u) /* largest write or read of the thread */

/* The threads, and the strangers that were slow. */
struct far_ends;
struct far_end;

/* Returns 0 or a negative errno. */
int far_ends_new(struct far_ends **ret, struct event_base *base);
/* Call it after far_end_close() of the last far end. Threads that are in a call end by themselves. NULL is fine;
 * returns NULL. */
struct far_ends *far_ends_free(struct far_ends *all);
/* Whether a call of the loop took long once, for this owner. */
bool far_ends_slow(struct far_ends *all, uint64_t owner);
/* Returns how many times a thread was told to do something. */
uint64_t far_ends_threaded(const struct far_ends *all);
/* Returns how many calls of the loop took long: one for each slow stranger. */
uint64_t far_ends_slow_calls(const struct far_ends *all);

/* Takes the descriptor on success. If `all` is NULL, the far end is no stranger's, and every call is made here and now.
 * `owner` is the stranger, also for async_close(). The loop calls ready() in two cases. A call that gave EAGAIN because
 * the thread was at work can be repeated. Or what the thread had to write did not fit. Within ready() the far end may
 * be closed. Returns 0 or -ENOMEM. */
int far_end_new(struct far_end **ret, struct far_ends *all, uint64_t owner, int fd, void (*ready)(void *context),
                void *context);
/* Closes the descriptor. A stranger's is closed without waiting, once the thread has attempted to write what it was
 * given. If `drained`, all that was sent to the far end has been looked at, and no more can come. NULL is fine; returns
 * NULL. */
struct far_end *far_end_close(struct far_end *e, bool drained);
/* Returns how many descriptors of an owner wait for their close(). `all` may be NULL. */
size_t far_ends_closing(struct far_ends *all, uint64_t owner);

/* Whether the far end is a stranger's. Then events have to be edge-triggered: what was looked at stays in the socket.
 * After an edge, far_end_receive() is repeated until it gives no more. */
bool far_end_strange(const struct far_end *e);
/* True: the thread is at work, so a look would give EAGAIN. `ready` follows. */
bool far_end_wait(struct far_end *e);
/* Whether the far end has not yet got all that was taken for it. */
bool far_end_sending(const struct far_end *e);
/* Whether the far end is sending, and the thread waits for room. When there is room, the loop should call
 * far_end_go_on(). */
bool far_end_full(const struct far_end *e);

/* As recvmsg(2) and sendmsg(2) with MSG_DONTWAIT. A control message has descriptors only, in one piece, and room for
 * 253 of them. */
ssize_t far_end_receive(struct far_end *e, struct msghdr *m);
ssize_t far_end_send(struct far_end *e, const struct msghdr *m);
/* As read(2) of a pipe that does not block. */
ssize_t far_end_read(struct far_end *e, void *to, size_t size);
/* Call it when the socket is writable: the thread is given again what it had not been able to write. */
void far_end_go_on(struct far_end *e);
/* As shutdown(2) with SHUT_WR, in a moment, of a socket that is no struct far_end. */
void far_end_shut(struct far_ends *all, uint64_t owner, int fd);
/* Whether nothing is left to do. False in three cases: what was looked at is still in the socket, something is unsent,
 * or something was read and not received. Then the thread was told to hurry, and `ready` is called when it is
 * through. */
bool far_end_settled(struct far_end *e);
