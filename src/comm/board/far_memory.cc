#include "comm/board/far_memory.h"

#include <algorithm>
#include <linux/futex.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr auto kFree = std::memory_order_relaxed;
// LiveBoard reads no more.
constexpr int kMostRanks = 4096;

}  // namespace

void clear(GroupPage* page) {
  for (auto* const word : {&page->last, &page->inside, &page->aside,
                           &page->pending, &page->told, &page->met})
    word->store(0, kFree);
  page->since_ns.store(0, kFree);
  page->moved_ns.store(0, kFree);
  for (Entry& entry : page->entries)
    for (auto* const word : {&entry.number, &entry.history, &entry.balance})
      word->store(0, kFree);
}

void FarPageEnd::operator()(GroupPage* page) const {
  if (memory == nullptr)
    delete page;
  else
    uid->store(0, std::memory_order_release);
}

std::shared_ptr<FarMemory> FarMemory::make(uint64_t job, int world_size) {
  if (world_size > kMostRanks) return nullptr;
  auto memory = HostMemory::make(static_cast<size_t>(world_size), kName);
  if (!memory.ok()) return nullptr;
  return std::shared_ptr<FarMemory>(new FarMemory(job, *std::move(memory)));
}

FarPage FarMemory::take_private() {
  return FarPage(new GroupPage(), FarPageEnd());
}

FarPage FarMemory::take(int rank, uint64_t uid, const GroupFacts& facts) {
  FrontPage& front = area(rank).front;
  if (!is_open(rank)) {
    if (!memory_->reserve(&front).ok()) return take_private();
    opened_[static_cast<size_t>(rank)] = true;
    front.facts = {.layout = kBoardLayout,
                   .job = job_,
                   .rank = rank,
                   .world_size = static_cast<int32_t>(memory_->ranks()),
                   .host = {},
                   .guard = 0,
                   .has_door = 0};
    front.state.store(AreaState::kOpen, std::memory_order_release);
  }
  const auto free = std::find_if(
      front.groups.begin(), front.groups.end(),
      [](const std::atomic<uint64_t>& taken) { return taken.load() == 0; });
  if (free == front.groups.end()) return take_private();
  GroupPage& page =
      area(rank).groups[static_cast<size_t>(free - front.groups.begin())];
  if (!memory_->reserve(&page).ok()) return take_private();
  clear(&page);
  for (auto& word : page.counts.words) word.store(0, kFree);
  page.facts = facts;
  free->store(uid, std::memory_order_release);
  return FarPage(&page, {shared_from_this(), &*free});
}

void FarMemory::know(int rank, absl::string_view host, int64_t process) {
  if (!is_open(rank)) return;
  FrontPage& front = area(rank).front;
  front.pid = static_cast<int32_t>(process);
  front.facts.host = {};
  host.copy(front.facts.host.data(), front.facts.host.size());
}

void FarMemory::end(int rank, bool is_lost) {
  if (!is_open(rank)) return;
  FrontPage& front = area(rank).front;
  // As the kernel marks the lock of a process that has ended.
  if (is_lost)
    front.life.futex.store(FUTEX_OWNER_DIED, std::memory_order_release);
  else
    front.state.store(AreaState::kClosed, std::memory_order_release);
}

}  // namespace distwrap::comm
