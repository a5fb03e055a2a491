// Sends and receives of a communicator: matching, and moving large data piece
// by piece. Nothing here waits; a caller that waits calls `progress`.
//
// A message that fits a record goes at once; so does one that fits a chunk
// while chunks are free. Such a send ends before anybody receives. A larger
// message stays in the sender's buffer: the receiver learns of it, reads it
// there when a receive matches, and answers. Where the kernel does not allow
// that, or it is slower (lending.h), the receiver asks for the data, and they
// come chunk by chunk.
//
// Threads: any; the lock inside admits one at a time and costs nothing until
// `share`. A thread that is not a caller that waits calls `share` first.
#ifndef DISTWRAP_BACKENDS_SHM_MESSAGES_H_
#define DISTWRAP_BACKENDS_SHM_MESSAGES_H_

#include "call.h"
#include "distances.h"
#include "distwrap/abi/plugin.h"
#include "hostmem/lock.h"
#include "lending.h"
#include "mailbox.h"
#include "reach.h"

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace shm_backend {

struct Comm;
using dw_hostmem::Lock;

// One send or receive. Its address stays the same until it has ended.
struct Message {
  Message() = default;
  explicit Message(const EngineOp& call)
      : sends(call.kind == DW_OP_SEND),
        type(call.type),
        peer(call.peer),
        tag(call.tag),
        data(sends ? call.in : call.out) {}

  enum class State { kOpen, kDone, kFailed };
  bool sends = false;
  uint16_t type = 0;  // element type, DW_DTYPE_<NAME>
  int peer = 0;
  uint64_t tag = 0;
  Piece data;
  dw_work* work = nullptr;  // NULL: a caller waits for it and owns it
  Message* next = nullptr;  // next in the list of ended ones
  bool awaited = false;     // the owner waits, perhaps asleep
  uint32_t id = 0;
  size_t moved = 0;
  bool lent = false;  // the receiver reads the sender's buffer
  uint64_t from = 0;  // address of its data in the sender's process
  // For a receive that is measured: when it began, moved back by the estimated
  // time that the sender took to write the first data.
  int64_t began_ns = 0;
  std::atomic<State> state = State::kOpen;
};

// The message with the sender's number `id`; NULL when there is none.
// `take_by_id` also removes it from the list.
Message* find_by_id(const std::vector<Message*>& all, uint32_t id);
Message* take_by_id(std::vector<Message*>& all, uint32_t id);

// Chunks that first pieces of messages leave free for messages with a receive.
inline constexpr int kSpareChunks = kChunks / 2;

class Messages {
 public:
  ~Messages();
  void attach(Comm* comm);

  Distances& distances() { return distances_; }

  // Lets threads other than a caller that waits use this object.
  void share() { lock_.share(); }
  bool is_shared() const { return lock_.is_shared(); }

  // Moves a whole message as one record or chunk if that is possible right now
  // and no other message to or from that rank is open.
  enum class AtOnce { kDone, kNotYet, kNo };
  AtOnce move_at_once(const EngineOp& call);
  // Starts a message for which its owner waits.
  void begin(Message* message);
  // Starts a message that completes `work`. DW_DONE: it has ended already.
  int32_t start(const EngineOp& call, dw_work* work);
  // Moves data to and from `peer`, or all ranks for -1, unless another thread
  // is doing so. For a caller that waits for messages of its own.
  void progress(int peer);
  // As `progress(-1)`, for other threads: wakes a caller whose messages have
  // ended.
  void progress_for_others();
  // Ends all open messages with this error.
  void fail_all(const dw_error& why);

  // Whether messages with works are open; then a thread has to call `progress`.
  bool has_open_works() const { return open_works() != 0; }
  int open_works() const { return open_works_.load(std::memory_order_acquire); }
  // Number of messages with works so far that did not end at once.
  uint64_t begun_works() const {
    return begun_works_.load(std::memory_order_relaxed);
  }
  // As `has_open_works`, and also true for messages of a set whose owner is
  // busy elsewhere.
  bool has_open() const {
    return has_open_works() || in_sets_.load(std::memory_order_relaxed) != 0;
  }
  void enter_set() { in_sets_.fetch_add(1, std::memory_order_relaxed); }
  void leave_set() { in_sets_.fetch_sub(1, std::memory_order_relaxed); }
  // Whether a message to or from this rank is open.
  bool awaits(int peer);

 private:
  // A message that came before its receive.
  struct Early {
    RecordHead head;
    std::vector<char> data;
  };
  struct Peer {
    Outbox out;
    Inbox in;
    Reach reach;
    Lending lending;
    std::deque<Message*> sends;       // heads not sent yet, in order
    std::deque<RecordHead> replies;   // not sent yet for lack of room
    std::vector<Message*> asked;      // sends without an answer yet
    std::vector<Message*> streams;    // sends that go chunk by chunk
    std::vector<Message*> receives;   // posted, in order
    std::list<Early> early;           // in order
    std::vector<Message*> taking;     // receives with more data to come
    std::deque<Message*> borrowed;    // receives from the sender's buffer
    std::vector<Message*> differing;  // receives with another type or size
    uint32_t next_id = 0;
    // A message has come since the last one was sent: the peer may be waiting.
    bool has_answered = false;
  };

  std::span<Peer> peers() const;
  // Returns whether a message of another thread has ended.
  bool move_all(int peer);
  AtOnce put_at_once(Peer& peer, const EngineOp& call);
  AtOnce take_at_once(Peer& peer, const EngineOp& call);
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
  // Handles records until none is left, or `awaited` has ended.
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
  void refuse(Peer& peer, int rank, Message* message, const RecordHead& head);
  // If the list has no memory, the message has failed; fail_all tells its
  // waiter.
  template <class List>
  void keep(List& list, Message* message) {
    try {
      list.push_back(message);
    } catch (...) {
      message->state.store(Message::State::kFailed, std::memory_order_release);
      if (message->work != nullptr)
        message->next = std::exchange(lost_, message);
      throw;
    }
  }
  void break_by(int rank);
  // Completes the works of ended messages, without the lock.
  void complete_ended(Lock::Hold& hold);

  Comm* comm_ = nullptr;
  Lock lock_;
  std::unique_ptr<Peer[]> peers_;  // by rank
  Pool pool_;
  Distances distances_;
  Message* ended_ = nullptr;    // with works, latest first
  Message* lost_ = nullptr;     // with works, for which no list had memory
  bool awaited_ended_ = false;  // a message without a work has ended
  std::atomic<int> open_works_ = 0, in_sets_ = 0;
  std::atomic<uint64_t> begun_works_ = 0;
};

// message_calls.cc: waits until the message has ended. DW_OK, or the
// communicator is broken.
int32_t wait_for(Comm* comm, Message& message, const EngineOp& call,
                 dw_error* error);
// Runs a send or receive for a caller that waits.
int32_t run_message(Comm* comm, const EngineOp& call, dw_error* error);
// Moves messages in the communicator's thread until `stop`.
void drive_messages(Comm* comm, bool (*stop)(const void*), const void* what);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_MESSAGES_H_
