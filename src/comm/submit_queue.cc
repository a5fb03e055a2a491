#include "comm/submit_queue.h"

#include <algorithm>
#include <utility>

namespace distwrap::comm {
namespace {

bool shares_communicator(const SubmitQueue::Set& one,
                         const SubmitQueue::Set& other) {
  return std::any_of(one.begin(), one.end(), [&](const QueuedOp& op) {
    return std::any_of(other.begin(), other.end(), [&](const QueuedOp& its) {
      return its.communicator == op.communicator;
    });
  });
}

}  // namespace

void SubmitQueue::add(Set&& set, Submit submit) {
  base::MutexLock lock(mutex_);
  entries_.emplace_back();
  entries_.back() = {std::move(set), submit};
  size_.fetch_add(1, std::memory_order_release);
}

void SubmitQueue::try_all() {
  if (empty() || !mutex_.try_lock()) return;
  // An entry that is left in front of another holds up its communicators.
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const bool is_held =
        std::any_of(entries_.begin(), entry, [&](const Entry& before) {
          return shares_communicator(before.set, entry->set);
        });
    if (!is_held && entry->submit(entry->set) != DW_AGAIN) {
      entry = entries_.erase(entry);
      size_.fetch_sub(1, std::memory_order_release);
    } else {
      ++entry;
    }
  }
  mutex_.unlock();
}

bool SubmitQueue::remove(const WorkCell* cell) {
  base::MutexLock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    Set& set = entry->set;
    const auto op =
        std::find_if(set.begin(), set.end(),
                     [&](const QueuedOp& one) { return one.cell == cell; });
    if (op == set.end()) continue;
    set.erase(op);
    if (set.empty()) {
      entries_.erase(entry);
      size_.fetch_sub(1, std::memory_order_release);
    }
    return true;
  }
  return false;
}

}  // namespace distwrap::comm
