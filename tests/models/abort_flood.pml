/* How the failure of one rank becomes an error on all ranks of a group, while
 * one rank dies at any moment: the board's looks, the agreement on what failed
 * first, the abort, and the end of a communicator beside both.
 *
 * Three ranks of one host, one group, one collective in which each rank waits
 * for the next. README.md says which statement stands for what in the sources.
 * Each macro WRONG_... is a mistake, with which the proof has to fail.
 *
 * A step is what no other thread can see the middle of: an atomic, or a section
 * under a mutex. No process repeats a step, so that every run ends; there the
 * judge looks at what has become of each rank.
 */
#define N 3
#define NEXT(r) ((r + 1) % N)

/* What failed: rank k has died, rank k gave up; nothing. */
#define LOST(k) (k)
#define GAVE_UP(k) (N + (k))
#define NOTHING (2 * N)
#define NOBODY N

mtype = { open, broken, closed }; /* BackendCommunicator::life_ */
mtype = { none, running, over };  /* BackendCommunicator::abort_ */

/* Shared between ranks. */
bool left[N];           /* FrontPage::state is kClosed */
bool marked[N];         /* FrontPage::life: by the kernel, its holder ended */
bool word[N];           /* FrontPage::broken has the group's uid */
bool ended[N];          /* connections: the others see them break */
bool store_up = true;
byte first = NOTHING;   /* the store's key: what failed first, and */

/* Of a rank. */
mtype life[N] = open;
mtype abortion[N] = none;
byte cause[N] = NOTHING; /* first_cause_ */
bool group_board[N] = true;     /* on the board */
bool told[N];            /* GroupBoard::told_ */
bool telling[N];         /* Board::telling_ is its group_board */
bool destroyed[N], freed[N];
bool locked[N];          /* mutex_, of who holds it over more than a step */
bool board_locked[N];    /* Board::mutex_, likewise */

/* For the judge. */
bool dead[N], gave_up[N], in_call[N], over_with[N], ending[N];
bool abort_is_back = true;
bool heard[N];
byte absent = NOBODY;    /* does not make the call */

/* FirstFailure::agree, of rank r: one compare_set in the store. */
inline agree(r, mine, result) {
  atomic {
#ifdef WRONG_NO_PATIENCE
    store_up;
#endif
    result = mine;
    if
#ifdef WRONG_LAST_FAILURE_WINS
    :: store_up ->
#else
    :: store_up && first == NOTHING ->
#endif
       first = mine
    :: else
    fi;
    /* BackendCommunicator::learn_first */
#ifndef WRONG_KEEPS_WHAT_IT_SAW
    if
    :: store_up -> result = first
    :: else
    fi
#endif
  }
}

#define IS_DEAD(k) (marked[k] && !left[k])
#ifdef WRONG_FATE_IS_NOT_READ
#define SEES_DEAD(r, k) false
#else
#define SEES_DEAD(r, k) (k != r && IS_DEAD(k))
#endif
#define SEES_ANY_DEAD(r) \
  (SEES_DEAD(r, 0) || SEES_DEAD(r, 1) || SEES_DEAD(r, 2))
#ifdef WRONG_WORDS_ARE_NOT_READ
#define SEES_WORD(r, k) false
#else
#define SEES_WORD(r, k) (k != r && word[k])
#endif
#define SEES_ANY_WORD(r) \
  (SEES_WORD(r, 0) || SEES_WORD(r, 1) || SEES_WORD(r, 2))

/* GroupBoard::look_at_all */
inline look_for_dead(r, found) {
  if
  :: SEES_DEAD(r, 0) -> found = LOST(0)
  :: SEES_DEAD(r, 1) -> found = LOST(1)
  :: SEES_DEAD(r, 2) -> found = LOST(2)
  fi
}

/* GroupBoard::look_for_broken */
inline look_for_word(r, found) {
  if
  :: SEES_WORD(r, 0) -> found = GAVE_UP(0)
  :: SEES_WORD(r, 1) -> found = GAVE_UP(1)
  :: SEES_WORD(r, 2) -> found = GAVE_UP(2)
  fi
}

/* How long an abort takes matters to who ends the group only. */
#ifdef ENDS
#define ABORT_RUNS }; atomic {
#else
#define ABORT_RUNS
#endif

