// Carries what the windows of a group send, over a communicator of its own in
// the backend below, and serves what comes: a thread that sleeps until a
// message arrives, so a rank that calls nothing is served all the same.
//
// Taken from those who did this before. MPICH's ch4 sends every operation as an
// active message whose handler at the target acknowledges it; here results and
// flushes alone are answered, which is enough where one stream from each rank
// to each other is taken in order. Open MPI's osc/pt2pt gives every window a
// communicator of its own, posts receives of fragments of one size, and sends
// what is larger by messages beside them; here the communicator is the group's,
// made with its first window, and a window is named by its uid: what comes too
// late for one is answered, and breaks nothing.
//
// Threads: any. Ownership: shared by the communicator and its windows.
#ifndef DISTWRAP_SRC_ALGO_WINDOWS_COURIER_H_
#define DISTWRAP_SRC_ALGO_WINDOWS_COURIER_H_

#include "algo/compose/backend.h"
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

class Courier {
 public:
  // Takes the communicator below; NULL in a group of one rank. Throws
  // std::bad_alloc or std::system_error; then it has not.
  Courier(compose::Backend& backend, dw_comm* below, int rank, int size,
          uint64_t uid);
  // Only after `stop` has succeeded.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  uint64_t uid() const { return uid_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  compose::Backend& backend() const { return backend_; }

  void add(std::shared_ptr<Part> part);
  void remove(uint64_t window);

  // DW_OK, or why nothing goes any more.
  int32_t check(dw_error* error);
  // Whoever waits is told, here and at the peers.
  void abort();
  // Lets the thread leave and gives the communicator back. False when the
  // backend below has not let go by the deadline.
  bool stop(Deadline deadline);

  // An operation that is not over at once begins with one reply, so that it
  // does not end while it is posted, and `launch` takes that off.
  //
  // One more: the id for its frame.
  uint64_t expect(Request request);
  // Sends a letter behind all others to `peer`. Too many on their way: waits to
  // the deadline, or answers DW_AGAIN. After an error it was not sent.
  int32_t post(int peer, std::shared_ptr<Letter> letter, bool may_wait,
               Deadline deadline, dw_error* error);
  // DW_DONE or an error, at the end; DW_OK: `work` will be completed. Late, it
  // is forgotten, and its memory is not touched any more.
  int32_t launch(const std::shared_ptr<Pending>& pending, dw_work* work,
                 Deadline deadline, dw_error* error);
  // Of what was not sent.
  void forget(const Pending& pending);

  // For messages below, from any of the backend's threads.
  void land(Landed& one);

 private:
  friend struct Sent;
  friend struct Received;

  // courier.cc
  void run();
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
  bool begin_more(int peer, const std::shared_ptr<Letter>& letter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool begin(int peer, const std::shared_ptr<Letter>& letter, const char* data,
             uint64_t bytes, uint64_t tag, std::unique_ptr<char[]> held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void sent(Sent& one);
  void settle(Letter& letter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void settle(const std::shared_ptr<Pending>& pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop_letters(const dw_error& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // inbound.cc, of the thread
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

  compose::Backend& backend_;
  dw_comm* const below_;
  const int rank_, size_;
  const uint64_t uid_;
  const int carrier_;  // the element type that messages go as

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Outbound> out_ ABSL_GUARDED_BY(mutex_);  // by rank
  std::map<uint64_t, Request> requests_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::shared_ptr<Part>> parts_ ABSL_GUARDED_BY(mutex_);
  // Operations that have ended, of which the host is to be told.
  std::vector<std::shared_ptr<Pending>> ended_ ABSL_GUARDED_BY(mutex_);
  dw_error why_ ABSL_GUARDED_BY(mutex_) = {};  // once it is broken
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  int on_their_way_ ABSL_GUARDED_BY(mutex_) = 0;  // messages below

  // Taken last.
  base::Mutex landed_mutex_;
  base::CondVar landed_, left_;
  Landed* first_ ABSL_GUARDED_BY(landed_mutex_) = nullptr;
  Landed* last_ ABSL_GUARDED_BY(landed_mutex_) = nullptr;
  bool starved_ ABSL_GUARDED_BY(landed_mutex_) = false;  // no room for a send
  bool stopping_ ABSL_GUARDED_BY(landed_mutex_) = false;
  bool has_left_ ABSL_GUARDED_BY(landed_mutex_) = false;

  // Of the thread: by rank, and receives for which there was no room yet.
  std::vector<std::unique_ptr<Inbound>> in_;
  std::deque<Received*> hungry_;
  std::thread thread_;
};

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_COURIER_H_
