/* SPDX-License-Identifier: Apache-2.0
 *
 * deque.pml: the split deque of daemon/pool (deque.c): one owner, THIEVES that steal and, before they sleep, revoke.
 *
 * Each shared access of the C code is one step. The owner's plain stores (top, owner_in) go through a store buffer of
 * BUFFER entries, in order, and become visible at any later moment; his locked instructions wait until it is empty, and
 * so does a thief's membarrier: that is all that membarrier promises. His loads overtake what is buffered. Everybody
 * else's stores in question are locked instructions, or are followed by one before they matter.
 *
 * The owner pushes and pops as he likes, PUSHES times, never more than DEPTH deep; at any moment he may go into a leaf
 * that lasts until thieves have all that he has pushed. Beyond WINDOW tasks that nobody has stolen a push is refused,
 * and the child runs at once.
 *
 * Holds: each task is run exactly once; a thief runs what was pushed, and the owner finds the stolen ones at his join;
 * tail <= split; and, as a deadlock otherwise, no task is hidden for good from a thief that has looked and sleeps: the
 * owner's next push or pop publishes, or the thief has revoked. That a publication wakes a sleeper is parking.pml's and
 * joining.pml's; here it wakes all.
 *
 * Variants that must fail (tests/model/run):
 *   -DBUG_NO_MEMBARRIER  none where a thief looks and revokes
 *   -DBUG_NONE_PRIVATE   none where nothing seems to be private: it has to be that nothing is on the stack
 *   -DBUG_TOP_EARLY      the revoker reads top before he sets his trap (wants two thieves)
 *   -DBUG_NO_REVOKE      a thief sleeps once nothing is public
 *   -DBUG_NO_TRAP        who takes the last public task sets no trap
 *   -DBUG_TRAP_EARLY     he sets it before he takes it
 *   -DBUG_NO_TRAP_TOO    the revoker sets none (another thief may be about to; wants two)
 *   -DBUG_TRAP_FIRST     he sets it before he has waited for the owner to leave his slow path, who wipes it out, and has
 *                        one membarrier (wants two thieves)
 *   -DBUG_NO_REFUSE_LOAD a refused push does not look for a trap (wants a WINDOW)
 *   -DBUG_NO_AGAIN       the owner does not read the word again when he has set his bounds
 *   -DBUG_NO_OWNER_IN    the revoker does not wait for an owner on his slow path
 *   -DBUG_NO_REVOKING    an owner on his slow path does not ask for a revoker
 *   -DBUG_RECLAIM        the owner takes back what is public by a plain store */

#ifndef THIEVES
#define THIEVES 1
#endif
#ifndef PUSHES
#define PUSHES 3
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef WINDOW
#define WINDOW 9
#endif
#ifndef BUFFER
#define BUFFER 3
#endif

#define TRAP_HI 0
#define TRAP_LO 99
#define NONE    99

mtype = { TOP, IN };

byte tail = 0, split = 0; /* one word: always read and changed together */
byte top = 0, hi = TRAP_HI, lo = 0;
bool owner_in = false, revoking = false, locked = false;
byte slot[DEPTH];
bool done[DEPTH];

bool taken[PUSHES];
byte pushed = 0, n_taken = 0;
byte epoch = 0; /* publications; wakes all */
bool at_end = false;

chan buffer = [BUFFER] of { mtype, byte };

/* Stores leave the buffer in order. */
active proctype cpu() {
    byte value;
end:
    do
    :: atomic { buffer ? TOP, value -> top = value; value = 0 }
    :: atomic { buffer ? IN, value -> owner_in = value; value = 0 }
    od
}

inline take(what) {
    assert(what < PUSHES && !taken[what]);
    taken[what] = true;
    n_taken++
}

/* --- the owner --- */

