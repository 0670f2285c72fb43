/* SPDX-License-Identifier: Apache-2.0
 *
 * parking.pml: the parking protocol of daemon/pool (park.h, base/eventcount.h): no wake-up is lost.
 *
 * PRODUCERS submit one root each, RINGERS of them as wsd, the others as outside threads; a root may publish a task, and
 * then stays in a leaf while there is visible work that another worker could take. So work that nobody is woken for is a
 * deadlock, and spin reports it.
 * Each step is one atomic access of the C code, under sequential consistency: all accesses in question are seq_cst.
 *
 *   submit:  publish (CAS of the injector's tail) -> any sleeper announced? -> wake_idle
 *   wsd:     publish (store of the ring's tail) -> nobody searches or is being woken? -> eventcount_notify
 *   worker:  search; found: end of search, was he the last? then wake the next if anything is left -> run
 *            nothing: prepare (waiters++, read epoch) -> end of search -> look again -> sleep while epoch is the same
 *
 * Variants that must fail, so that the model is known to see what it is there for (tests/model/run):
 *   -DBUG_NO_LOOK      sleeps without looking again
 *   -DBUG_NO_NEXT      the last searcher that finds work wakes nobody
 *   -DBUG_RUNG_STAYS   who was rung awake leaves wsd's bit when he searches
 *
 * -DBUG_NO_RECHECK (a waker that found nobody does not look whether somebody relied on its bit) fails in no size that
 * was tried: with park_has_sleepers() before it, the second look of park.c wake_idle() may be one too many. */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef RINGERS
#define RINGERS (PRODUCERS / 2)
#endif

byte roots = 0;    /* in the injector */
byte spawning = 0; /* of them, such as spawn a task */
byte tasks = 0;    /* public */
byte searchers = 0;     /* searching workers */
bool waking = false;
bool rung = false; /* by the other process */
bool ringing = false;
byte epoch = 0;    /* of the eventcount; counts wake-ups, so it does not come round */
byte waiters = 0;
byte leaves = 0;   /* workers that run one */
byte done_roots = 0, done_tasks = 0;

byte total_tasks = 0;
#define ALL_DONE (done_roots == PRODUCERS && done_tasks == total_tasks)

/* park.c wake_idle(), with eventcount_notify() inside. The caller has made the work visible before. */
inline wake() {
    do
    :: atomic {
           /* RMW of zero on searchers, then the CAS to WAKING: when it fails, round again; so as one step */
           if
           :: (searchers > 0 || waking) -> break
           :: else -> waking = true
           fi
       }
       if
       :: waiters > 0 ->
           /* eventcount_notify: epoch++, then FUTEX_WAKE of one */
           epoch++;
           break
       :: else ->
           waking = false;
#ifdef BUG_NO_RECHECK
           break
#else
           if
           :: waiters == 0 -> break
           :: else -> skip
           fi
#endif
       fi
    od
}

/* the loads before it: park_has_sleepers() */
inline wake_if_sleepers() {
    if
    :: waiters > 0 -> wake()
    :: else -> skip
    fi
}

/* ring/front.c front_ring(): a producer in another process, which wakes nobody while anybody searches or is being woken, and
 * on whom nobody relies but itself: it is one thread */
inline ring() {
    atomic { !ringing -> ringing = true }
    atomic {
        if
        :: searchers > 0 || waking || rung -> goes = false
        :: else -> rung = true; goes = true
        fi
    }
    if
    :: goes ->
        if
        :: waiters > 0 -> epoch++
        :: else -> skip /* nobody searches, nobody sleeps: whoever is there searches before he sleeps */
        fi
    :: else -> skip
    fi
    ringing = false
}

proctype producer(bool rings) {
    bool goes;

    atomic {
        roots++;
        if
        :: spawning++; total_tasks++
        :: skip
        fi
    }
    if
    :: rings -> ring()
    :: else -> wake_if_sleepers()
    fi
}

proctype worker() {
    byte seen;
    byte got; /* 0 nothing, 1 a root, 2 a task */
    bool last, spawns;

search:
    atomic { /* one CAS */
        waking = false;
#ifndef BUG_RUNG_STAYS
        rung = false;
#endif
        searchers++
    }
find:
    got = 0;
    spawns = false;
    /* steal, then the injector */
    atomic {
        if
        :: tasks > 0 -> tasks--; got = 2
        :: else -> skip
        fi
    }
    if
    :: got == 0 ->
        atomic {
            if
            :: roots > 0 ->
                roots--;
                got = 1;
                if
                :: spawning > 0 -> spawning--; spawns = true
                :: else -> skip
                fi
            :: else -> skip
            fi
        }
        if
        :: got == 1 && roots > 0 -> wake_if_sleepers() /* who takes one of several roots */
        :: else -> skip
        fi
    :: else ->
        if
        :: tasks > 0 -> wake_if_sleepers() /* a thief that leaves something behind */
        :: else -> skip
        fi
    fi;
    if
    :: got != 0 ->
        atomic { searchers--; last = (searchers == 0) }
#ifndef BUG_NO_NEXT
        if
        :: last && (tasks > 0 || roots > 0) -> wake_if_sleepers()
        :: else -> skip
        fi;
#endif
        if
        :: got == 2 -> done_tasks++
        :: else ->
            if
            :: spawns ->
                tasks++; /* publish: a CAS of the deque's word */
                wake_if_sleepers()
            :: else -> skip
            fi;
            /* a leaf that lasts until others have taken all that is visible; where all workers are in such leaves, it
             * ends, and its sync takes a task back */
            leaves++;
            ((tasks == 0 && roots == 0) || leaves == WORKERS);
            atomic {
                if
                :: tasks > 0 -> tasks--; done_tasks++
                :: else -> skip
                fi
            }
            leaves--;
            done_roots++
        fi;
        goto search
    :: else -> skip
    fi;
    /* park() */
    atomic { waiters++; seen = epoch } /* prepare: RMW, then the load; a bump between them only lets him return early */
    atomic { searchers-- }
#ifndef BUG_NO_LOOK
    if
    :: (roots > 0 || tasks > 0) ->
        waiters--;
        goto search
    :: else -> skip
    fi;
#endif
end_asleep: /* to rest here is fine, if all is done: see the claim */
    (epoch != seen);
    waiters--;
    goto search
}

/* Nobody rests while work is visible: a deadlock in any other place, or here with ALL_DONE false, is a lost wake-up. */
active proctype watch() {
    byte i;

    atomic {
        for (i : 1 .. WORKERS) { run worker() }
        for (i : 1 .. PRODUCERS) { run producer(i <= RINGERS) }
    }
    ALL_DONE
}
