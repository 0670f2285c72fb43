/* SPDX-License-Identifier: Apache-2.0
 *
 * waiting.pml: waits that take only what descends from what they wait for, beside a crew that replaces who blocks
 * (daemon/pool: join.c wait_sleep() and may_go_on(), crew.c): somebody always gets on.
 *
 * The runner has spawned a task that keeps a promise, and runs a future on top of it, which spawns a leaf (LEAF), waits
 * for the promise, and joins the leaf. The waiter waits for that future: of the runner's deque it may take the leaf, and
 * not the task below it. There is to be one worker; spare ones come in the place of those that block, and take anything.
 * A wait at first counts as a worker that runs, for a moment, and then as one that blocks.
 * Searched for ends that are none and for cycles in which nothing is run (-l). Each step is one atomic access of the C
 * code, or one section under crew_lock.
 *
 * Variants that must fail (tests/model/run):
 *   -DBUG_LOOK_ANY   a wait goes on where its thief has anything, also what it may not take
 *   -DBUG_STAY       it never counts as one that blocks
 *   -DBUG_NO_HIRE    nobody comes in the place of who blocks
 *   -DBUG_NO_LOOK    it sleeps without looking again whether it is over */

#ifndef SPARES
#define SPARES 2
#endif
#ifdef LEAF
#define ENTRIES 2
#else
#define ENTRIES 1
#endif
#define TARGET  1
#define FOREIGN 0 /* entry 0: keeps the promise; entry 1: the leaf */

byte tail = 0, entries = 1;
bool kept = false, leaf_done = false, over = false;
byte running = 2; /* there were to be two, when both began */
byte tickets = 0;

/* eventcounts of the two */
byte epoch[2], waiters[2];
#define RUNNER 0
#define WAITER 1

inline notify(who) {
    if
    :: waiters[who] > 0 -> epoch[who]++
    :: else -> skip
    fi
}

inline run_task(i) {
    if
    :: i == FOREIGN -> kept = true
    :: else -> leaf_done = true
    fi;
progress_run:
    notify(RUNNER)
}

inline leave() {
    running--;
#ifndef BUG_NO_HIRE
    atomic { /* crew_lock */
        if
        :: running < TARGET && tickets < SPARES -> running++; tickets++
        :: else -> skip
        fi
    }
#endif
}

proctype runner() {
    byte seen;

    /* on top of the task that it has published; waits for the promise, which nobody runs */
#ifdef LEAF
    entries = 2;
#endif
again:
    if
    :: kept -> goto set
    :: else -> skip
    fi;
    atomic { waiters[RUNNER]++; seen = epoch[RUNNER] }
    if
#ifndef BUG_NO_LOOK
    :: kept -> waiters[RUNNER]--; goto again
#endif
    :: else -> skip /* or so long that it counts as blocked */
    fi;
    waiters[RUNNER]--;
    leave();
    atomic { waiters[RUNNER]++; seen = epoch[RUNNER] }
    if
#ifndef BUG_NO_LOOK
    :: kept -> skip
#endif
    :: else -> (epoch[RUNNER] != seen)
    fi;
    waiters[RUNNER]--;
    running++;
    goto again;
set:
#ifdef LEAF
    atomic {
        if
        :: tail < 2 -> entries = 1; leaf_done = true /* its own again; what lies below it has run */
        :: else -> skip
        fi
    }
    (leaf_done);
#endif
    over = true;
progress_over:
    notify(WAITER)
}

proctype waiter() {
    byte seen, mine;
    bool blocks, look;

again:
    if
    :: over -> goto done
    :: else -> skip
    fi;
    /* help() */
    atomic {
        if
        :: tail < entries && tail != FOREIGN -> mine = tail; tail++
        :: else -> goto sleep
        fi
    }
    run_task(mine);
    goto again;
sleep:
    blocks = false;
half:
    atomic { waiters[WAITER]++; seen = epoch[WAITER] }
#ifdef BUG_LOOK_ANY
    look = tail < entries;
#else
    look = tail < entries && tail != FOREIGN;
#endif
    if
#ifndef BUG_NO_LOOK
    :: over || look -> waiters[WAITER]--; goto back
#endif
    :: else ->
#ifndef BUG_STAY
        if
        :: !blocks -> skip /* the time is up */
        :: blocks -> (epoch[WAITER] != seen)
        fi
#endif
    fi;
    waiters[WAITER]--;
#ifndef BUG_STAY
    if
    :: !blocks -> leave(); blocks = true; goto half
    :: else -> skip
    fi;
#endif
back:
    if
    :: blocks -> running++
    :: else -> skip
    fi;
    goto again;
done:
    skip
}

proctype spare() {
    byte mine;

end_retired:
    atomic { tickets > 0 -> tickets-- }
search:
    atomic {
        if
        :: tail < entries -> mine = tail; tail++
        :: else -> goto nothing
        fi
    }
    run_task(mine);
    goto search;
nothing:
    atomic {
        if
        :: running > TARGET -> running--; goto end_retired
        :: else -> skip
        fi
    }
end_parked:
    (tail < entries || running > TARGET);
    goto search
}

init {
    byte i;

    atomic {
        /* the number was lowered meanwhile: neither looks before its next task */
        run runner();
        run waiter();
        for (i : 1 .. SPARES) {
            run spare()
        }
    }
}
