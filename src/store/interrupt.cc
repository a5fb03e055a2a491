#include "store/interrupt.h"

#include "base/error.h"

#include <poll.h>

namespace distwrap::store {
namespace {

thread_local Interrupt* current = nullptr;

}  // namespace

Interrupt::Interrupt(std::optional<int> fd)
    : fd_(fd.value_or(-1)), outer_(current) {
  current = this;
}

Interrupt::~Interrupt() { current = outer_; }

int Interrupt::descriptor() {
  return current == nullptr || current->noticed_ ? -1 : current->fd_;
}

void Interrupt::notice() {
  if (current != nullptr) current->noticed_ = true;
}

bool Interrupt::sleep(Deadline deadline) {
  // poll ignores an entry without a descriptor.
  pollfd entry = {.fd = descriptor(), .events = POLLIN, .revents = 0};
  if (poll(&entry, 1, deadline.remaining_ms()) <= 0) return true;
  notice();
  return false;
}

absl::Status Interrupt::error(const std::string& op) {
  return base::make_error({.reason = Reason::kAborted,
                           .what = "the start was interrupted",
                           .op = op,
                           .next_step = "start the rank again"});
}

}  // namespace distwrap::store
