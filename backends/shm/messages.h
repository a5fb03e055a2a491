// Sends and receives of a communicator: matching, and moving what is large
// piece by piece. Nothing here waits; who waits calls `progress`.
//
// A message that fits a record goes at once, and one that fits a chunk as well
// while chunks are free: such a send has ended before anybody receives. A
// larger one stays where it is: the receiver learns of it, reads it there when
// there is a receive for it, and says so. Where the kernel does not let it, or
// that takes longer (`lending.h`), it asks for the data, which come chunk by
// chunk.
//
// Threads: any, one at a time by the lock inside, which costs nothing until
// `share`: whoever is not a caller that waits says that first.
#ifndef DISTWRAP_BACKENDS_SHM_MESSAGES_H_
#define DISTWRAP_BACKENDS_SHM_MESSAGES_H_

#include "call.h"
#include "distances.h"
#include "distwrap/abi/plugin.h"
#include "lazy_lock.h"
#include "lending.h"
#include "mailbox.h"
#include "reach.h"

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <vector>

namespace shm_backend {

struct Comm;

// One send or receive. It stays where it is until it has ended.
struct Message {
  Message() = default;
  explicit Message(const Call& call)
      : sends(call.kind == DW_OP_SEND),
        peer(call.peer),
        tag(call.tag),
        data(sends ? call.in : call.out) {}

  enum class State { kOpen, kDone, kFailed };
  bool sends = false;
  int peer = 0;
  uint64_t tag = 0;
  Piece data;
  dw_work* work = nullptr;  // NULL: somebody waits, and owns it
  bool awaited = false;     // by its owner, who may be asleep
  uint32_t id = 0;
  size_t moved = 0;
  bool lent = false;  // the receiver reads it where it lies
  uint64_t from = 0;  // that is there, in the sender's memory
  // Of a receive that is measured: when it began, in effect.
  int64_t began_ns = 0;
  std::atomic<State> state = State::kOpen;
};

// The one that its sender counts as `id`, of those; NULL when there is none.
// Taken: it is no longer among them.
Message* find_by_id(const std::vector<Message*>& all, uint32_t id);
Message* take_by_id(std::vector<Message*>& all, uint32_t id);

// Chunks that beginnings of messages leave to those that somebody takes.
inline constexpr int kSpareChunks = kChunks / 2;

class Messages {
 public:
  ~Messages();
  void attach(Comm* comm);

  Distances& distances() { return distances_; }

  // From now on others than a caller that waits use this, too.
  void share() { lock_.share(); }
  bool is_shared() const { return lock_.is_shared(); }

  // The whole of a message that can be written or read right now, as one record
  // or one chunk, while no other one to or from that rank is open.
  enum class AtOnce { kDone, kNotYet, kNo };
  AtOnce move_at_once(const Call& call);
  // Starts one that its owner waits for.
  void begin(Message* message);
  // Starts one that completes `call`'s work. DW_DONE: it has ended already.
  int32_t start(const Call& call, dw_work* work);
  // Moves what can move, with `peer` or, -1, with all, unless somebody else is
  // at it. Of who waits for messages of its own.
  void progress(int peer);
  // Likewise, of any other: wakes the one whose messages have ended.
  void progress_for_others();
  // Ends all that are open.
  void fail_all(const dw_error& why);

  // Messages with works that are open: a thread has to call `progress`.
  bool has_open_works() const { return open_works() != 0; }
  int open_works() const { return open_works_.load(std::memory_order_acquire); }
  // Since the communicator began, of those that did not end at once.
  uint64_t begun_works() const {
    return begun_works_.load(std::memory_order_relaxed);
  }
  // The same, and those of a set whose owner does something else first.
  bool has_open() const {
    return has_open_works() || in_sets_.load(std::memory_order_relaxed) != 0;
  }
  void enter_set() { in_sets_.fetch_add(1, std::memory_order_relaxed); }
  void leave_set() { in_sets_.fetch_sub(1, std::memory_order_relaxed); }
  // Whether an open one is to or from this rank.
  bool awaits(int peer);

 private:
  // What came before its receive.
  struct Early {
    RecordHead head;
    std::vector<char> data;
  };
  struct Peer {
    Outbox out;
    Inbox in;
    Reach reach;
    Lending lending;
    std::deque<Message*> sends;      // whose heads have not gone, in order
    std::deque<RecordHead> replies;  // that had no room
    std::vector<Message*> asked;     // sends that wait for an answer
    std::vector<Message*> streams;   // sends that somebody takes
    std::vector<Message*> receives;  // posted, in order
    std::list<Early> early;          // in order
    std::vector<Message*> taking;    // receives of which more is to come
    std::deque<Message*> borrowed;   // receives that are read where they lie
    uint32_t next_id = 0;
    // Since the last message to it one has come from it: it may wait.
    bool has_answered = false;
  };

  std::span<Peer> peers() const;
  // Whether another thread's message has ended meanwhile.
  bool move_all(int peer);
  AtOnce put_at_once(Peer& peer, const Call& call);
  AtOnce take_at_once(Peer& peer, const Call& call);
  bool put_chunk(int to, const char* data, size_t bytes, int spare,
                 uint64_t* place) {
    distances_.look(to);
    const bool past = bytes >= Distances::kLeast && distances_.is_far(to);
    return pool_.put(data, bytes, spare, past, place);
  }
  bool put_head(Peer& peer, const RecordHead& head);
  void begin_locked(Message* message);
  bool can_send(Peer& peer);
  bool post_send(Peer& peer, Message* message);
  bool is_awaited(Peer& peer) const;
  static bool lends(Peer& peer, size_t bytes, uint32_t id);
  void post_receive(Peer& peer, Message* message);
  void move(int peer);
  // Until nothing is left, or `awaited` has ended.
  void drain(Peer& peer, int rank, const Message* awaited = nullptr);
  bool handle(Peer& peer, int rank, const RecordHead& head, const void* data);
  bool match(Peer& peer, int rank, const RecordHead& head, const void* data);
  bool deliver(Peer& peer, int rank, Message* message, const RecordHead& head,
               const void* data);
  bool take_more(Peer& peer, int rank, const RecordHead& head,
                 const void* data);
  bool read_there(Peer& peer, int rank, Message* message);
  void reply(Peer& peer, const RecordHead& head);
  bool stream(Peer& peer, Message* message);
  void measure(Peer& peer, const Message& message);
  void end(Message* message);
  void break_by(int rank);
  // Completes what ended, without the lock.
  void complete_ended(LazyLock::Hold& hold);

  Comm* comm_ = nullptr;
  LazyLock lock_;
  std::unique_ptr<Peer[]> peers_;  // by rank
  Pool pool_;
  Distances distances_;
  std::vector<Message*> ended_;  // with works
  bool awaited_ended_ = false;   // one without
  std::atomic<int> open_works_ = 0, in_sets_ = 0;
  std::atomic<uint64_t> begun_works_ = 0;
};

// message_calls.cc: until it has ended. DW_OK, or the communicator is broken.
int32_t wait_for(Comm* comm, Message& message, const Call& call,
                 dw_error* error);
// A send or receive of a caller who waits.
int32_t run_message(Comm* comm, const Call& call, dw_error* error);
// What the communicator's thread does while messages are open; until `stop`.
void drive_messages(Comm* comm, bool (*stop)(const void*), const void* what);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_MESSAGES_H_
