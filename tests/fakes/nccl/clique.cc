#include "fakes/nccl/clique.h"

#include "fakes/gpu/memory.h"

#include <algorithm>
#include <cstring>

namespace fakes::nccl {
namespace {

using gpu::reach;

std::string text_of(const Part& part) {
  static const char* const kNames[] = {
      "AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter",
      "AlltoAll",  "Gather", "Scatter",   "message"};
  return std::string(kNames[static_cast<int>(part.kind)]) + " of " +
         std::to_string(part.count) + " elements of type " +
         std::to_string(part.type) + ", root " + std::to_string(part.peer) +
         ", op " + std::to_string(part.reduction.op);
}

// Whether two ranks may make these calls in one meeting.
bool alike(const Part& a, const Part& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type &&
         a.reduction.op == b.reduction.op &&
         a.reduction.premul == b.reduction.premul &&
         (a.kind == Kind::kMessage || a.peer == b.peer);
}

}  // namespace

// The data of a meeting in which all have posted, by rank.
class Exchange {
 public:
  struct Rank {
    const Part* part;
    int device;
  };
  explicit Exchange(std::vector<Rank> ranks)
      : ranks_(std::move(ranks)),
        first_(*ranks_[0].part),
        n_(ranks_.size()),
        bytes_(first_.count * bytes_of(first_.type)) {}

  void run() {
    switch (first_.kind) {
      case Kind::kMessage:
        return message();
      case Kind::kBroadcast:
        return copy_from_root();
      case Kind::kAllReduce:
      case Kind::kReduce:
      case Kind::kReduceScatter:
        return reduce_all();
      default:
        return move_pieces();
    }
  }

 private:
  char* in(size_t r, size_t offset, size_t bytes) const {
    return reach(ranks_[r].device,
                 static_cast<const char*>(ranks_[r].part->in) + offset, bytes);
  }
  char* out(size_t r, size_t offset, size_t bytes) const {
    return reach(ranks_[r].device,
                 static_cast<char*>(ranks_[r].part->out) + offset, bytes);
  }

  void message() {
    const size_t from = ranks_[0].part->sends ? 0 : 1;
    if (bytes_ != 0)
      std::memmove(out(1 - from, 0, bytes_), in(from, 0, bytes_), bytes_);
  }

  void copy_from_root() {
    if (bytes_ == 0) return;
    const auto root = static_cast<size_t>(first_.peer);
    const std::string data(in(root, 0, bytes_), bytes_);
    for (size_t r = 0; r < n_; ++r)
      std::memcpy(out(r, 0, bytes_), data.data(), bytes_);
  }

  void reduce_all() {
    const bool scatters = first_.kind == Kind::kReduceScatter;
    const size_t count = scatters ? first_.count * n_ : first_.count;
    const size_t bytes = scatters ? bytes_ * n_ : bytes_;
    if (bytes == 0) return;
    std::vector<const char*> inputs, factors;
    for (size_t r = 0; r < n_; ++r) {
      inputs.push_back(in(r, 0, bytes));
      const Part& part = *ranks_[r].part;
      factors.push_back(
          part.factor_at == nullptr
              ? part.factor.data()
              : reach(ranks_[r].device, part.factor_at, bytes_of(part.type)));
    }
    std::string sum(bytes, '\0');
    reduce(first_.reduction, first_.type, inputs, factors, count, sum.data());
    for (size_t r = 0; r < n_; ++r) {
      if (first_.kind == Kind::kReduce && first_.peer != static_cast<int>(r))
        continue;
      std::memcpy(out(r, 0, bytes_), sum.data() + (scatters ? r * bytes_ : 0),
                  bytes_);
    }
  }

  // Gathers take the whole input of a rank, scatters one piece for each.
  void move_pieces() {
    if (bytes_ == 0) return;
    const Kind kind = first_.kind;
    const bool whole_in = kind == Kind::kAllGather || kind == Kind::kGather;
    const bool whole_out = kind == Kind::kScatter;
    std::vector<std::string> inputs(n_);
    for (size_t r = 0; r < n_; ++r) {
      if (kind == Kind::kScatter && first_.peer != static_cast<int>(r))
        continue;
      const size_t bytes = whole_in ? bytes_ : bytes_ * n_;
      inputs[r].assign(in(r, 0, bytes), bytes);
    }
    for (size_t to = 0; to < n_; ++to) {
      if (kind == Kind::kGather && first_.peer != static_cast<int>(to))
        continue;
      for (size_t from = 0; from < n_; ++from) {
        if (inputs[from].empty()) continue;
        std::memcpy(out(to, whole_out ? 0 : from * bytes_, bytes_),
                    inputs[from].data() + (whole_in ? 0 : to * bytes_), bytes_);
      }
    }
  }

