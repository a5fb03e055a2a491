#include "comm/board/board.h"

#include "base/debugger.h"
#include "base/error.h"
#include "base/guard_door.h"
#include "base/log.h"
#include "comm/board/group_board.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <sched.h>
#include <string>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(25);
// The interval at which a rank without running operations reads the board: it
// has a long time to notice a silent rank.
constexpr absl::Duration kIdleLook = absl::Milliseconds(50);
constexpr absl::Duration kLongHeartbeat = absl::Seconds(1);
// The interval while other ranks still have to fetch the memory, for which they
// wait.
constexpr absl::Duration kServe = absl::Microseconds(500);
// How long to wait until the session's thread releases the liveness mutex.
constexpr absl::Duration kLeave = absl::Milliseconds(200);

size_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0
             ? static_cast<size_t>(CPU_COUNT(&set))
             : 1;
}

// Checks that the serving rank's memory is of this job, not of an earlier one
// that left it behind, and of this version.
absl::Status check_job(const RankFacts& facts, uint64_t job, int host) {
  if (facts.layout == kBoardLayout && facts.job == job) return absl::OkStatus();
  const bool same = facts.layout == kBoardLayout;
  return base::make_error(
      {.reason = Reason::kRefused,
       .what = same ? "a rank of this host has handed over the memory of "
                      "another job"
                    : "a rank of this host uses another version of distwrap",
       .op = "init",
       .ranks = {host},
       .expected = absl::StrCat(same ? "job " : "memory that says ",
                                absl::Hex(same ? job : kBoardLayout)),
       .actual = absl::StrCat(absl::Hex(same ? facts.job : facts.layout)),
       .next_step = same ? "end what an earlier job has left running, and give "
                           "each job a store of its own"
                         : "start all ranks with the same library"});
}

}  // namespace

absl::StatusOr<std::shared_ptr<Board>> Board::meet(
    Plan plan, DescriptorHandover handover, absl::Span<const BoardOffer> offers,
    Deadline deadline) {
  const BoardOffer& mine = offers[static_cast<size_t>(plan.rank)];
  std::vector<int> ranks;
  std::vector<HostMember> guests;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].host != mine.host || offers[rank].handover.empty())
      continue;
    if (!ranks.empty())
      guests.push_back({static_cast<int>(rank), offers[rank].token});
    ranks.push_back(static_cast<int>(rank));
  }
  if (mine.host.empty() || ranks.empty() ||
      (ranks.size() < 2 && !plan.hears_hosts))
    return nullptr;

  std::unique_ptr<HostMemory> memory;
  if (plan.rank == ranks.front()) {
    auto made = HostMemory::make(ranks.size());
    if (!made.ok()) return made.status();
    memory = *std::move(made);
  } else {
    const int host = ranks.front();
    auto taken = ask_at(offers[static_cast<size_t>(host)].handover, host,
                        {plan.rank, mine.token}, deadline);
    // The serving rank gave up or died. The next step tells so, or misses it.
    if (error_reason(taken.status()) == Reason::kPeerLost) return nullptr;
    if (!taken.ok()) return taken.status();
    auto adopted = HostMemory::adopt(*std::move(taken), ranks.size());
    if (!adopted.ok()) return adopted.status();
    memory = *std::move(adopted);
    if (absl::Status status =
            check_job(memory->area(0).front.facts, plan.job, host);
        !status.ok())
      return status;
    guests.clear();
  }
  std::shared_ptr<Board> board(
      new Board(std::move(plan), std::move(memory), std::move(ranks)));
  if (!guests.empty()) {
    base::MutexLock lock(board->mutex_);
    board->handover_ = std::move(handover);
    board->guests_ = std::move(guests);
    board->serves_until_ = deadline;
  }
  if (absl::Status entered = board->enter(); !entered.ok()) return entered;
  return board;
}

Board::Board(Plan plan, std::unique_ptr<HostMemory> memory,
             std::vector<int> ranks)
    : plan_(std::move(plan)),
      memory_(std::move(memory)),
      far_memory_(plan_.hears_hosts
                      ? FarMemory::make(plan_.job, plan_.world_size)
                      : nullptr),
      oversubscribed_(ranks.size() > usable_processors()) {
  for (size_t area = 0; area < ranks.size(); ++area)
    if (ranks[area] == plan_.rank)
      own_ = area;
    else
      neighbours_.push_back({ranks[area], area});
}

// Null without a door of this version.
static const dw_guard_door* door_of_process() {
  const auto door = base::guard_door();
  return door.ok() ? *door : nullptr;
}