proctype owner() {
    byte mine = 0;   /* top as he knows it */
    byte t, bound, n, w_tail, w_split, low;
    bool published, stolen, refused, popping;

next:
    t = 0; bound = 0; n = 0; w_tail = 0; w_split = 0; low = 0;
    published = false; stolen = false; refused = false;
    if
    :: mine < DEPTH && pushed < PUSHES -> goto push
    :: mine > 0 -> goto pop
    :: mine == 0 && pushed == PUSHES -> goto over
    :: mine > 0 -> (n_taken == pushed); goto next /* a long leaf */
    fi;

push:
    atomic {
        t = mine;
        slot[t] = pushed;
        pushed++;
        mine = t + 1
    }
    buffer ! TOP, mine;
    atomic {
        if
        :: t < hi -> goto next
        :: else -> skip
        fi
    }
    /* deque_refuses_owner() */
    atomic {
        if
        :: t < tail + WINDOW -> goto push_slow
        :: else -> skip
        fi
    }
    buffer ! TOP, t;
    atomic {
        if
#ifdef BUG_NO_REFUSE_LOAD
        :: true ->
#else
        :: lo != TRAP_LO ->
#endif
            mine = t; take(slot[t]); goto next
        :: else -> skip
        fi
    }
    buffer ! TOP, mine;
push_slow:
    popping = false;
    goto enter;
push_entered:
    atomic { /* one load of the word */
        if
        :: t >= tail + WINDOW && split <= t -> refused = true
        :: else -> skip
        fi
    }
    if
    :: refused -> buffer ! TOP, t; mine = t
    :: else -> skip
    fi;
    goto bounds;

pop:
    atomic {
        mine--;
        t = mine
    }
    buffer ! TOP, t;
    atomic {
        if
        :: t >= lo -> take(slot[t]); goto next
        :: else -> popping = true
        fi
    }
    goto enter;
pop_entered:
    /* reclaim() */
    do
    :: atomic { w_tail = tail; w_split = split }
       if
       :: w_split <= t -> break
       :: w_split > t && w_tail > t -> stolen = true; break
       :: else ->
#ifdef BUG_RECLAIM
           atomic { empty(buffer) -> tail = w_tail; split = w_tail + (t - w_tail + 1) / 2 }
#else
           atomic {
               empty(buffer) ->
               if
               :: tail == w_tail && split == w_split -> split = w_tail + (t - w_tail + 1) / 2
               :: else -> skip
               fi
           }
#endif
       fi
    od;
    if
    :: !stolen -> goto bounds
    :: else -> skip
    fi;
    mine = t + 1;
    buffer ! TOP, mine;
    buffer ! IN, false;
    done[t]; /* the join waits */
    stolen = false;
    /* deque_joined_owner() */
    goto enter;
joined_entered:
    atomic { assert(tail == t + 1 && split == t + 1); done[t] = false; mine = t }
    buffer ! TOP, t;
    atomic { empty(buffer) -> tail = t; split = t } /* an exchange */
    stolen = true; /* nothing to run at the end */
    goto bounds;

    /* enter_owner() */
enter:
    buffer ! IN, true;
#ifndef BUG_NO_REVOKING
    if
    :: revoking ->
        buffer ! IN, false;
        atomic { empty(buffer) && !locked -> skip } /* takes the lock and gives it back */
        goto enter
    :: else -> skip
    fi;
#endif
    if
    :: !popping -> goto push_entered
    :: popping && done[t] && mine == t + 1 -> goto joined_entered
    :: else -> goto pop_entered
    fi;

    /* deque_bounds(), with publish() inside; for the stack as it is now */
bounds:
    atomic { w_tail = tail; w_split = split }
    assert(w_tail <= w_split && w_split <= mine);
    n = mine - w_split;
    if
    :: w_tail == w_split && n > 0 ->
        atomic {
            empty(buffer) ->
            assert(tail == w_tail && split == w_split); /* nobody else changes an empty word */
            split = w_split + (n + 1) / 2
        }
        published = true
    :: else -> skip
    fi;
    atomic { w_tail = tail; w_split = split }
    low = w_split;
    bound = (w_tail == w_split -> TRAP_HI : w_tail + WINDOW);
    if
    :: lo != low -> atomic { empty(buffer) -> lo = low }
    :: else -> skip
    fi;
    if
    :: hi != bound -> atomic { empty(buffer) -> hi = bound }
    :: else -> skip
    fi;
#ifndef BUG_NO_AGAIN
    atomic {
        if
        :: tail < split || (bound == TRAP_HI && mine == split) -> skip
        :: else -> goto bounds
        fi
    }
#endif
    buffer ! IN, false; /* leave_owner() */
    atomic {
        if
        :: published -> epoch++
        :: else -> skip
        fi;
        if
        :: (popping && !stolen) || refused -> take(slot[t])
        :: else -> skip
        fi;
        popping = false
    }
    goto next;

over:
    at_end = true
}

