/* SPDX-License-Identifier: Apache-2.0
 *
 * looking.pml: whom a client of a direct lane wakes (daemon/ring/lane-ring.h, daemon/executor/lanes.c): as long as calls are as brief
 * as it says, nothing that it relied on somebody for is left lying.
 *
 * A client pushes PUSHES slots, each brief or not, and never presses (lane_client_press(), which makes good what is wrong here
 * after some milliseconds, and what this does not know: calls that last, and workers that are held up). WORKERS take them. A worker
 * that has run one looks on: it says so before its answer, and takes that back before it sleeps, or where others look and all
 * is brief. Slots that nobody is awake for are a deadlock, and spin reports it.
 * Each step is one atomic access of the C code, under sequential consistency: all accesses in question are seq_cst.
 *
 * Variants that must fail, so that the model is known to see what it is there for (tests/model/run):
 *   -DBUG_NO_LOOK     sleeps without looking again
 *   -DBUG_LEAVE_LATE  looks again, and only then says that it looks no more
 *   -DBUG_ASK_EARLY   the client asks who looks before it has pushed */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef PUSHES
#define PUSHES 3
#endif

byte queued = 0;
byte looking = 0;
bool brief = false;
byte epoch = 0; /* of the bell; counts wake-ups, so it does not come round */
byte waiters = 0;
byte done = 0;

/* eventcount_notify(): wakes whoever waits; one is as good as another, and more are only easier. */
inline ring() {
    if
    :: waiters > 0 -> epoch++
    :: else
    fi
}

proctype client() {
    byte pushed = 0;
    bool says, looked;

    do
    :: pushed == PUSHES -> break
    :: pushed < PUSHES ->
#ifdef BUG_ASK_EARLY
        looked = looking > 0;
#endif
        queued++;
        pushed++;
        if
        :: says = true
        :: says = false
        fi;
        brief = says;
#ifndef BUG_ASK_EARLY
        looked = looking > 0;
#endif
        if
        :: says && looked
        :: else -> ring()
        fi;
    od
}

proctype worker() {
    bool looks = false, cared;
    byte e;

again:
    /* is_cared_for(): whether anything waits is asked behind it */
    if
    :: !looks ->
        cared = brief;
        if
        :: cared -> cared = looking > 0
        :: else
        fi
    :: looks ->
        cared = brief;
        if
        :: cared ->
            atomic { /* compare-and-swap */
                if
                :: looking > 1 -> looking--; looks = false
                :: else -> cared = false
                fi
            }
        :: else
        fi
    fi;
    if
    :: cared
    :: else ->
        atomic {
            if
            :: queued > 0 -> queued--
            :: else -> cared = true
            fi
        };
        if
        :: !cared ->
            if
            :: !looks -> looking++; looks = true
            :: else
            fi;
            done++;
            goto again
        :: else
        fi
    fi;
#ifndef BUG_LEAVE_LATE
    if
    :: looks -> looking--; looks = false
    :: else
    fi;
#endif
    atomic { waiters++; e = epoch };
#ifndef BUG_NO_LOOK
    if
    :: queued > 0 ->
        cared = brief;
        if
        :: cared -> cared = looking > 0
        :: else
        fi;
#ifdef BUG_LEAVE_LATE
        cared = cared && looking > looks;
#endif
        if
        :: !cared -> waiters--; goto again
        :: else
        fi
    :: else
    fi;
#endif
#ifdef BUG_LEAVE_LATE
    if
    :: looks -> looking--; looks = false
    :: else
    fi;
#endif
end_asleep:
    epoch != e;
    waiters--;
    goto again
}

/* When nobody can do anything any more all is done. */
active proctype judge() {
    timeout;
    assert(done == PUSHES)
}

init {
    byte i = 0;

    atomic {
        run client();
        do
        :: i < WORKERS -> run worker(); i++
        :: else -> break
        od
    }
}
