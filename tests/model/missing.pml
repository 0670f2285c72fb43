/* SPDX-License-Identifier: Apache-2.0
 *
 * missing.pml: workers that block without saying so, and the monitor that takes them out of the crew (daemon/pool:
 * monitor.c, crew.c crew_miss() to crew_between(), park.c park_forget_pending(); base/eventcount.c): work gets on, and
 * `running` is right in the end.
 *
 * wsd publishes roots, and rings as front_ring() does. The first root that is taken sleeps until another one has run.
 * There is to be one worker, which is between two roots at first. The monitor sleeps as a watch. Its pause between two
 * looks is not modelled: it looks again where there is something to find. What it has seen of a thread may be old when it
 * acts on it. With -DDECLARES that root also says that it blocks, afterwards (crew_leave(), crew_return()).
 * Searched for ends that are none. Each step is one atomic access of the C code, or one section under crew_lock.
 *
 * Variants that must fail (tests/model/run):
 *   -DBUG_NO_WATCH    a notify does not wake a watch
 *   -DBUG_NO_LOOK     the monitor sleeps without a look after its announcement
 *   -DBUG_NO_PENDING  it does not have wsd ring again
 *   -DBUG_NO_HIRE     it takes a worker out of the crew, and none comes
 *   -DBUG_STORE       a worker that goes to sleep does not look whether it was missed
 *   -DBUG_TWICE       a worker that says that it blocks does not look whether it was missed */

#ifndef SPARES
#define SPARES 1
#endif
#ifndef ROOTS
#define ROOTS 2
#endif
#define TARGET  1
#define WORKERS (1 + SPARES)

mtype = { ELSEWHERE, HERE, MISSED };
mtype presence[WORKERS] = ELSEWHERE;
bool asleep[WORKERS]; /* its thread, in what it runs */
byte roots = 0, ran = 0, left = ROOTS;
bool first_taken = false, first_done = false;
byte running = TARGET, tickets = 0, retired = SPARES;
byte searchers = 0;
bool pending = false; /* PARK_WAKE_PENDING */
bool watched = false; /* EVENTCOUNT_WATCHED */
bool watches = false; /* the monitor's thread sleeps as a watch */
/* the eventcount of idle workers */
mtype = { AWAKE, ANNOUNCED, PARKED };
mtype idle[WORKERS] = AWAKE;
bool rang[WORKERS];
byte waiters = 0;

/* Ends the wait of those that have announced themselves, and of one that is parked. */
inline notify() {
    atomic {
        for (k : 0 .. WORKERS - 1) {
            rang[k] = rang[k] || idle[k] == ANNOUNCED
        }
        if
        :: idle[0] == PARKED && !rang[0] -> rang[0] = true
        :: idle[1] == PARKED && !rang[1] -> rang[1] = true
#if SPARES > 1
        :: idle[2] == PARKED && !rang[2] -> rang[2] = true
#endif
        :: else -> skip
        fi;
        k = 0
    }
}

inline wake_watch() {
#ifndef BUG_NO_WATCH
    watched = false
#else
    skip
#endif
}

/* eventcount_notify(): decides by one RMW */
inline ring_event() {
    atomic {
        if
        :: waiters > 0 -> how = 1
        :: waiters == 0 && watched -> how = 2
        :: else -> how = 0
        fi
    }
    if
    :: how == 1 -> notify()
    :: how == 2 -> wake_watch()
    :: else -> skip
    fi;
    how = 0
}

/* crew_complete(). Where none is retired, those that run must do. */
inline complete() {
    atomic { /* crew_lock */
        if
#ifndef BUG_NO_HIRE
        :: running < TARGET && retired > 0 -> running++; retired--; tickets++
#endif
        :: else -> skip
        fi
    }
}

/* worker_wake_if_left() */
inline wake_if_left() {
    if
    :: roots > 0 -> ring_event(); complete()
    :: else -> skip
    fi
}

inline found(i) {
    atomic {
        was = presence[i];
        if
        :: was == MISSED -> presence[i] = HERE
        :: else -> skip
        fi
    }
    if
    :: was == MISSED -> running++
    :: else -> skip
    fi;
    was = 0
}

/* crew_rest() */
inline rest(i) {
    atomic {
        was = presence[i];
        presence[i] = ELSEWHERE
    }
    if
#ifndef BUG_STORE
    :: was == MISSED -> running++
#endif
    :: else -> skip
    fi;
    was = 0
}

/* crew_leave(), crew_return() */
inline declare(i) {
    atomic {
        was = presence[i];
        presence[i] = ELSEWHERE
    }
    if
#ifndef BUG_TWICE
    :: was != HERE -> skip
#endif
    :: else -> running--
    fi;
    was = 0;
    complete();
    running++;
    presence[i] = HERE
}

