/* SPDX-License-Identifier: Apache-2.0
 *
 * joining.pml: sleeping joins beside idle workers (daemon/pool: join.c wait_sleep(), park.c, base/eventcount.h): no wake-up
 * is lost, neither that of the awaited child nor that of a task which a join could help with.
 *
 * PAIRS workers wait in a join for a child that another worker runs. Each child publishes up to TASKS tasks, and stays
 * in a leaf while a task is visible that somebody else could take; then it finishes and notifies the join. IDLE idle
 * workers search and park as in parking.pml, and PRODUCERS outside threads submit a root each, which joins never take.
 * A join that is over goes on into a leaf of its own, for good. So a task that nobody is woken for, or a join that is
 * not woken, is a deadlock. Each step is one atomic access of the C code, or one section under park.lock; which of the
 * listed joins is woken is left open.
 *
 * -DGONE: who has run a child goes on with something long, and does not search; much smaller.
 *
 * Variants that must fail (tests/model/run):
 *   -DBUG_NO_LOOK         a join sleeps without looking again
 *   -DBUG_LOOK_CHILD      it looks only at its child
 *   -DBUG_LIST_EARLY      it stands in the list before it has prepared to sleep: taken off before, it sleeps unlisted
 *   -DBUG_LIST_LATE       it stands in the list only after its look
 *   -DBUG_NO_PASSING_ON   a join that was woken for a task, and takes it or is over, does not wake the next one
 *   -DBUG_NO_RELIED       the waker of a root who finds nobody idle does not ask whether a task's waker relied on him
 *   -DBUG_NO_NOTIFY       who finishes a child does not notify
 *   -DBUG_NO_JOINERS      who publishes wakes idle workers only */

#ifndef PAIRS
#define PAIRS 2
#endif
#ifndef IDLE
#define IDLE 1
#endif
#ifndef TASKS
#define TASKS 1
#endif
#ifndef PRODUCERS
#define PRODUCERS 0
#endif
#define AGENTS (2 * PAIRS + IDLE)

byte tasks[PAIRS], roots = 0, done_roots = 0;
#if PAIRS == 1
#define ANY_TASKS (tasks[0] > 0)
#else
#define ANY_TASKS (tasks[0] + tasks[1] > 0)
#endif
byte leaves = 0; /* workers that run what they run while anything is left to take */

/* idle workers */
byte searchers = 0;
bool waking = false, relied = false;
byte epoch = 0, waiters = 0;

/* joins */
byte n_joiners = 0;
bool listed[PAIRS];
byte j_epoch[PAIRS], j_waiters[PAIRS];
bool done[PAIRS];
byte n_joined = 0;

/* park.c wake_idle(): `woken` where nobody else has to be; `left` where a task's waker has relied on us in vain. */
inline wake_idle(for_task, woken, left) {
    woken = false;
    left = false;
    do
    :: atomic {
           if
           :: searchers > 0 -> woken = true; break
           :: searchers == 0 && waking ->
               if
               :: for_task || left -> relied = true
               :: else -> skip
               fi;
               woken = true;
               break
           :: else -> waking = true
           fi
       }
       if
       :: waiters > 0 ->
           epoch++;
           woken = true;
           break
       :: else ->
           atomic { waking = false; left = left || relied; relied = false }
           if
           :: waiters == 0 -> break
           :: else -> skip
           fi
       fi
    od
}

inline notify_join(j) {
    if
    :: j_waiters[j] > 0 -> j_epoch[j]++
    :: else -> skip
    fi
}

/* Any of those listed. */
inline wake_joiner(who) {
    atomic { /* park.lock */
        if
        :: listed[0] -> who = 0
#if PAIRS > 1
        :: listed[1] -> who = 1
#endif
        :: n_joiners == 0 -> who = PAIRS
        fi;
        if
        :: who < PAIRS -> listed[who] = false; n_joiners--
        :: else -> skip
        fi
    }
    if
    :: who < PAIRS -> notify_join(who)
    :: else -> skip
    fi;
    who = 0
}

/* park_has_sleepers(), then park_wake_task() */
inline wake_task() {
    if
    :: waiters > 0 || n_joiners > 0 ->
        wake_idle(true, woken, left);
#ifndef BUG_NO_JOINERS
        if
        :: !woken && n_joiners > 0 -> wake_joiner(who)
        :: else -> skip
        fi;
#endif
        woken = false;
        left = false
    :: else -> skip
    fi
}

inline wake_root() {
    if
    :: waiters > 0 || n_joiners > 0 ->
        wake_idle(false, woken, left);
#ifndef BUG_NO_RELIED
        if
        :: !woken && left -> wake_joiner(who)
        :: else -> skip
        fi;
#endif
        woken = false;
        left = false
    :: else -> skip
    fi
}

