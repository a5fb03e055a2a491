#include "bench/replay/play.h"

#include "comm/op_shape.h"
#include "distwrap/abi/types.h"
#include "distwrap/deadline.h"
#include "distwrap/distwrap.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

namespace distwrap::bench {
namespace {

constexpr size_t kKinds = comm::kOpKinds;
constexpr int64_t kReportEveryNs = 5'000'000'000;

// The buffers of a call, kept while it runs.
struct Buffers {
  std::unique_ptr<std::byte[]> in, out;
  TensorView in_view, out_view;
};

Buffers buffers_of(const ReplayCall& call) {
  Buffers buffers;
  const auto make = [&](int64_t count, std::unique_ptr<std::byte[]>* memory) {
    if (count == 0) return TensorView(nullptr, 0, call.dtype);
    const auto bytes = static_cast<size_t>(count) *
                       static_cast<size_t>(dtype_size(call.dtype));
    memory->reset(new std::byte[bytes]);
    std::memset(memory->get(), 0, bytes);
    return TensorView(memory->get(), count, call.dtype);
  };
  buffers.in_view = make(call.in, &buffers.in);
  buffers.out_view = make(call.out, &buffers.out);
  return buffers;
}

absl::StatusOr<Work> begin(const ReplayCall& call, const Group& group,
                           const Buffers& buffers) {
  const OpOptions how{.group = group, .async = call.async};
  const TensorView &in = buffers.in_view, &out = buffers.out_view;
  const Peer peer = Peer::group(call.peer);
  switch (call.kind) {
    case DW_OP_BARRIER:
      return barrier(how);
    case DW_OP_BROADCAST:
      return broadcast(out, in, peer, how);
    case DW_OP_REDUCE:
      return reduce(out, in, peer, call.reduce, how);
    case DW_OP_ALL_REDUCE:
      return all_reduce(out, in, call.reduce, how);
    case DW_OP_SCAN:
      return scan(out, in, call.reduce, how);
    case DW_OP_GATHER:
      return call.out_pieces.empty()
                 ? gather_into_tensor(out, in, peer, {}, how)
                 : gather_into_tensor(out, in, peer, call.out_pieces, how);
    case DW_OP_SCATTER:
      return call.in_pieces.empty()
                 ? scatter_tensor(out, in, peer, {}, how)
                 : scatter_tensor(out, in, peer, call.in_pieces, how);
    case DW_OP_ALL_GATHER:
      return call.out_pieces.empty()
                 ? all_gather_into_tensor(out, in, how)
                 : all_gather_v(out, in, call.out_pieces, how);
    case DW_OP_REDUCE_SCATTER:
      return call.in_pieces.empty()
                 ? reduce_scatter_tensor(out, in, call.reduce, how)
                 : reduce_scatter_v(out, in, call.in_pieces, call.reduce, how);
    case DW_OP_ALL_TO_ALL:
      return call.in_pieces.empty()
                 ? all_to_all_single(out, in, {}, {}, how)
                 : all_to_all_single(out, in, call.out_pieces, call.in_pieces,
                                     how);
    case DW_OP_SEND:
      if (call.async) return isend(in, peer, call.tag, how);
      if (absl::Status sent = send(in, peer, call.tag, how); !sent.ok())
        return sent;
      return Work();
    default:
      if (call.async) return irecv(out, peer, call.tag, how);
      if (absl::Status got = recv(out, peer, call.tag, how).status(); !got.ok())
        return got;
      return Work();
  }
}

absl::StatusOr<std::vector<Group>> make_groups(const ReplayScript& script) {
  std::vector<Group> groups;
  for (const ReplayGroup& group : script.groups) {
    absl::StatusOr<Group> made =
        split_group({.split_ranks = {group.ranks}, .group_desc = group.name});
    if (!made.ok()) return made.status();
    groups.push_back(*std::move(made));
  }
  return groups;
}

class Player {
 public:
  Player(const ReplayScript& script, std::vector<Group> groups, int repeat)
      : calls_(script.ranks[static_cast<size_t>(get_rank())]),
        groups_(std::move(groups)),
        all_(calls_.size() * static_cast<size_t>(repeat)) {}

