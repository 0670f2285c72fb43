/* SPDX-License-Identifier: Apache-2.0
 *
 * missing.pml: workers that block without saying so, and the monitor that takes them out of the crew (daemon/pool:
 * monitor.c, crew.c crew_miss() to crew_between(), park.c park_forget_pending(), base/eventcount.c): work gets on, and
 * `running` is right in the end.
 *
 * A worker runs a root that sleeps until another root has run. wsd publishes that one, and more, and rings as front_ring()
 * does. There is to be one worker. The monitor sleeps as a watch; its pauses between two looks are not modelled, so it
 * looks again only where there is something to find. What it sees of a thread may be old when it acts on it.
 * With -DDECLARES the root then also says that it blocks (crew_leave(), crew_return()).
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
#define SPARES 2
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
byte running = TARGET, tickets = 0, retired = SPARES;
bool pending = false;           /* PARK_WAKE_PENDING */
bool watched = false;           /* EVENTCOUNT_WATCHED */
bool watches = false;           /* the monitor's thread sleeps as a watch */
byte waiters = 0, epoch = 0;
byte searchers = 0;
bool rests[WORKERS] = true; /* parked or retired */

inline complete() {
#ifndef BUG_NO_HIRE
    atomic { /* crew_lock; without a spare worker the others must do */
        if
        :: running < TARGET && retired > 0 -> running++; retired--; tickets++
        :: else -> skip
        fi
    }
#endif
}

inline found(i) {
    atomic {
        if
        :: presence[i] == MISSED -> presence[i] = HERE; was = MISSED
        :: else -> was = HERE
        fi
    }
    if
    :: was == MISSED -> running++
    :: else -> skip
    fi;
    was = 0
}

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

inline between(i) {
    if
    :: presence[i] == MISSED -> found(i)
    :: else -> skip
    fi
}

/* worker_wake_if_left(): an idle worker or the monitor, or a spare one */
inline wake_if_left() {
    if
    :: roots > 0 ->
        atomic {
            if
            :: waiters > 0 -> epoch = (epoch + 1) % 4
            :: else -> watched = false
            fi
        };
        complete()
    :: else -> skip
    fi
}

proctype worker(byte self; bool first) {
    mtype was;
    byte seen;
    bool surplus, last;

    if
    :: !first -> goto end_retired
    :: else -> rests[self] = false; presence[self] = HERE
    fi;
    /* its root */
    asleep[self] = true;
    (ran > 0);
    asleep[self] = false;
#ifdef DECLARES
    atomic {
        was = presence[self];
        presence[self] = ELSEWHERE
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
    presence[self] = HERE;
#endif
    between(self);
ended:
    if
    :: running > TARGET -> goto retire
    :: else -> skip
    fi;
    /* without a search, which is cheaper: the bit stays */
    atomic {
        if
        :: roots > 0 -> roots--; ran++
        :: else -> goto search
        fi
    }
    between(self);
    goto ended;
search:
    atomic { searchers++; pending = false };
    atomic {
        if
        :: roots > 0 -> roots--; ran++
        :: else -> goto nothing
        fi
    }
    atomic { searchers--; last = searchers == 0 };
    if
    :: last -> wake_if_left()
    :: else -> skip
    fi;
    last = false;
    between(self);
    goto ended;
nothing:
    if
    :: running > TARGET -> searchers--; goto retire
    :: else -> skip
    fi;
    /* park() */
    rest(self);
    atomic { waiters++; seen = epoch }
    searchers--;
    if
    :: roots > 0 -> seen = 0; waiters--; presence[self] = HERE; goto search
    :: else -> skip
    fi;
    rests[self] = true;
end_parked:
    atomic { epoch != seen -> seen = 0; rests[self] = false };
    waiters--;
    presence[self] = HERE;
    goto search;
retire:
    rest(self);
    atomic {
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
    rests[self] = true;
end_retired:
    atomic { tickets > 0 -> tickets--; rests[self] = false };
    presence[self] = HERE;
    goto search
}

proctype wsd() {
    bool rang;
    byte n_waiters;
    bool was_watched;

    do
    :: left > 0 ->
        roots++;
        atomic {
            rang = !pending && searchers == 0;
            if
            :: rang -> pending = true
            :: else -> skip
            fi
        }
        if
        :: rang ->
            atomic { n_waiters = waiters; was_watched = watched }
            if
            :: n_waiters > 0 -> epoch = (epoch + 1) % 4
#ifndef BUG_NO_WATCH
            :: n_waiters == 0 && was_watched -> watched = false
#endif
            :: else -> skip
            fi;
            n_waiters = 0;
            was_watched = false
        :: else -> skip
        fi;
        rang = false;
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
    :: waiters > 0 || searchers > 0 -> goto next
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
next:
    /* the pause: until there is something new to find */
    if
    :: roots == 0 -> skip
    :: (presence[0] == HERE && asleep[0]) || (presence[0] == MISSED && !asleep[0]) -> skip
    fi;
    goto again
}

/* All is over: as many are in the crew as it thinks. */
proctype judge() {
end_judge:
    atomic {
        (ran == ROOTS && watches && tickets == 0 && !asleep[0] && rests[0]
#if SPARES > 0
         && rests[1]
#endif
#if SPARES > 1
         && rests[2]
#endif
         && waiters == WORKERS - retired);
        assert(running == waiters && running >= TARGET)
    }
}

init {
    byte i;

    atomic {
        run monitor();
        run wsd();
        run judge();
        run worker(0, true);
        for (i : 1 .. SPARES) {
            run worker(i, false)
        }
    }
}