/* BackendCommunicator::abort */
inline abort(r, why, leads) {
#ifdef WRONG_BREAKS_WHAT_IS_CLOSED
  leads = life[r] == open;
  atomic {
    !locked[r];
    if
    :: leads -> assert(life[r] == open); life[r] = broken; cause[r] = why
#else
  atomic {
    !locked[r];
    if
    :: life[r] == open -> life[r] = broken; cause[r] = why
#endif
    :: else
#ifdef WRONG_LATER_CAUSE_REPLACES
       -> assert(cause[r] == NOTHING || cause[r] == why); cause[r] = why
#endif
    fi;
    leads = false;
    if
#ifndef WRONG_ABORTS_TWICE
    :: abortion[r] != none || destroyed[r]
#endif
    :: else ->
       assert(abortion[r] == none && !destroyed[r]);
       leads = true;
       abortion[r] = running;
#ifdef WRONG_HOLDS_THE_MUTEX
       locked[r] = true;
#endif
       /* GroupBoard::break_off */
#ifndef WRONG_DOES_NOT_BREAK_OFF
       assert(group_board[r]);
       word[r] = true
#endif
    fi
  };
  if
  :: atomic { leads ->
       /* comm_abort: ends the connections, and what runs, whose end takes the
        * mutex. */
       assert(!destroyed[r]);
#ifndef WRONG_CONNECTIONS_STAY
       ended[r] = true;
#endif
       !locked[r];
       ABORT_RUNS
#ifdef WRONG_ABORT_WAITS_FOR_THE_OTHERS
       word[0] && word[1] && word[2];
#endif
       assert(!destroyed[r] && !freed[r]);
#ifdef WRONG_OPENS_AGAIN
       life[r] = open;
#endif
       abortion[r] = over;
       leads = false }
  :: !leads
  fi
}

/* BackendCommunicator::End: drain, destroy, ~GroupBoard, delete. By whom the group
 * was not ended before. */
#ifdef ENDS
#define MAY_END(r) (r == 0 && life[r] != closed)
#else
#define MAY_END(r) false
#endif
inline end(r, on_session_thread) {
  atomic { MAY_END(r) -> life[r] = closed; ending[r] = true };
  /* destroy: calls have left, an abort is over. */
#ifdef WRONG_DESTROY_DOES_NOT_WAIT
  atomic { !in_call[r] -> destroyed[r] = true };
#else
  atomic { !in_call[r] && abortion[r] != running && !locked[r] ->
           destroyed[r] = true };
#endif
  /* Board::remove */
  atomic {
    !board_locked[r];
#ifdef WRONG_REMOVE_DOES_NOT_WAIT
    skip;
#else
#ifdef WRONG_REMOVE_WAITS_FOR_ITSELF
    !telling[r];
#else
    !telling[r] || on_session_thread;
#endif
#endif
    group_board[r] = false;
    freed[r] = true;
    ending[r] = false
  }
}

/* A thread of the application, in a call; afterwards it may end the group. */
proctype App(byte r) provided (!dead[r]) {
  byte why = NOTHING;
  bool leads;
  if
  /* Not in a call, and will be told by refuse_closed. */
  :: atomic { !in_call[r] && life[r] != open -> over_with[r] = true }
  :: atomic { in_call[r] && absent == NOBODY && !ended[r] ->
              in_call[r] = false; over_with[r] = true }
  :: atomic { in_call[r] && ended[NEXT(r)] && !ended[r] ->
       /* work_failed, GroupBoard::ask and who_gave_up: off the board's lock */
       !board_locked[r];
       if
       :: SEES_ANY_DEAD(r) -> look_for_dead(r, why)
#ifndef WRONG_GIVEN_UP_IS_CALLED_LOST
       :: !SEES_ANY_DEAD(r) && SEES_ANY_WORD(r) -> look_for_word(r, why)
#endif
       :: else -> why = LOST(NEXT(r))
       fi;
       agree(r, why, why) };
     abort(r, why, leads);
     atomic { in_call[r] = false; over_with[r] = true; why = NOTHING }
  :: atomic { in_call[r] && ended[r] -> /* aborted on this rank */
              !locked[r];
              assert(life[r] != open && cause[r] != NOTHING);
              in_call[r] = false; over_with[r] = true }
  fi;
#ifdef ENDS
  if
  :: end(r, false);
     /* Board::leave: says so, then lets go, or its process ends. */
     atomic { left[r] = true; marked[r] = true }
  :: !MAY_END(r)
  fi
#endif
}

/* Once, while there is a group_board, and of nobody who has left. */
inline hears(r, found) {
  assert(group_board[r] && !freed[r] && !heard[r] && (found >= N || dead[found]));
  heard[r] = true
}

inline says_no_more(r, found) {
  atomic {
    telling[r] = false;
#ifdef WRONG_TELLS_UNDER_THE_LOCK
    board_locked[r] = false;
#endif
    found = NOTHING
  }
}

/* The session's thread: Board::expired. */
proctype Session(byte r) provided (!dead[r]) {
  byte found = NOTHING;
  bool leads;
#ifdef WRONG_STATE_IS_NOT_READ_AGAIN
  byte other;
#endif
  do
  :: atomic { group_board[r] && !told[r] && !left[r] &&
              (SEES_ANY_DEAD(r) || SEES_ANY_WORD(r)) ->
       if
       :: SEES_ANY_DEAD(r) -> look_for_dead(r, found)
       :: else -> look_for_word(r, found)
       fi;
#ifndef WRONG_TELLS_AGAIN
       told[r] = true;
#endif
       telling[r] = true
#ifdef WRONG_TELLS_UNDER_THE_LOCK
       ;
       board_locked[r] = true
#endif
     };
#ifdef WRONG_STATE_IS_NOT_READ_AGAIN
told_of_it:
#endif
     /* Board::tell: BackendCommunicator::board_found */
     if
     :: atomic { life[r] == open ->
                 hears(r, found);
                 agree(r, found, found) };
        abort(r, found, leads);
        assert(!freed[r])
     :: atomic { life[r] != open -> hears(r, found) }
     fi;
     /* Who hears of it may end the group, on this very thread. */
     if
     :: end(r, true); says_no_more(r, found)
     :: says_no_more(r, found)
     fi
#ifdef WRONG_STATE_IS_NOT_READ_AGAIN
  :: atomic { group_board[r] && !told[r] && !left[NEXT(r)] -> other = NEXT(r) };
     atomic { marked[other] && group_board[r] && !told[r] ->
              found = LOST(other); told[r] = true; telling[r] = true };
     goto told_of_it
#endif
  od
}

/* Another thread of the application, or a deadline: abort_everywhere,
 * work_expired. */
proctype Abort(byte r) provided (!dead[r]) {
  byte ignored;
  bool leads;
  if
  :: life[r] != open
  :: atomic { life[r] == open -> gave_up[r] = true;
              agree(r, GAVE_UP(r), ignored) };
     abort(r, GAVE_UP(r), leads)
  fi;
  atomic {
    ignored = 0;
    abort_is_back = true
  }
}

/* The process ends, in the middle of anything; with it the store, if it was
 * its host. What the kernel lets go of goes in any order. */
proctype Crash(byte r; bool with_store) {
  if
  :: atomic { !left[r] ->
       dead[r] = true;
       store_up = store_up && !with_store;
       if
       :: marked[r] = true
       :: ended[r] = true
       fi };
     atomic { marked[r] = true; ended[r] = true }
  :: left[r]
  fi
}

#define IS_TRUE(why) \
  ((why < N && dead[why]) || (why >= N && why < NOTHING && gave_up[why - N]))

#define ANY_HAS_FAILED \
  (word[0] || word[1] || word[2] || dead[0] || dead[1] || dead[2])

/* When nothing moves any more. */
proctype Judge() {
  byte r;
  timeout;
  d_step {
    r = 0;
    do
    :: r < N && !dead[r] ->
       assert(over_with[r] && !ending[r]); /* nobody waits for ever */
       assert(!telling[r] && abortion[r] != running);
       assert(r != 0 || abort_is_back);
       /* Who has failed stays so, and it and who died are heard of. */
       assert(life[r] != open || (cause[r] == NOTHING && !ANY_HAS_FAILED));
       /* Nobody alive is said to have died, whether or not there is a store. */
       assert(cause[r] >= N || dead[cause[r]]);
       /* One cause on all ranks: what failed first. But its own failure on who
        * gave up by itself. */
       if
       :: cause[r] != NOTHING && store_up ->
          assert(IS_TRUE(first));
          assert(cause[r] == first || cause[r] == GAVE_UP(r))
       :: else
       fi;
       r++
    :: r < N && dead[r] -> r++
    :: else -> break
    od
  }
}

init {
  byte victim = NOBODY;
  bool with_store, aborts;
  atomic {
    if
    :: aborts = true; abort_is_back = false
    :: skip
    fi;
#ifdef ENDS
    /* Rank 0 ends its group beside it; each rank comes. */
    victim = 2;
#else
    if
    :: absent = 0
    :: absent = 1
    :: absent = 2
    :: skip
    fi;
    /* Where rank 0 does nothing of its own, all ranks are alike. Who does not
     * come, and nobody fails: a deadline, which is an abort. */
    if
    :: aborts -> victim = 0
    :: aborts -> victim = 1
    :: victim = 2
    :: aborts || absent == NOBODY -> skip
    fi;
    if
    :: victim != NOBODY -> with_store = true
    :: skip
    fi;
#endif
    in_call[0] = absent != 0;
    in_call[1] = absent != 1;
    in_call[2] = absent != 2;
    run App(0); run App(1); run App(2);
    run Session(0); run Session(1); run Session(2);
    if
    :: aborts -> run Abort(0)
    :: else
    fi;
    if
    :: victim != NOBODY -> run Crash(victim, with_store)
    :: else
    fi;
    run Judge();
    victim = 0; aborts = false; with_store = false
  }
}