  absl::Status once() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      const ReplayCall& call = calls_[i];
      for (const size_t earlier : call.awaits)
        if (absl::Status ended = await(earlier); !ended.ok()) return ended;
      Buffers buffers = buffers_of(call);
      const int64_t start = Deadline::now_ns();
      absl::StatusOr<Work> work = begin(call, groups_[call.group], buffers);
      spent_[call.kind] += static_cast<double>(Deadline::now_ns() - start);
      if (!work.ok()) return work.status();
      made_[call.kind] += 1;
      bytes_[call.kind] +=
          static_cast<double>((call.in + call.out) * dtype_size(call.dtype));
      if (call.async)
        open_.emplace(i, Open{*std::move(work), std::move(buffers)});
      report();
    }
    while (!open_.empty())
      if (absl::Status ended = await(open_.begin()->first); !ended.ok())
        return ended;
    return absl::OkStatus();
  }

  std::vector<double>& spent() { return spent_; }
  std::vector<double>& made() { return made_; }
  std::vector<double>& bytes() { return bytes_; }

 private:
  struct Open {
    Work work;
    Buffers buffers;
  };

  absl::Status await(size_t earlier) {
    const auto open = open_.find(earlier);
    if (open == open_.end()) return absl::OkStatus();
    const int64_t start = Deadline::now_ns();
    const absl::Status ended = open->second.work.wait();
    spent_[calls_[earlier].kind] +=
        static_cast<double>(Deadline::now_ns() - start);
    open_.erase(open);
    return ended;
  }

  // Prints the progress for people.
  void report() {
    ++done_;
    if (get_rank() != 0) return;
    const int64_t now = Deadline::now_ns();
    if (now < next_report_) return;
    if (next_report_ != 0)
      std::fprintf(stderr, "%zu of %zu calls\n", done_, all_);
    next_report_ = now + kReportEveryNs;
  }

  const std::vector<ReplayCall>& calls_;
  const std::vector<Group> groups_;
  const size_t all_;
  std::map<size_t, Open> open_;
  size_t done_ = 0;
  int64_t next_report_ = 0;
  std::vector<double> spent_ = std::vector<double>(kKinds),
                      made_ = std::vector<double>(kKinds),
                      bytes_ = std::vector<double>(kKinds);
};

}  // namespace

absl::StatusOr<ReplayTimes> play(const ReplayScript& script, int repeat) {
  if (script.size() != get_world_size())
    return absl::InvalidArgumentError("the job has another number of ranks");
  absl::StatusOr<std::vector<Group>> groups = make_groups(script);
  if (!groups.ok()) return groups.status();
  Player player(script, *std::move(groups), repeat);
  if (absl::Status met = barrier().status(); !met.ok()) return met;
  const int64_t start = Deadline::now_ns();
  for (int i = 0; i < repeat; ++i)
    if (absl::Status played = player.once(); !played.ok()) return played;
  double total = static_cast<double>(Deadline::now_ns() - start) / 1e3;
  std::vector<double> slowest = player.spent();
  for (auto* sums : {&player.spent(), &player.made(), &player.bytes()})
    if (absl::Status s = all_reduce(TensorView(*sums)).status(); !s.ok())
      return s;
  for (const TensorView view : {TensorView(slowest), TensorView(&total, 1)})
    if (absl::Status s = all_reduce(view, ReduceOp::kMax).status(); !s.ok())
      return s;
  ReplayTimes times;
  times.total_us = total;
  for (uint16_t kind = 1; kind < kKinds; ++kind) {
    const double made = player.made()[kind];
    if (made == 0) continue;
    times.rows.push_back({.op = comm::op_shape(kind).name,
                          .calls = static_cast<int64_t>(made),
                          .bytes = static_cast<int64_t>(player.bytes()[kind]),
                          .slowest_us = slowest[kind] / 1e3,
                          .mean_us = player.spent()[kind] / made / 1e3});
  }
  return times;
}

}  // namespace distwrap::bench
