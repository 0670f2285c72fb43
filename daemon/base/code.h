/* SPDX-License-Identifier: Apache-2.0
 *
 * code.h: the exit codes of wsctl(1) and wsd(8), which are also the codes of errors and ends on the wire. Below 64 they
 * are a job's own. Those that sysexits.h has mean what they mean there.
 */
#pragma once

enum code {
    CODE_OWN_MAX = 63, /* the highest of a job's own, which stands for all above */
    CODE_USAGE = 64,
    CODE_NOT_FOUND = 66,
    CODE_NO_DAEMON = 69,
    CODE_CRASHED = 70,
    CODE_SOFTWARE = 70, /* of wsd itself: something that cannot be is so, or there is no memory to begin with */
    CODE_IO = 74,
    CODE_BUSY = 75, /* nothing was done: try again later */
    CODE_PROTOCOL = 76,
    CODE_DENIED = 77,
    CODE_TIMED_OUT = 124,
    CODE_INTERRUPTED = 125,
    CODE_CANCELLED = 130,
};
