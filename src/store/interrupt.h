// The end of a start-up, or of a call on a store, from outside: while the
// object lives, the first wait of this thread for a store that finds the
// descriptor readable fails with kAborted. Later waits are as usual, so that
// this rank can still tell the others that it gives up.
//
// Threads: the object belongs to its thread. Ownership: the descriptor is the
// caller's.
//
//   const Interrupt interrupt(options.interrupt_fd);
//   store->wait(keys, deadline);  // kAborted soon after write(fd, ...)
#ifndef DISTWRAP_SRC_STORE_INTERRUPT_H_
#define DISTWRAP_SRC_STORE_INTERRUPT_H_

#include "distwrap/deadline.h"

#include <absl/status/status.h>

#include <optional>
#include <string>

namespace distwrap::store {

class Interrupt {
 public:
  // The error says what ended early. The texts outlive the object.
  struct Words {
    const char* what = "the start";
    const char* next_step = "start the rank again";
  };
  // Without a descriptor nothing ends early.
  explicit Interrupt(std::optional<int> fd) : Interrupt(fd, Words{}) {}
  Interrupt(std::optional<int> fd, Words words);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The descriptor that a wait of this thread has to poll; -1 for none.
  static int descriptor();
  // Called by the wait that found the descriptor readable.
  static void notice();
  // Whether a wait of this thread has found it readable. Its error may have
  // been one that the caller ignores, so a long wait does not begin then.
  static bool is_noticed();
  // Sleeps until the deadline; false if it was interrupted.
  static bool sleep(Deadline deadline);
  // The error of the wait `op` that was interrupted.
  static absl::Status error(const std::string& op);

 private:
  const int fd_;
  const Words words_;
  Interrupt* const outer_;
  bool noticed_ = false;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_INTERRUPT_H_
