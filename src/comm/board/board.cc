#include "comm/board/board.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/board/lane.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <sched.h>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(25);
// Of a rank that does nothing in any group, and has long to say that another is
// silent.
constexpr absl::Duration kIdleLook = absl::Milliseconds(50);
constexpr absl::Duration kLongHeartbeat = absl::Seconds(1);
// While ranks are to come for the memory, and wait for it.
constexpr absl::Duration kServe = absl::Microseconds(500);
// For the session's thread to let go.
constexpr absl::Duration kLeave = absl::Milliseconds(200);

size_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0
             ? static_cast<size_t>(CPU_COUNT(&set))
             : 1;
}

// That the memory of the rank that serves is of this job, and no earlier one
// that has left it behind; and of this version.
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
    Plan plan, Door door, absl::Span<const BoardOffer> offers,
    Deadline deadline) {
  const BoardOffer& mine = offers[static_cast<size_t>(plan.rank)];
  std::vector<int> ranks;
  std::vector<HostMember> guests;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].host != mine.host || offers[rank].door.empty()) continue;
    if (!ranks.empty())
      guests.push_back({static_cast<int>(rank), offers[rank].token});
    ranks.push_back(static_cast<int>(rank));
  }
  if (mine.host.empty() || ranks.size() < 2) return nullptr;

  std::unique_ptr<HostMemory> memory;
  if (plan.rank == ranks.front()) {
    auto made = HostMemory::make(ranks.size());
    if (!made.ok()) return made.status();
    memory = *std::move(made);
  } else {
    const int host = ranks.front();
    auto taken = ask_at(offers[static_cast<size_t>(host)].door, host,
                        {plan.rank, mine.token}, deadline);
    // It gave up or died, and says so, or is missed, at the next step.
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
    board->door_ = std::move(door);
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
      crowded_(ranks.size() > usable_processors()) {
  for (size_t area = 0; area < ranks.size(); ++area)
    if (ranks[area] == plan_.rank)
      own_ = area;
    else
      neighbours_.push_back({ranks[area], area});
}

absl::Status Board::enter() {
  FrontPage& own = front(own_);
  if (absl::Status status = memory_->reserve(&own); !status.ok()) return status;
  own.pid = getpid();
  own.facts = {kBoardLayout, plan_.job, plan_.rank, plan_.world_size, {}};
  plan_.host.copy(own.facts.host.data(), own.facts.host.size());
  life_ = memory_->make_life(own_);
  if (life_ == nullptr)
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
  // Whoever holds the lock has to let go of it.
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
  if (std::exchange(lives_, false) && life_ != nullptr) life_->let_go();
  left_ = true;
  changed_.notify_all();
}

Deadline Board::expired() {
  // Who hears of something may let go of the board.
  std::shared_ptr<Board> self;
  FrontPage& own = front(own_);
  // Before any other lock: it is held through all that comes.
  if (!std::exchange(lives_, true) && life_ != nullptr) life_->hold();
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
    door_->serve(memory_->descriptor(), &guests_);
    // Who has not come by the end of the start does not come.
    if (serves_until_.passed()) guests_.clear();
    if (guests_.empty()) door_.reset();
  }
  own.beats.fetch_add(1, std::memory_order_relaxed);
  look_around();
  bool busy = plan_.heartbeat < kLongHeartbeat;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    if (lane.listener_ == nullptr) continue;
    if (auto found = lane.look(looked_ns_); found.has_value())
      tell(self, lane, [&] { lane.listener_->board_found(*std::move(found)); });
    else if (auto stuck = lane.stuck(looked_ns_); stuck.has_value())
      tell(self, lane, [&] { lane.listener_->board_waits(*std::move(stuck)); });
    if (leaving_) break;
    busy = busy || lane.busy_;
  }
  pace_ = busy ? kLook : kIdleLook;
  return Deadline::after(guests_.empty() ? pace_ : kServe);
}

// Off the lock: who hears it may end the group.
template <class Body>
void Board::tell(std::shared_ptr<Board>& self, Lane& lane, const Body& body) {
  self = weak_from_this().lock();
  telling_ = &lane;
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
    // It may have closed in between.
    if (theirs.state.load(std::memory_order_acquire) == AreaState::kOpen)
      neighbour.fate = Fate::kEnded;
    return;
  }
  const uint64_t beats = theirs.beats.load(std::memory_order_relaxed);
  neighbour.silent_ns =
      beats == neighbour.beats ? neighbour.silent_ns + passed_ns : 0;
  neighbour.beats = beats;
  if (neighbour.silent_ns >= absl::ToInt64Nanoseconds(plan_.heartbeat))
    neighbour.fate = Fate::kSilent;
}

Board::Room::~Room() {
  if (board_ == nullptr || board_->process_.is_of_parent()) return;
  base::MutexLock lock(board_->mutex_);
  --board_->rooms_;
}

absl::StatusOr<Board::Room> Board::make_room(
    const std::shared_ptr<Board>& board, absl::Span<const int> global_ranks) {
  if (board == nullptr ||
      std::none_of(global_ranks.begin(), global_ranks.end(),
                   [&](int rank) { return board->neighbour(rank) != nullptr; }))
    return Room();
  base::MutexLock lock(board->mutex_);
  const size_t pages =
      std::min(board->lanes_.size() + board->rooms_ + 1, kMostLanes);
  if (absl::Status status = board->grow_to(pages); !status.ok()) return status;
  ++board->rooms_;
  return Room(board);
}

absl::Status Board::grow_to(size_t pages) {
  for (; pages_ < pages; ++pages_)
    if (absl::Status status =
            memory_->reserve(&memory_->area(own_).lanes[pages_]);
        !status.ok())
      return status;
  return absl::OkStatus();
}

int Board::add(Lane& lane, uint64_t uid) {
  base::MutexLock lock(mutex_);
  if (leaving_) return -1;
  FrontPage& own = front(own_);
  const auto free = std::find_if(
      own.lanes.begin(), own.lanes.end(),
      [](const std::atomic<uint64_t>& taken) { return taken.load() == 0; });
  if (free == own.lanes.end()) return -1;
  const auto place = static_cast<size_t>(free - own.lanes.begin());
  LanePage& page = memory_->area(own_).lanes[place];
  if (!grow_to(place + 1).ok()) return -1;
  for (auto* const word : {&page.last, &page.inside, &page.aside, &page.pending,
                           &page.told, &page.met})
    word->store(0, std::memory_order_relaxed);
  page.since_ns.store(0, std::memory_order_relaxed);
  page.moved_ns.store(0, std::memory_order_relaxed);
  for (Entry& entry : page.entries)
    entry.number.store(0, std::memory_order_relaxed);
  lane.open_meetings(&page);
  lane.describe(&page.facts);
  lane.page_ = &page;
  free->store(uid, std::memory_order_release);
  lanes_.push_back(&lane);
  return static_cast<int>(place);
}

void Board::wait_until_untold(const Lane& lane) {
  while (telling_ == &lane && watching_ != std::this_thread::get_id())
    changed_.wait(mutex_);
}

void Board::remove(Lane& lane, int place) {
  base::MutexLock lock(mutex_);
  wait_until_untold(lane);
  lanes_.erase(std::find(lanes_.begin(), lanes_.end(), &lane));
  front(own_).lanes[static_cast<size_t>(place)].store(
      0, std::memory_order_release);
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
