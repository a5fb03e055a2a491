#include "arena.h"

#include "sdk/fail.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/resource.h>

namespace shm_backend {
namespace {

// Address space, not memory.
constexpr size_t kPlot = size_t{1} << 30;
constexpr size_t kSmallestPlot = 256 << 10;
// Bytes of a region that are reserved at a time: control areas of some twenty
// groups.
constexpr size_t kExtent = 128 << 10;
// Upper limit of a group's staging, so that sizes do not overflow.
constexpr uint64_t kMostStage = uint64_t{1} << 32;
// Retired groups that are checked when a group is made or ended.
constexpr size_t kFew = 4;
// A part begins at a pair of lines. Offset 0 means none.
constexpr size_t kStep = 2 * kLine;

size_t up(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

// The size of each region within the limits of this process.
size_t plot_within_limits(size_t size) {
  size_t bytes = kPlot;
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0)
    bytes = std::min<size_t>(bytes, limit.rlim_cur / size);
  if (getrlimit(RLIMIT_AS, &limit) == 0)
    bytes = std::min<size_t>(bytes, limit.rlim_cur / 4 / size);
  bytes -= std::min(bytes, size_t{kPage});  // the header's
  return std::max(bytes / kPage * kPage, kSmallestPlot);
}

size_t plots_end(const Header& header) {
  return kPage + header.size * header.plot_bytes;
}
size_t segment_bytes(const Header& header) {
  return plots_end(header) + header.size * header.heap_bytes;
}

}  // namespace

int32_t Arena::create(Header header, dw_error* error) {
  header.plot_bytes = plot_within_limits(header.size);
  header.heap_bytes = Heap::within_limits(header.size, plots_end(header));
  if (int32_t code =
          segment_.create(segment_bytes(header), error, plots_end(header)))
    return code;
  if (int32_t code = segment_.reserve(0, kPage, error)) return code;
  std::memcpy(segment_.data(), &header, sizeof header);
  header_ = header;
  open();
  return DW_OK;
}

int32_t Arena::adopt(Descriptor fd, const Header& wanted, dw_error* error) {
  const size_t most = kPage + wanted.size * kPlot;
  if (int32_t code = segment_.adopt(std::move(fd), error, most)) return code;
  Header header = {};
  if (segment_.bytes() >= kPage)
    std::memcpy(&header, segment_.data(), sizeof header);
  if (header.magic != kSegmentMagic || header.nonce != wanted.nonce ||
      header.uid != wanted.uid || header.epoch != wanted.epoch ||
      header.size != wanted.size || header.plot_bytes < kSmallestPlot ||
      header.plot_bytes > kPlot || header.plot_bytes % kPage != 0 ||
      header.stage_bytes < kSmallStage || header.stage_bytes > kMostStage ||
      header.stage_bytes % kPage != 0 || header.heap_bytes > Heap::kMost ||
      header.heap_bytes % kPage != 0 || !header.tuning.is_sane() ||
      segment_bytes(header) != segment_.bytes())
    return dw_fail(
        error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, 0, 0,
        "shm: the memory that rank 0 handed over is not this group's");
  header_ = header;
  open();
  return DW_OK;
}

void Arena::open() {
  plots_ = segment_.data() + kPage;
  known_ = std::make_unique<std::atomic<size_t>[]>(header_.size);
}

void Arena::settle(int rank) {
  rank_ = rank;
  heap_.settle(segment_, plots_end(header_), header_, rank);
  taken_ = kStep;
  processors_ = Processors::usable();
}

char* Arena::look_for(int rank, size_t at, size_t bytes) const {
  if (at >= header_.plot_bytes) return heap_.find(rank, at, bytes);
  if (bytes > header_.plot_bytes - at) return nullptr;
  std::atomic<size_t>& known = known_[static_cast<size_t>(rank)];
  const auto begin = static_cast<size_t>(plot(rank) - segment_.data());
  const size_t there =
      segment_.there(begin + known.load(std::memory_order_relaxed),
                     begin + header_.plot_bytes) -
      begin;
  known.store(there, std::memory_order_relaxed);
  return at + bytes <= there ? plot(rank) + at : nullptr;
}

int32_t Arena::grow(size_t bytes, dw_error* error) {
  const size_t left = header_.plot_bytes - reserved_;
  const size_t needed = up(taken_ + bytes - reserved_, kPage);
  if (needed > left) {
    char text[200];
    std::snprintf(text, sizeof text,
                  "shm: %zu KiB of shared memory are needed, but %zu KiB are "
                  "left of the %zu KiB that a rank has for all its groups",
                  needed >> 10, left >> 10, size_t{header_.plot_bytes} >> 10);
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   text);
  }
  const auto at =
      static_cast<size_t>(plot(rank_) - segment_.data()) + reserved_;
  // If memory is short, reserve only what is needed.
  const size_t wanted = std::min(left, up(needed, kExtent));
  for (const size_t some : {wanted, needed}) {
    dw_error* const told = some == needed ? error : nullptr;
    const int32_t code = segment_.reserve(at, some, told);
    if (code == DW_OK) {
      reserved_ += some;
      return DW_OK;
    }
    if (some == needed) return code;
  }
  return DW_OK;
}

bool Arena::take_free(Kind kind, size_t bytes, Piece* piece) {
  const auto found = free_.find({kind, bytes});
  if (found == free_.end() || found->second.empty()) return false;
  *piece = {kind, bytes, found->second.back()};
  found->second.pop_back();
  return true;
}

int32_t Arena::take(Kind kind, size_t bytes, Piece* piece, dw_error* error) {
  bytes = up(bytes, kStep);
  std::lock_guard<std::mutex> lock(mutex_);
  collect(kFew, false);
  if (take_free(kind, bytes, piece)) return DW_OK;
  if (taken_ + bytes > reserved_) {
    collect(retired_.size(), true);
    if (take_free(kind, bytes, piece)) return DW_OK;
    if (int32_t code = grow(bytes, error)) return code;
  }
  *piece = {kind, bytes, taken_};
  taken_ += bytes;
  return DW_OK;
}

void Arena::retire(std::vector<Piece> pieces, std::vector<Member> others) {
  std::lock_guard<std::mutex> lock(mutex_);
  retired_.push_back({std::move(pieces), std::move(others)});
  collect(kFew, false);
}

// A member that has taken its area for another group shows another token, and
// it does so only after this rank has left.
bool Arena::have_left(std::vector<Member>& others, bool look_for_dead) const {
  const auto has_left = [this](const Member& one) {
    const char* const at = find(one.rank, one.area, sizeof(Area));
    return at == nullptr || reinterpret_cast<const Area*>(at)->token.load(
                                std::memory_order_acquire) != one.token;
  };
  others.erase(std::remove_if(others.begin(), others.end(), has_left),
               others.end());
  while (look_for_dead && !others.empty()) {
    std::vector<int> ranks;
    for (const Member& one : others) ranks.push_back(one.rank);
    const int lost = watch.lost(ranks);
    if (lost < 0) break;
    others.erase(others.begin() + lost);
  }
  return others.empty();
}

// Retired groups take turns, so one that lasts does not block the others.
void Arena::collect(size_t most, bool look_for_dead) {
  for (size_t i = std::min(most, retired_.size()); i > 0; --i) {
    Retired one = std::move(retired_.front());
    retired_.pop_front();
    if (!have_left(one.others, look_for_dead)) {
      retired_.push_back(std::move(one));
      continue;
    }
    for (const Piece& piece : one.pieces)
      free_[{piece.kind, piece.bytes}].push_back(piece.at);
  }
}

}  // namespace shm_backend