  const std::vector<Rank> ranks_;
  const Part& first_;
  const size_t n_, bytes_;
};

bool LocalClique::wait_for_all(const Key& key, int rank, int ranks,
                               const std::function<bool()>& gone) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::set<int>& here = joined_[key];
  here.insert(rank);
  changed_.notify_all();
  changed_.wait(lock, [&] {
    return gone() || here.size() >= static_cast<size_t>(ranks);
  });
  return here.size() >= static_cast<size_t>(ranks);
}

void LocalClique::wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

void LocalClique::post(const Key& key, const Posted& posted) {
  Meeting& meeting = meetings_[key];
  const size_t wanted =
      posted.part.kind == Kind::kMessage ? 2 : static_cast<size_t>(size());
  if (!meeting.posted.empty() && !alike(meeting.posted[0].part, posted.part)) {
    meeting.differs = true;
    gpu::broken("different calls",
                "rank " + std::to_string(meeting.posted[0].rank) + " made " +
                    text_of(meeting.posted[0].part) + ", rank " +
                    std::to_string(posted.rank) + " made " +
                    text_of(posted.part));
  }
  for (const Posted& other : meeting.posted)
    if (other.part.registered.value_or(false) !=
            posted.part.registered.value_or(false) &&
        other.part.registered.has_value() && posted.part.registered.has_value())
      gpu::broken("registered on some ranks only",
                  text_of(posted.part) + ": NCCL leaves open what happens");
  meeting.posted.push_back(posted);
  if (meeting.posted.size() < wanted) return;
  std::sort(meeting.posted.begin(), meeting.posted.end(),
            [](const Posted& a, const Posted& b) { return a.rank < b.rank; });
  std::vector<Exchange::Rank> ranks;
  for (const Posted& one : meeting.posted)
    ranks.push_back({&one.part, one.device});
  if (!meeting.differs) Exchange(std::move(ranks)).run();
  meeting.done = true;
  meeting.left = static_cast<int>(wanted);
}

void LocalClique::run(int rank, int device,
                      const std::vector<std::pair<Key, Part>>& parts,
                      const std::function<bool()>& gone) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (gone()) return;
  for (const auto& [key, part] : parts) post(key, {part, rank, device});
  changed_.notify_all();
  changed_.wait(lock, [&] {
    return gone() ||
           std::all_of(parts.begin(), parts.end(), [this](const auto& part) {
             return meetings_[part.first].done;
           });
  });
  for (const auto& part : parts) {
    Meeting& meeting = meetings_[part.first];
    if (meeting.done) {
      if (--meeting.left == 0) meetings_.erase(part.first);
      continue;
    }
    // Nobody may touch the memory of a rank that has gone.
    meeting.posted.erase(
        std::remove_if(meeting.posted.begin(), meeting.posted.end(),
                       [rank](const Posted& one) { return one.rank == rank; }),
        meeting.posted.end());
  }
}

bool LocalClique::add_window(uint64_t number, int rank, int device, char* at,
                             size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  windows_[{number, rank}] = {device, at, bytes};
  for (const auto& [key, part] : windows_)
    if (key.first == number && part.bytes != bytes)
      gpu::broken("a window of another size",
                  "rank " + std::to_string(key.second) + " has " +
                      std::to_string(part.bytes) + " bytes, rank " +
                      std::to_string(rank) + " has " + std::to_string(bytes));
  return true;
}

void LocalClique::remove_window(uint64_t number, int rank, bool by_abort) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (by_abort)
    windows_[{number, rank}].at = nullptr;
  else
    windows_.erase({number, rank});
}

void LocalClique::run_one_sided(int rank, int device, const Part& part,
                                const std::function<bool()>& gone) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (gone()) return;
  if (part.kind == Kind::kWaitSignal) {
    size_t& here = signals_[{part.peer, rank}];
    changed_.wait(lock, [&] { return gone() || here >= part.count; });
    if (here >= part.count) here -= part.count;
    return;
  }
  if (part.kind == Kind::kPut) {
    const auto target = windows_.find({part.window, part.peer});
    if (target == windows_.end())
      return gpu::broken(
          "put to a window that has ended",
          "rank " + std::to_string(part.peer) + " has deregistered its part");
    if (target->second.at == nullptr) return;
    const size_t bytes = part.count * bytes_of(part.type);
    if (part.offset + bytes > target->second.bytes)
      return gpu::broken("put beyond the window",
                         "offset " + std::to_string(part.offset));
    std::memcpy(
        reach(target->second.device, target->second.at + part.offset, bytes),
        reach(device, part.in, bytes), bytes);
  }
  ++signals_[{rank, part.peer}];
  changed_.notify_all();
}

}  // namespace fakes::nccl
