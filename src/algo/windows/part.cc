#include "algo/windows/part.h"

#include "algo/decorator.h"
#include "sdk/windows.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace distwrap::algo::windows {
namespace {

void move(void* to, const void* from, uint64_t bytes) {
  if (bytes != 0) std::memmove(to, from, bytes);
}

}  // namespace

Part::Part(uint64_t uid, int rank, int size, void* brought, uint64_t bytes,
           uint64_t signals)
    : uid_(uid),
      rank_(rank),
      size_(size),
      bytes_(bytes),
      signals_(signals),
      brought_(brought != nullptr),
      data_(static_cast<char*>(brought)),
      peer_closed_(
          std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(size))),
      slots_(signals),
      pairs_(static_cast<size_t>(size)) {
  if (brought_) return;
  // Untouched pages cost no memory, and new pages are zero. Shared ones can be
  // mapped a second time (base/page_view.h).
  void* const pages =
      mmap(nullptr, std::max<uint64_t>(bytes, 1), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<char*>(pages);
}

Part::~Part() {
  if (!brought_) munmap(data_, std::max<uint64_t>(bytes_, 1));
}

int32_t Part::place(uint64_t offset, uint64_t bytes) const {
  if (closed_) return DW_FAILED_PRECONDITION;
  return offset > bytes_ || bytes > bytes_ - offset ? DW_INVALID_ARGUMENT
                                                    : DW_OK;
}

int32_t Part::put(uint64_t offset, const void* from, uint64_t bytes) {
  base::MutexLock lock(mutex_);
  if (int32_t code = place(offset, bytes)) return code;
  move(data_ + offset, from, bytes);
  return DW_OK;
}

int32_t Part::get(uint64_t offset, void* to, uint64_t bytes) {
  base::MutexLock lock(mutex_);
  if (int32_t code = place(offset, bytes)) return code;
  move(to, data_ + offset, bytes);
  return DW_OK;
}

int32_t Part::reduce(uint64_t offset, const void* operands, void* old,
                     uint64_t count, uint64_t element, dw_reduce_fn kernel) {
  base::MutexLock lock(mutex_);
  if (int32_t code = place(offset, count * element)) return code;
  void* const at = data_ + offset;
  if (old != nullptr) move(old, at, count * element);
  const void* const terms[] = {at, operands};
  if (count != 0) kernel(at, terms, 2, count, nullptr);
  return DW_OK;
}

int32_t Part::compare_swap(uint64_t offset, const void* two, void* old,
                           uint64_t element) {
  base::MutexLock lock(mutex_);
  if (int32_t code = place(offset, element)) return code;
  void* const at = data_ + offset;
  move(old, at, element);
  if (std::memcmp(at, two, element) == 0)
    move(at, static_cast<const char*>(two) + element, element);
  return DW_OK;
}

int32_t Part::raise(int from, uint32_t index, uint16_t how, uint64_t value) {
  base::MutexLock lock(mutex_);
  if (closed_) return DW_FAILED_PRECONDITION;
  if (index == DW_SIGNAL_PAIR)
    ++pairs_[static_cast<size_t>(from)];
  else if (index >= slots_.size())
    return DW_INVALID_ARGUMENT;
  else if (how == DW_SIGNAL_ADD)
    slots_[index] += value;
  else
    slots_[index] = value;
  raised_.notify_all();
  return DW_OK;
}

template <class Holds>
int32_t Part::wait_until(Deadline deadline, int peer, dw_error* error,
                         const Holds& holds) {
  bool late = false;
  while (!holds()) {
    if (why_.code != DW_OK) {
      if (error != nullptr) *error = why_;
      return why_.code;
    }
    if (late) {
      const int32_t code =
          fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT,
               "the signal did not come in time");
      if (error != nullptr) error->peer = peer;
      return code;
    }
    late = !raised_.wait_until(mutex_, deadline);
  }
  return DW_DONE;
}

int32_t Part::wait(uint32_t index, uint16_t compare, uint64_t value,
                   Deadline deadline, dw_error* error) {
  base::MutexLock lock(mutex_);
  if (index >= slots_.size() || compare < DW_COMPARE_EQ ||
      compare > DW_COMPARE_GE)
    return invalid(error, "there is no such signal or comparison");
  return wait_until(deadline, -1, error, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return dw_signal_holds(slots_[index], compare, value);
  });
}

int32_t Part::wait_pair(int from, Deadline deadline, dw_error* error) {
  base::MutexLock lock(mutex_);
  uint64_t& there = pairs_[static_cast<size_t>(from)];
  const int32_t code =
      wait_until(deadline, from, error, [&] { return there != 0; });
  if (code == DW_DONE) --there;
  return code;
}

void Part::end_waits(const dw_error& why) {
  base::MutexLock lock(mutex_);
  if (why_.code == DW_OK) why_ = why;
  raised_.notify_all();
}

void Part::close() {
  base::MutexLock lock(mutex_);
  closed_ = true;
}

}  // namespace distwrap::algo::windows
