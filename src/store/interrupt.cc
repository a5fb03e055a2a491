#include "store/interrupt.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <poll.h>

namespace distwrap::store {
namespace {

thread_local Interrupt* current = nullptr;

}  // namespace

Interrupt::Interrupt(std::optional<int> fd, Words words)
    : fd_(fd.value_or(-1)), words_(words), outer_(current) {
  current = this;
}

Interrupt::~Interrupt() { current = outer_; }

int Interrupt::descriptor() {
  return current == nullptr || current->noticed_ ? -1 : current->fd_;
}

void Interrupt::notice() {
  if (current != nullptr) current->noticed_ = true;
}

bool Interrupt::is_noticed() { return current != nullptr && current->noticed_; }

bool Interrupt::sleep(Deadline deadline) {
  // poll ignores an entry without a descriptor.
  pollfd entry = {.fd = descriptor(), .events = POLLIN, .revents = 0};
  if (poll(&entry, 1, deadline.remaining_ms()) <= 0) return true;
  notice();
  return false;
}

absl::Status Interrupt::error(const std::string& op) {
  const Words words = current == nullptr ? Words{} : current->words_;
  return base::make_error({.reason = Reason::kAborted,
                           .what = absl::StrCat(words.what, " was interrupted"),
                           .op = op,
                           .next_step = words.next_step});
}

}  // namespace distwrap::store