/* What was taken: the first root, or another. */
inline run_root(i) {
    if
    :: first ->
        asleep[i] = true;
        (ran > 0);
        asleep[i] = false;
        first = false;
#ifdef DECLARES
        declare(i);
#endif
        first_done = true
    :: else -> ran++
    fi;
    if
    :: presence[i] == MISSED -> found(i)
    :: else -> skip
    fi
}

proctype worker(byte self) {
    mtype was;
    byte k, how;
    bool surplus, last, first;

    if
    :: self > 0 -> goto end_retired
    :: else -> presence[self] = HERE
    fi;
between:
    if
    :: running > TARGET -> goto retire
    :: else -> skip
    fi;
    /* without a search, which is cheaper: the bit stays */
    atomic {
        if
        :: roots > 0 -> roots--; first = !first_taken; first_taken = true
        :: else -> goto search
        fi
    }
    run_root(self);
    goto between;
search:
    atomic { searchers++; pending = false };
    atomic {
        if
        :: roots > 0 -> roots--; first = !first_taken; first_taken = true
        :: else -> goto nothing
        fi
    }
    atomic { searchers--; last = searchers == 0 };
    if
    :: last -> last = false; wake_if_left()
    :: else -> skip
    fi;
    run_root(self);
    goto between;
nothing:
    if
    :: running > TARGET -> searchers--; goto retire
    :: else -> skip
    fi;
    /* park() */
    rest(self);
    atomic { waiters++; idle[self] = ANNOUNCED };
    searchers--;
    if
    :: roots > 0 -> goto awake
    :: else -> skip
    fi;
    idle[self] = PARKED;
end_parked:
    (rang[self]);
awake:
    atomic { idle[self] = AWAKE; rang[self] = false; waiters-- };
    presence[self] = HERE;
    goto search;
retire:
    rest(self);
    atomic { /* crew_lock */
        surplus = running > TARGET;
        if
        :: surplus -> running--; retired++
        :: else -> skip
        fi
    }
    if
    :: !surplus -> presence[self] = HERE; goto search
    :: else -> surplus = false; wake_if_left()
    fi;
end_retired:
    atomic { tickets > 0 -> tickets-- };
    presence[self] = HERE;
    goto search
}

proctype wsd() {
    byte k, how;
    bool free;

    do
    :: left > 0 ->
        roots++;
        atomic {
            free = !pending && searchers == 0;
            pending = pending || free
        }
        if
        :: free -> free = false; ring_event()
        :: else -> skip
        fi;
        left--
    :: else -> break
    od
}

proctype monitor() {
    byte i;
    mtype was;
    bool sleeps;

again:
    watched = true;
#ifndef BUG_NO_PENDING
    pending = false;
#endif
    if
#ifndef BUG_NO_LOOK
    :: roots > 0 -> watched = false; goto look
#endif
    :: else -> skip
    fi;
    watches = true;
end_watch:
    atomic { !watched -> watches = false };
look:
    if
    :: waiters > 0 || searchers > 0 -> goto pause
    :: else -> skip
    fi;
    for (i : 0 .. WORKERS - 1) {
        sleeps = asleep[i];
        if
        :: presence[i] == HERE && sleeps ->
            atomic {
                if
                :: presence[i] == HERE -> presence[i] = MISSED
                :: else -> sleeps = false
                fi
            }
            if
            :: sleeps -> running--; complete()
            :: else -> skip
            fi
        :: presence[i] == MISSED && !sleeps -> found(i)
        :: else -> skip
        fi;
        sleeps = false
    }
pause:
    i = 0;
    if
    :: roots == 0 -> skip
#define NEWS(i) (presence[i] == HERE && asleep[i]) || (presence[i] == MISSED && !asleep[i])
    :: NEWS(0) -> skip
    :: NEWS(1) -> skip
#if SPARES > 1
    :: NEWS(2) -> skip
#endif
    fi;
    goto again
}

/* All is over: as many are parked as the crew thinks that run, at least as many as there are to be. */
proctype judge() {
end_judge:
    atomic {
        (first_done && ran == ROOTS - 1 && watches && tickets == 0 && searchers == 0 &&
         (presence[0] == ELSEWHERE) && (presence[1] == ELSEWHERE)
#if SPARES > 1
         && presence[2] == ELSEWHERE
#endif
         && waiters == WORKERS - retired && (idle[0] != ANNOUNCED) && (idle[1] != ANNOUNCED)
         && !rang[0] && !rang[1]);
        assert(running == waiters && running >= TARGET)
    }
}

init {
    byte i;

    atomic {
        run monitor();
        run wsd();
        run judge();
        for (i : 0 .. SPARES) {
            run worker(i)
        }
    }
}