/* --- thieves --- */

inline set_trap() {
    lo = TRAP_LO;
    hi = TRAP_HI
}

inline membarrier() {
#ifndef BUG_NO_MEMBARRIER
    empty(buffer)
#else
    skip
#endif
}

proctype thief() {
    byte w_tail, w_split, seen, t_top, what;
    bool got, found;

again:
    /* deque_steal_any(); as it gives up only where others have changed the word, it is tried again here */
    atomic { w_tail = tail; w_split = split; assert(w_tail <= w_split) }
    if
    :: w_tail < w_split ->
#ifdef BUG_TRAP_EARLY
        if
        :: w_tail + 1 == w_split -> set_trap()
        :: else -> skip
        fi;
#endif
        atomic {
            if
            :: tail == w_tail && split == w_split -> tail++; got = true
            :: else -> got = false
            fi
        }
        if
        :: got ->
#if !defined(BUG_NO_TRAP) && !defined(BUG_TRAP_EARLY)
            if
            :: w_tail + 1 == w_split -> set_trap()
            :: else -> skip
            fi;
#endif
            what = slot[w_tail];
            atomic { take(what); what = 0 }
            done[w_tail] = true
        :: else -> skip
        fi;
        got = false;
        goto again
    :: else -> skip
    fi;
    w_tail = 0; w_split = 0;
    /* the look before sleeping */
    seen = epoch;
    found = false;
#ifndef BUG_NO_REVOKE
    /* deque_is_empty_any() */
    atomic { w_tail = tail; w_split = split }
#ifdef BUG_NONE_PRIVATE
    t_top = (top <= w_split -> 0 : 1);
#else
    t_top = top;
#endif
    if
    :: w_tail == w_split && t_top == 0 -> goto looked
    :: else -> t_top = 0
    fi;
    membarrier();
    atomic { w_tail = tail; w_split = split }
    if
    :: w_tail < w_split -> found = true
    :: else -> skip
    fi;
    if
    :: !found && top > w_split ->
        /* deque_revoke_any() */
        atomic { !locked -> locked = true }
        revoking = true;
#ifdef BUG_TRAP_FIRST
        set_trap();
#endif
        membarrier();
#ifndef BUG_NO_OWNER_IN
        !owner_in;
#endif
#ifdef BUG_TOP_EARLY
        t_top = top;
#endif
#ifndef BUG_TRAP_FIRST
#ifndef BUG_NO_TRAP_TOO
        set_trap();
#endif
        membarrier();
#endif
#ifndef BUG_TOP_EARLY
        t_top = top;
#endif
        atomic { w_tail = tail; w_split = split }
        if
        :: t_top > w_split && w_tail == w_split ->
            /* the compare-and-swap loop of publish() */
            atomic { split = w_split + (t_top - w_split) }
            found = true
        :: else -> skip
        fi;
        t_top = 0;
        revoking = false;
        locked = false
    :: else -> skip
    fi;
looked:
    w_tail = 0; w_split = 0;
#else
    if
    :: tail < split -> found = true
    :: else -> skip
    fi;
#endif
    if
    :: found -> found = false; seen = 0; goto again
    :: else -> skip
    fi;
end_asleep:
    (epoch != seen);
    seen = 0;
    goto again
}

active proctype watch() {
    byte i;

    atomic {
        for (i : 1 .. THIEVES) { run thief() }
        run owner();
        i = 0
    }
    at_end && n_taken == PUSHES
}