absl::Status Board::enter() {
  FrontPage& own = front(own_);
  if (absl::Status status = memory_->reserve(&own); !status.ok()) return status;
  own.pid = getpid();
  own.facts = {kBoardLayout,
               plan_.job,
               plan_.rank,
               plan_.world_size,
               {},
               plan_.guard,
               door_of_process() != nullptr ? 1 : 0};
  plan_.host.copy(own.facts.host.data(), own.facts.host.size());
  liveness_ = memory_->make_liveness(own_);
  if (liveness_ == nullptr)
    base::log(base::LogLevel::kWarning,
              "no robust locks here: ranks that end are noticed by silence");
  plan_.watchdog->add(*this, Deadline::after(absl::ZeroDuration()));
  return absl::OkStatus();
}

Board::~Board() { leave(); }

void Board::leave() {
  if (process_.is_of_parent()) return;
  {
    base::MutexLock lock(mutex_);
    if (leaving_) return;
    leaving_ = true;
    if (watching_ == std::this_thread::get_id()) {
      take_leave();
      plan_.watchdog->remove(*this);  // does not wait for itself
      return;
    }
  }
  // The lock is released first: removal waits for a watch that may need it.
  plan_.watchdog->remove(*this);
  plan_.watchdog->add(*this, Deadline::after(absl::ZeroDuration()));
  {
    base::MutexLock lock(mutex_);
    const Deadline patience = Deadline::after(kLeave);
    while (!left_ && changed_.wait_until(mutex_, patience)) {
    }
  }
  plan_.watchdog->remove(*this);
  front(own_).state.store(AreaState::kClosed, std::memory_order_release);
}

void Board::take_leave() {
  FrontPage& own = front(own_);
  own.state.store(AreaState::kClosed, std::memory_order_release);
  if (std::exchange(lives_, false) && liveness_ != nullptr) liveness_->let_go();
  left_ = true;
  changed_.notify_all();
}

Deadline Board::expired() {
  // A callback may release the last reference to the board.
  std::shared_ptr<Board> self;
  FrontPage& own = front(own_);
  // The liveness mutex is taken before any other lock, since it is held
  // throughout.
  if (!std::exchange(lives_, true) && liveness_ != nullptr) liveness_->hold();
  base::MutexLock lock(mutex_);
  if (leaving_) {
    take_leave();
    return Deadline::never();
  }
  if (watching_ == std::thread::id()) {
    watching_ = std::this_thread::get_id();
    own.state.store(AreaState::kOpen, std::memory_order_release);
  }
  if (!guests_.empty()) {
    handover_->serve(memory_->descriptor(), &guests_);
    // Ranks that have not come by the end of the start do not come.
    if (serves_until_.passed()) guests_.clear();
    if (guests_.empty()) handover_.reset();
  }
  own.beats.fetch_add(1, std::memory_order_relaxed);
  if (const dw_guard_door* const door = door_of_process(); door != nullptr)
    own.refused.store(door->refusals(), std::memory_order_relaxed);
  look_around();
  bool busy = plan_.heartbeat < kLongHeartbeat;
  for (size_t i = 0; i < groups_.size(); ++i) {
    GroupBoard& group_board = *groups_[i];
    if (group_board.listener_ == nullptr) continue;
    if (auto found = group_board.look(looked_ns_); found.has_value())
      tell(self, group_board,
           [&] { group_board.listener_->board_found(*std::move(found)); });
    else if (auto stuck = group_board.stuck(looked_ns_); stuck.has_value())
      tell(self, group_board,
           [&] { group_board.listener_->board_waits(*std::move(stuck)); });
    else if (auto text = group_board.to_tell(looked_ns_); text.has_value())
      tell(self, group_board,
           [&] { group_board.listener_->board_tells(*std::move(text)); });
    if (leaving_) break;
    busy = busy || group_board.busy_;
  }
  pace_ = busy ? kLook : kIdleLook;
  return Deadline::after(guests_.empty() ? pace_ : kServe);
}

// Runs without the lock, because a listener may end the group.
template <class Body>
void Board::tell(std::shared_ptr<Board>& self, GroupBoard& group_board,
                 const Body& body) {
  self = weak_from_this().lock();
  telling_ = &group_board;
  mutex_.unlock();
  body();
  mutex_.lock();
  telling_ = nullptr;
  changed_.notify_all();
}

void Board::look_around() {
  const int64_t now_ns = Deadline::now_ns();
  // A thread that does not get a processor does not count as time that others
  // were silent.
  const int64_t passed_ns =
      looked_ns_ == 0
          ? 0
          : std::min(now_ns - looked_ns_, absl::ToInt64Nanoseconds(2 * pace_));
  looked_ns_ = now_ns;
  for (Neighbour& neighbour : neighbours_) look_at(neighbour, passed_ns);
}

