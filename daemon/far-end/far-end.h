/* SPDX-License-Identifier: Apache-2.0
 *
 * far-end.h: sockets and pipes whose far end a stranger holds. Everything here is [loop].
 *
 * A read or write of ours wakes those who wait for the far end, one after the other, before it returns. A read of a
 * socket does so for each piece that was sent. By epoll(7), a stranger can have a million waiters there, which take 0.1
 * us each. So:
 *   - what has come is looked at (MSG_PEEK, and SO_PEEK_OFF, so that the next look sees what comes behind it), which
 *     wakes nobody. A thread of the stranger's takes it from the socket later, some looks at once;
 *   - what is sent, and a pipe's text, goes from the loop as long as that takes no time. After the first time that it
 *     did, that thread does it for this stranger.
 * The loop waits for such a thread never, and makes no call on a socket that the thread works on.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define FAR_END_FDS       4u     /* descriptors of a message that is sent, at most */
#define FAR_END_LOOKS     64u    /* looks at a socket before what was seen is taken from it; */
#define FAR_END_SEEN      16384u /* as many bytes; */
#define FAR_END_LATER     5000u  /* or as many us after the first look */
#define FAR_END_SLOW_USEC 1000u  /* a write or read of the loop that takes longer is the last one of its stranger */
#define FAR_END_LEAST     4096u  /* room for bytes that far_end_receive() is to have, at least */
#define FAR_END_PIECE     (64u * 1024u) /* of a write or read of the thread's */

/* The threads, and who has been slow. */
struct far_ends;
struct far_end;

/* Returns 0 or a negative errno. */
int far_ends_new(struct far_ends **ret, struct event_base *base);
/* After the last of its far_end_close(). Threads that are in a call end by themselves. NULL is fine; returns NULL. */
struct far_ends *far_ends_free(struct far_ends *all);
/* Whether a call of the loop's took long once, by an owner. */
bool far_ends_slow(struct far_ends *all, uint64_t owner);
/* So many times a thread was told to do something. */
uint64_t far_ends_threaded(const struct far_ends *all);

/* Takes the descriptor on success. all NULL: the far end is no stranger's, and every call is made here and now.
 * owner: the stranger, also for async_close(). ready: a call that gave EAGAIN since the thread was at work can be
 * repeated, or what the thread had to write did not fit. It is called by the loop, and may close the far end. Returns 0
 * or -ENOMEM. */
int far_end_new(struct far_end **ret, struct far_ends *all, uint64_t owner, int fd, void (*ready)(void *context),
                void *context);
/* Closes the descriptor, a stranger's without waiting, once the thread has attempted to write what it was given.
 * drained: all that was sent to it has been looked at, and no more can come. NULL is fine; returns NULL. */
struct far_end *far_end_close(struct far_end *e, bool drained);
/* Descriptors of an owner that wait for their close(). all may be NULL. */
size_t far_ends_closing(struct far_ends *all, uint64_t owner);

/* Whether it is a stranger's. Then events have to be edge-triggered: what was looked at stays in the socket. After an
 * edge, far_end_receive() is repeated until it gives no more. */
bool far_end_strange(const struct far_end *e);
/* True: the thread is at work, so that a look would give EAGAIN; `ready` follows. */
bool far_end_wait(struct far_end *e);
/* The far end has not got all that was taken for it. */
bool far_end_sending(const struct far_end *e);
/* Where it is sending: the thread waits for room, and the loop should ask when there is some: far_end_go_on(). */
bool far_end_full(const struct far_end *e);

/* As recvmsg(2) and sendmsg(2) with MSG_DONTWAIT; a control message has descriptors only, in one piece, and room for 253
 * of them. */
ssize_t far_end_receive(struct far_end *e, struct msghdr *m);
ssize_t far_end_send(struct far_end *e, const struct msghdr *m);
/* As read(2) of a pipe that does not block. */
ssize_t far_end_read(struct far_end *e, void *to, size_t size);
/* The socket is writable: what the thread had not been able to write is given to it again. */
void far_end_go_on(struct far_end *e);
/* As shutdown(2) with SHUT_WR of a socket that is no struct far_end, in a moment. */
void far_end_shut(struct far_ends *all, uint64_t owner, int fd);
/* False: what was looked at is still in the socket, or something is unsent, or was read and not received; the thread was
 * told to hurry. `ready` is called when it has. */
bool far_end_settled(struct far_end *e);