/* pool.c wake_if_left() */
inline wake_if_left() {
    if
    :: ANY_TASKS -> wake_task()
    :: else ->
        if
        :: roots > 0 -> wake_root()
        :: else -> skip
        fi
    fi
}

/* deque_steal_any() of anybody's; more is left behind */
inline steal() {
    atomic {
        if
        :: tasks[0] > 0 -> tasks[0]--; got = 2; more = tasks[0] > 0
#if PAIRS > 1
        :: tasks[1] > 0 -> tasks[1]--; got = 2; more = tasks[1] > 0
#endif
        :: else -> got = 0
        fi
    }
    if
    :: more -> more = false; wake_task()
    :: else -> skip
    fi
}

/* A leaf: lasts while somebody who is not in one could take a task. Where all are, it ends. */
inline leaf() {
    leaves++;
    atomic { (!ANY_TASKS || leaves == AGENTS) -> leaves-- }
}

proctype joiner(byte me) {
    byte seen, who, got;
    bool woken, left, more, for_task;

join:
    if
    :: done[me] -> goto joined
    :: else -> skip
    fi;
    /* help() */
    steal();
    if
    :: got ->
        got = 0;
#ifndef BUG_NO_PASSING_ON
        if
        :: for_task -> for_task = false; wake_if_left()
        :: else -> skip
        fi;
#endif
        goto join
    :: else -> skip
    fi;
    /* wait_sleep() */
#ifdef BUG_LIST_EARLY
    atomic { listed[me] = true; n_joiners++ }
#endif
    atomic { j_waiters[me]++; seen = j_epoch[me] }
#if !defined(BUG_LIST_EARLY) && !defined(BUG_LIST_LATE)
    atomic { listed[me] = true; n_joiners++ }
#endif
    if
#ifndef BUG_NO_LOOK
    :: done[me] -> skip
#ifndef BUG_LOOK_CHILD
    :: ANY_TASKS -> skip
#endif
#endif
    :: else ->
#ifdef BUG_LIST_LATE
        atomic { listed[me] = true; n_joiners++ }
#endif
        (j_epoch[me] != seen)
    fi;
    j_waiters[me]--;
    seen = 0;
    atomic { /* park.lock */
        if
        :: listed[me] -> listed[me] = false; n_joiners--
        :: else -> for_task = true
        fi
    }
    goto join;
joined:
#ifndef BUG_NO_PASSING_ON
    if
    :: for_task -> wake_if_left()
    :: else -> skip
    fi;
#endif
    atomic { leaves++; n_joined++ } /* for good */
}

proctype worker(byte child) {
    byte seen, who, n, got;
    bool woken, left, more, last;

    if
    :: child < PAIRS -> skip
    :: else -> goto search
    fi;
    /* runs the child of a join */
    do
    :: n < TASKS ->
        n++;
        tasks[child]++;
        wake_task()
    :: break
    od;
    n = 0;
    leaf();
    tasks[child] = 0; /* its syncs take back what is left */
    done[child] = true;
#ifndef BUG_NO_NOTIFY
    notify_join(child);
#endif
    child = PAIRS;
    if
    :: leaves++; goto end_gone /* something long that is of no interest */
#ifndef GONE
    :: skip
#endif
    fi;

search:
    atomic { waking = false; relied = false; searchers++ } /* one CAS */
    steal();
    if
    :: got == 0 ->
        atomic {
            if
            :: roots > 0 -> roots--; got = 1; more = roots > 0
            :: else -> skip
            fi
        }
        if
        :: more -> more = false; wake_root()
        :: else -> skip
        fi
    :: else -> skip
    fi;
    if
    :: got != 0 ->
        atomic { searchers--; last = (searchers == 0) }
        if
        :: last -> wake_if_left()
        :: else -> skip
        fi;
        last = false;
        if
        :: got == 1 -> leaf(); done_roots++
        :: else -> skip
        fi;
        got = 0;
        goto search
    :: else -> skip
    fi;
    /* park() */
    atomic { waiters++; seen = epoch }
    searchers--;
    if
    :: ANY_TASKS || roots > 0 -> waiters--; seen = 0; goto search
    :: else -> skip
    fi;
end_asleep:
    (epoch != seen);
    waiters--;
    seen = 0;
    goto search;
end_gone:
    skip
}

proctype producer() {
    byte who;
    bool woken, left;

    roots++;
    wake_root()
}

active proctype watch() {
    byte i;

    atomic {
        do
        :: i < PAIRS -> run joiner(i); run worker(i); i++
        :: i >= PAIRS && i < PAIRS + IDLE -> run worker(PAIRS); i++
        :: i >= PAIRS + IDLE && i < PAIRS + IDLE + PRODUCERS -> run producer(); i++
        :: i == PAIRS + IDLE + PRODUCERS -> break
        od;
        i = 0
    }
    n_joined == PAIRS && !ANY_TASKS && (roots == 0 || leaves == AGENTS)
}