void Board::look_at(Neighbour& neighbour, int64_t passed_ns) {
  if (neighbour.fate != Fate::kWell) return;
  const FrontPage& theirs = front(neighbour.area);
  if (theirs.state.load(std::memory_order_acquire) != AreaState::kOpen) return;
  if (has_ended(theirs.life)) {
    // The state is read again: the rank may have closed its area in between.
    if (theirs.state.load(std::memory_order_acquire) == AreaState::kOpen)
      neighbour.fate = Fate::kEnded;
    return;
  }
  const uint64_t beats = theirs.beats.load(std::memory_order_relaxed);
  if (beats != neighbour.beats)
    neighbour.silent_ns = neighbour.excused_ns = 0;
  else
    neighbour.silent_ns += passed_ns;
  neighbour.beats = beats;
  const int64_t limit_ns = absl::ToInt64Nanoseconds(plan_.heartbeat);
  if (neighbour.silent_ns < limit_ns / 2) return;
  // A debugger that holds a rank may take its time. When it leaves, the rank
  // has the limit for its next beat, or the half after a short stay.
  if (base::is_traced(theirs.pid))
    neighbour.excused_ns = neighbour.silent_ns;
  else if (neighbour.silent_ns - neighbour.excused_ns >= limit_ns)
    neighbour.fate = Fate::kSilent;
}

Board::Room::~Room() {
  if (board_ == nullptr || board_->process_.is_of_parent()) return;
  base::MutexLock lock(board_->mutex_);
  --board_->rooms_;
}

absl::StatusOr<Board::Room> Board::make_room(
    const std::shared_ptr<Board>& board, absl::Span<const int> global_ranks) {
  if (board == nullptr || !board->shows(global_ranks)) return Room();
  base::MutexLock lock(board->mutex_);
  const size_t pages =
      std::min(board->groups_.size() + board->rooms_ + 1, kMostGroupPages);
  if (absl::Status status = board->grow_to(pages); !status.ok()) return status;
  ++board->rooms_;
  return Room(board);
}

bool Board::shows(absl::Span<const int> global_ranks) const {
  if (plan_.hears_hosts) return global_ranks.size() > 1;
  return std::any_of(global_ranks.begin(), global_ranks.end(),
                     [&](int rank) { return neighbour(rank) != nullptr; });
}

absl::Status Board::grow_to(size_t pages) {
  for (; pages_ < pages; ++pages_)
    if (absl::Status status =
            memory_->reserve(&memory_->area(own_).groups[pages_]);
        !status.ok())
      return status;
  return absl::OkStatus();
}

int Board::add(GroupBoard& group_board, uint64_t uid) {
  base::MutexLock lock(mutex_);
  if (leaving_) return -1;
  FrontPage& own = front(own_);
  const auto free = std::find_if(
      own.groups.begin(), own.groups.end(),
      [](const std::atomic<uint64_t>& taken) { return taken.load() == 0; });
  if (free == own.groups.end()) return -1;
  const auto place = static_cast<size_t>(free - own.groups.begin());
  GroupPage& page = memory_->area(own_).groups[place];
  if (!grow_to(place + 1).ok()) return -1;
  clear(&page);
  group_board.open_meetings(&page);
  group_board.describe(&page.facts);
  group_board.page_ = &page;
  free->store(uid, std::memory_order_release);
  groups_.push_back(&group_board);
  return static_cast<int>(place);
}

void Board::wait_until_told(const GroupBoard& group_board) {
  while (telling_ == &group_board && watching_ != std::this_thread::get_id())
    changed_.wait(mutex_);
}

void Board::remove(GroupBoard& group_board, int place) {
  base::MutexLock lock(mutex_);
  wait_until_told(group_board);
  groups_.erase(std::find(groups_.begin(), groups_.end(), &group_board));
  front(own_).groups[static_cast<size_t>(place)].store(
      0, std::memory_order_release);
}

void Board::far_rank_ended(int rank, bool is_lost) {
  base::MutexLock lock(mutex_);
  if (far_memory_ != nullptr) far_memory_->end(rank, is_lost);
}

std::vector<Board::Ended> Board::look_for_ended() {
  base::MutexLock lock(mutex_);
  look_around();
  std::vector<Ended> ended;
  for (const Neighbour& neighbour : neighbours_)
    if (neighbour.fate == Fate::kEnded)
      ended.push_back({neighbour.rank, front(neighbour.area).pid});
  return ended;
}

void Board::break_off(uint64_t uid) {
  auto& all = front(own_).broken;
  FailedGroup& place =
      all[broken_.fetch_add(1, std::memory_order_relaxed) % all.size()];
  place.since_ns.store(Deadline::now_ns(), std::memory_order_relaxed);
  place.uid.store(uid, std::memory_order_release);
}

std::optional<int64_t> Board::broken_since(const Neighbour& neighbour,
                                           uint64_t uid) const {
  for (const FailedGroup& one : front(neighbour.area).broken)
    if (one.uid.load(std::memory_order_acquire) == uid)
      return one.since_ns.load(std::memory_order_relaxed);
  return std::nullopt;
}

const Board::Neighbour* Board::neighbour(int rank) const {
  for (const Neighbour& neighbour : neighbours_)
    if (neighbour.rank == rank) return &neighbour;
  return nullptr;
}

}  // namespace distwrap::comm
