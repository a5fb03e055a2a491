#include "heap.h"

#include "sdk/fail.h"

#include <algorithm>
#include <cstdio>
#include <sys/mman.h>
#include <sys/resource.h>

namespace shm_backend {
namespace {

constexpr size_t kAllHeaps = size_t{1} << 40;

size_t up(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

bool overlaps(const Lease::Range& range, size_t begin, size_t end) {
  return range.begin.load(std::memory_order_acquire) < end &&
         range.end.load(std::memory_order_acquire) > begin;
}

}  // namespace

size_t Heap::within_limits(size_t ranks, size_t before) {
  size_t bytes = std::min(kMost, kAllHeaps / ranks);
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0)
    bytes = std::min<size_t>(
        bytes,
        (limit.rlim_cur - std::min<size_t>(limit.rlim_cur, before)) / ranks);
  if (getrlimit(RLIMIT_AS, &limit) == 0)
    bytes = std::min<size_t>(bytes, limit.rlim_cur / 4 / ranks);
  return bytes / kPage * kPage;
}

Heap::~Heap() {
  for (size_t rank = 0; rank < n_ranks_; ++rank)
    if (char* const data = ranks_[rank].data.load()) munmap(data, bytes_);
}

void Heap::settle(const Segment& segment, size_t begin, const Header& header,
                  int rank) {
  segment_ = &segment;
  begin_ = begin;
  bytes_ = header.heap_bytes;
  first_ = header.plot_bytes;
  rank_ = rank;
  ranks_ = std::make_unique<Other[]>(header.size);
  n_ranks_ = header.size;
}

char* Heap::map(int rank, dw_error* error) {
  std::atomic<char*>& known = ranks_[static_cast<size_t>(rank)].data;
  char* data = known.load(std::memory_order_acquire);
  if (data != nullptr) return data;
  if (segment_->map_part(file_of(rank), bytes_, &data, error) != DW_OK)
    return nullptr;
  char* other = nullptr;
  if (known.compare_exchange_strong(other, data)) return data;
  munmap(data, bytes_);
  return other;
}

int32_t Heap::fail_full(size_t wanted, dw_error* error) const {
  char text[200];
  std::snprintf(
      text, sizeof text,
      "shm: %zu KiB of shared memory are wanted, but no more than %zu "
      "KiB in one piece are left of the %zu KiB that a rank has",
      wanted >> 10, (bytes_ - taken_) >> 10, bytes_ >> 10);
  return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                 text);
}

int32_t Heap::take(size_t bytes, size_t* place, char** data, dw_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > bytes_) return fail_full(bytes, error);
  bytes = std::max(up(bytes), kPage);
  auto found =
      std::find_if(free_.begin(), free_.end(),
                   [bytes](const auto& one) { return one.second >= bytes; });
  const size_t at = found != free_.end() ? found->first : taken_;
  if (found == free_.end() && bytes > bytes_ - taken_)
    return fail_full(bytes, error);
  // The rest of a free part is noted before anything is taken, since that may
  // throw.
  if (found != free_.end() && found->second > bytes)
    free_.emplace(at + bytes, found->second - bytes);
  char* const own = map(rank_, error);
  int32_t code = own == nullptr ? int32_t{DW_RESOURCE_EXHAUSTED}
                                : segment_->reserve(file_of(rank_) + at, bytes,
                                                    own + at, error);
  if (code != DW_OK) {
    segment_->give_back(file_of(rank_) + at, bytes);
    if (found != free_.end()) free_.erase(at + bytes);
    return code;
  }
  if (found != free_.end())
    free_.erase(found);
  else
    taken_ += bytes;
  own_.store(reinterpret_cast<uintptr_t>(own), std::memory_order_relaxed);
  *place = first_ + at;
  *data = own + at;
  return DW_OK;
}

int32_t Heap::give_back(size_t place, size_t bytes, dw_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  bytes = std::max(up(bytes), kPage);
  for (const Lease* lease : leases_)
    if (overlaps(lease->in, place, place + bytes) ||
        overlaps(lease->out, place, place + bytes))
      return dw_invalid(error,
                        "an operation that has not ended uses the memory");
  size_t at = place - first_;
  segment_->give_back(file_of(rank_) + at, bytes);
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at) {
      at = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  if (at + bytes == taken_)
    taken_ = at;
  else
    free_[at] = bytes;
  return DW_OK;
}

bool Heap::has_seen(const Other& other, size_t at, size_t bytes) {
  for (const std::atomic<uint64_t>& one : other.seen) {
    const uint64_t range = one.load(std::memory_order_relaxed);
    if (at >= (range >> 32) * kPage &&
        at + bytes <= static_cast<uint32_t>(range) * kPage) [[likely]]
      return true;
  }
  return false;
}

char* Heap::find(int rank, size_t place, size_t bytes) {
  const size_t at = place - first_;
  if (at >= bytes_ || bytes > bytes_ - at) return nullptr;
  char* const data = map(rank, nullptr);
  if (data == nullptr) return nullptr;
  Other& other = ranks_[static_cast<size_t>(rank)];
  if (has_seen(other, at, bytes)) [[likely]]
    return data + at;
  const size_t file = file_of(rank);
  const size_t begin = at / kPage * kPage;
  const size_t there = segment_->there(file + begin, file + bytes_) - file;
  if (at + bytes > there) return nullptr;
  other.seen[other.next.fetch_add(1, std::memory_order_relaxed) % kSeen].store(
      begin / kPage << 32 | there / kPage, std::memory_order_relaxed);
  return data + at;
}

void Heap::add(const Lease* lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  leases_.push_back(lease);
}

void Heap::drop(const Lease* lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  leases_.erase(std::remove(leases_.begin(), leases_.end(), lease),
                leases_.end());
}

}  // namespace shm_backend
