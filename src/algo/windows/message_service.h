// The active-message service: it sends the operations of a group's windows over
// a communicator of its own in the backend below, and serves incoming messages.
// Its thread sleeps until a message arrives, so a rank that makes no call is
// served as well.
//
// The design follows earlier libraries. MPICH's ch4 sends every operation as an
// active message, which the target's handler acknowledges. Here only results
// and flushes are answered, which is enough because each rank has one ordered
// stream to each other rank. Open MPI's osc/pt2pt gives every window a
// communicator of its own, posts receives for fragments of one size, and sends
// larger data by separate messages. Here the communicator belongs to the group
// and is made with its first window. A window is named by its uid, so a message
// that comes after the window's end is answered and breaks nothing.
//
// Threads: any. Ownership: shared by the communicator and its windows.
#ifndef DISTWRAP_SRC_ALGO_WINDOWS_MESSAGE_SERVICE_H_
#define DISTWRAP_SRC_ALGO_WINDOWS_MESSAGE_SERVICE_H_

#include "algo/below/backend.h"
#include "algo/windows/part.h"
#include "algo/windows/stream.h"
#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace distwrap::algo::windows {

class MessageService {
 public:
  // The communicator below is NULL in a group of one rank. Its messages have
  // elements of `carrier` (DW_DTYPE_<NAME>).
  MessageService(BackendBelow& backend, dw_comm* below, int carrier, int rank,
                 int size, uint64_t uid);
  // Precondition: `stop` has returned true.
  ~MessageService();
  MessageService(const MessageService&) = delete;
  MessageService& operator=(const MessageService&) = delete;

  // Starts the thread; called before anything else. DW_OK: the service has
  // taken over the communicator below. Otherwise the thread cannot start, and
  // the communicator still belongs to the caller.
  int32_t start(dw_error* error);

  uint64_t uid() const { return uid_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  BackendBelow& backend() const { return backend_; }

  void add(std::shared_ptr<Part> part);
  void remove(uint64_t window);

  // DW_OK, or the error that broke the service.
  int32_t check(dw_error* error);
  // Tells all waiting threads, here and at the peers.
  void abort();
  // Ends the thread and returns the communicator. False when the backend below
  // still uses it at the deadline.
  bool stop(Deadline deadline);

  // Registers a request; returns the id for its frame. An operation that does
  // not end at once starts with one expected reply, so that it cannot end while
  // it is posted; `launch` removes that one.
  uint64_t expect(Request request);
  // Sends a message to `peer`, behind all earlier ones. When too many are in
  // flight, it waits until the deadline or returns DW_AGAIN. After an error the
  // message was not sent.
  int32_t post(int peer, std::shared_ptr<OutgoingMessage> message,
               bool may_wait, Deadline deadline, dw_error* error);
  // Returns DW_DONE or an error when the operation has ended, or DW_OK when
  // `work` will be completed. At the deadline the operation is abandoned, and
  // its memory is not touched any more.
  int32_t launch(const std::shared_ptr<Pending>& pending, dw_work* work,
                 Deadline deadline, dw_error* error);
  // Forgets the requests of an operation that was not sent.
  void forget(const Pending& pending);

  // Reports a completed message below; called in any of the backend's threads.
  void land(Landed& one);

 private:
  friend struct Sent;
  friend struct Received;

  // service.cc
  void run();
  // A step of the thread; without memory for it the windows break.
  template <class Step>
  void or_break(const Step& step);
  Landed* take_landed(bool idle);
  void starve();
  void break_off(const dw_error& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void tell();
  int32_t submit(uint16_t kind, int peer, void* data, uint64_t bytes,
                 uint64_t tag, Landed& cell)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // outbound.cc
  int32_t await(const std::shared_ptr<Pending>& pending, Deadline deadline,
                dw_error* error);
  void pump(int peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool begin_more(int peer, const std::shared_ptr<OutgoingMessage>& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool begin(int peer, const std::shared_ptr<OutgoingMessage>& message,
             const char* data, uint64_t bytes, uint64_t tag,
             std::unique_ptr<char[]> held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void sent(Sent& one);
  void settle(OutgoingMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void settle(const std::shared_ptr<Pending>& pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop_letters(const dw_error& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // inbound.cc, in the thread
  void receive(Received& one, void* to, uint64_t bytes, uint64_t tag);
  void post_receives();
  void received(Received& one);
  void take_frames(Inbound& from);
  void begin_message(Inbound& from);
  void ask(Inbound& from);
  void take_segments(Inbound& from);
  void take(Inbound& from, const char* data, uint64_t at, uint64_t bytes);
  int32_t serve(Inbound& from, const char* data, uint64_t at, uint64_t bytes);
  void finish(Inbound& from, const char* data);
  void answer(Inbound& from, bool from_part);
  void replied(const Inbound& from, const char* data);
  int32_t keep_result(const Inbound& from, const char* data, uint64_t at,
                      uint64_t bytes);

  BackendBelow& backend_;
  dw_comm* const below_;
  const int rank_, size_;
  const uint64_t uid_;
  const int carrier_;  // the element type of the messages

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Outbound> out_ ABSL_GUARDED_BY(mutex_);  // by rank
  std::map<uint64_t, Request> requests_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::shared_ptr<Part>> parts_ ABSL_GUARDED_BY(mutex_);
  // Operations that have ended and have yet to be reported to the host.
  std::vector<std::shared_ptr<Pending>> ended_ ABSL_GUARDED_BY(mutex_);
  dw_error why_ ABSL_GUARDED_BY(mutex_) = {};  // set once the service is broken
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  int on_their_way_ ABSL_GUARDED_BY(mutex_) = 0;  // messages in flight below

  // Locked after all other mutexes.
  base::Mutex landed_mutex_;
  base::CondVar landed_, left_;
  Landed* first_ ABSL_GUARDED_BY(landed_mutex_) = nullptr;
  Landed* last_ ABSL_GUARDED_BY(landed_mutex_) = nullptr;
  bool starved_ ABSL_GUARDED_BY(landed_mutex_) = false;  // a send found no room
  bool stopping_ ABSL_GUARDED_BY(landed_mutex_) = false;
  bool has_left_ ABSL_GUARDED_BY(landed_mutex_) = false;

  // For the thread: the streams by rank, and pending receives without room.
  std::vector<std::unique_ptr<Inbound>> in_;
  std::deque<Received*> hungry_;
  std::thread thread_;
};

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_MESSAGE_SERVICE_H_
