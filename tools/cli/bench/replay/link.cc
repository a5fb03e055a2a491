// Matches the calls of a script with those of the other ranks.
#include "bench/replay/script.h"
#include "comm/op_shape.h"
#include "distwrap/abi/types.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

namespace distwrap::bench {
namespace {

using comm::Extent;
using comm::op_shape;

absl::Status refuse(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

// The position of a call.
struct Place {
  int rank;
  size_t index;
};

class Link {
 public:
  Link(ReplayScript* script, bool cut) : script_(*script), cut_(cut) {
    for (const auto& calls : script_.ranks)
      gone_.emplace_back(calls.size(), false);
  }

  absl::Status run() {
    if (absl::Status status = check_groups(); !status.ok()) return status;
    for (int rank = 0; rank < script_.size(); ++rank)
      for (size_t i = 0; i < calls(rank).size(); ++i)
        if (absl::Status status = check_call(calls(rank)[i]); !status.ok())
          return status;
    for (size_t group = 0; group < script_.groups.size(); ++group)
      if (absl::Status status = link_collectives(group); !status.ok())
        return status;
    if (absl::Status status = link_messages(); !status.ok()) return status;
    leave_out();
    return absl::OkStatus();
  }

 private:
  std::vector<ReplayCall>& calls(int rank) {
    return script_.ranks[static_cast<size_t>(rank)];
  }
  ReplayCall& at(const Place& place) { return calls(place.rank)[place.index]; }
  const ReplayGroup& group_of(const ReplayCall& call) const {
    return script_.groups[call.group];
  }

  absl::Status check_groups() const {
    for (const ReplayGroup& group : script_.groups) {
      const std::set<int> ranks(group.ranks.begin(), group.ranks.end());
      if (group.ranks.empty() || ranks.size() != group.ranks.size() ||
          *ranks.begin() < 0 || *ranks.rbegin() >= script_.size())
        return refuse(absl::StrCat("the ranks of group '", group.name,
                                   "' are no ranks of a job of ",
                                   script_.size()));
    }
    return absl::OkStatus();
  }

  absl::Status check_call(const ReplayCall& call) const {
    if (call.group >= script_.groups.size())
      return refuse("a call is made on a group that is not known");
    const int size = static_cast<int>(group_of(call).ranks.size());
    const auto what = [&] { return describe(script_, call); };
    if (call.in < 0 || call.out < 0 ||
        call.in > kMostReplayBytes / dtype_size(call.dtype) ||
        call.out > kMostReplayBytes / dtype_size(call.dtype))
      return refuse(absl::StrCat(what(), ": a buffer is larger than ",
                                 kMostReplayBytes >> 30, " GiB"));
    const comm::OpShape& shape = op_shape(call.kind);
    if (shape.peer != comm::PeerRole::NO &&
        (call.peer < 0 || call.peer >= size))
      return refuse(
          absl::StrCat(what(), ": rank ", call.peer, " is not in the group"));
    for (const auto* pieces : {&call.in_pieces, &call.out_pieces}) {
      if (pieces->empty()) continue;
      int64_t sum = 0;
      for (const int64_t piece : *pieces) {
        if (piece < 0 || piece > kMostReplayBytes) sum = -1;
        if (sum >= 0) sum += piece;
      }
      if (static_cast<int>(pieces->size()) != size ||
          sum != (pieces == &call.in_pieces ? call.in : call.out))
        return refuse(absl::StrCat(what(), ": the pieces do not fit"));
    }
    return absl::OkStatus();
  }

  // Links the k-th collective of all members, which is one call.
  absl::Status link_collectives(size_t group) {
    const std::vector<int>& members = script_.groups[group].ranks;
    std::vector<std::vector<Place>> made(members.size());
    for (size_t m = 0; m < members.size(); ++m)
      for (size_t i = 0; i < calls(members[m]).size(); ++i) {
        const ReplayCall& call = calls(members[m])[i];
        if (call.group == group && op_shape(call.kind).collective())
          made[m].push_back({members[m], i});
      }
    size_t least = made[0].size(), most = least;
    for (const auto& own : made) {
      least = std::min(least, own.size());
      most = std::max(most, own.size());
    }
    if (least != most) {
      if (!cut_) {
        for (size_t m = 0; m < made.size(); ++m)
          if (made[m].size() == least)
            return refuse(absl::StrCat(
                "rank ", members[m], " made ", least, " collectives on '",
                script_.groups[group].name, "', others ", most));
      }
      for (auto& own : made) {
        for (size_t i = 0; i + least < own.size(); ++i) drop(own[i]);
        own.erase(own.begin(), own.end() - static_cast<std::ptrdiff_t>(least));
      }
    }
    for (size_t k = 0; k < least; ++k) {
      std::vector<Place> together;
      together.reserve(made.size());
      for (const auto& own : made) together.push_back(own[k]);
      if (absl::Status status = link_one(together); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status link_one(const std::vector<Place>& together) {
    const ReplayCall& first = at(together[0]);
    for (const Place& place : together) {
      const ReplayCall& call = at(place);
      if (call.kind != first.kind || call.reduce != first.reduce ||
          call.peer != first.peer ||
          (call.dtype != first.dtype && first.kind != DW_OP_BARRIER))
        return refuse(
            absl::StrCat("ranks make different calls at one time: rank ",
                         together[0].rank, " ", describe(script_, first),
                         ", rank ", place.rank, " ", describe(script_, call)));
    }
    const auto size = static_cast<int64_t>(together.size());
    std::vector<int64_t> ins, outs;
    for (const Place& place : together) {
      ins.push_back(at(place).in);
      outs.push_back(at(place).out);
    }
    const auto equal = [](const std::vector<int64_t>& all) {
      return std::adjacent_find(all.begin(), all.end(),
                                std::not_equal_to<>()) == all.end();
    };
    const auto sum = [](const std::vector<int64_t>& all) {
      int64_t total = 0;
      for (const int64_t one : all) total += one;
      return total;
    };
    const auto wrong = [&] {
      return refuse(absl::StrCat("the sizes of the ranks do not fit: ",
                                 describe(script_, first)));
    };
    switch (first.kind) {
      case DW_OP_BARRIER:
        return absl::OkStatus();
      case DW_OP_ALL_REDUCE:
      case DW_OP_SCAN:
        return equal(ins) && ins == outs ? absl::OkStatus() : wrong();
      case DW_OP_BROADCAST:
        return equal(outs) ? absl::OkStatus() : wrong();
      case DW_OP_REDUCE:
        return equal(ins) ? absl::OkStatus() : wrong();
      case DW_OP_GATHER:
      case DW_OP_ALL_GATHER:
        for (const Place& place : together) {
          ReplayCall& call = at(place);
          const bool has =
              first.kind == DW_OP_ALL_GATHER ||
              script_.groups[call.group]
                      .ranks[static_cast<size_t>(call.peer)] == place.rank;
          if (has && call.out != sum(ins)) return wrong();
          if (!equal(ins)) call.out_pieces = ins;
        }
        return absl::OkStatus();
      case DW_OP_SCATTER:
      case DW_OP_REDUCE_SCATTER:
        for (const Place& place : together) {
          ReplayCall& call = at(place);
          const bool has =
              first.kind == DW_OP_REDUCE_SCATTER ||
              script_.groups[call.group]
                      .ranks[static_cast<size_t>(call.peer)] == place.rank;
          if (has && call.in != sum(outs)) return wrong();
          if (!equal(outs)) call.in_pieces = outs;
        }
        return absl::OkStatus();
      case DW_OP_ALL_TO_ALL:
        return link_exchange(together, equal(ins) && equal(outs) &&
                                           ins == outs && ins[0] % size == 0);
      default:
        return refuse(
            absl::StrCat("cannot be replayed: ", describe(script_, first)));
    }
  }

  // Uses the recorded pieces where they are known, and equal ones otherwise.
  absl::Status link_exchange(const std::vector<Place>& together, bool even) {
    bool known = true, some = false;
    for (const Place& place : together) {
      const bool in = !at(place).in_pieces.empty();
      const bool out = !at(place).out_pieces.empty();
      known = known && in && out;
      some = some || in || out;
    }
    if (known) {
      for (size_t i = 0; i < together.size(); ++i)
        for (size_t j = 0; j < together.size(); ++j)
          if (at(together[i]).in_pieces[j] != at(together[j]).out_pieces[i])
            return refuse(absl::StrCat("rank ", together[i].rank,
                                       " sends rank ", together[j].rank,
                                       " what it does not expect: ",
                                       describe(script_, at(together[i]))));
      return absl::OkStatus();
    }
    if (even && !some) return absl::OkStatus();
    int64_t most = 0;
    for (const Place& place : together)
      most = std::max({most, at(place).in, at(place).out});
    const auto size = static_cast<int64_t>(together.size());
    const int64_t all = (most + size - 1) / size * size;
    for (const Place& place : together) {
      ReplayCall& call = at(place);
      call.in = call.out = all;
      call.in_pieces.clear();
      call.out_pieces.clear();
    }
    note(
        "all_to_all with uneven pieces, which recordings do not tell, is "
        "replayed with equal ones");
    return absl::OkStatus();
  }

  absl::Status link_messages() {
    // By group, sender, receiver (ranks of the world) and tag.
    using Key = std::tuple<size_t, int, int, int64_t>;
    std::map<Key, std::deque<Place>> sent, received;
    for (int rank = 0; rank < script_.size(); ++rank)
      for (size_t i = 0; i < calls(rank).size(); ++i) {
        const ReplayCall& call = calls(rank)[i];
        if (op_shape(call.kind).collective()) continue;
        const int other = group_of(call).ranks[static_cast<size_t>(call.peer)];
        if (call.kind == DW_OP_SEND)
          sent[{call.group, rank, other, call.tag}].push_back({rank, i});
        else
          received[{call.group, other, rank, call.tag}].push_back({rank, i});
      }
    std::set<Key> keys;
    for (const auto& [key, places] : sent) keys.insert(key);
    for (const auto& [key, places] : received) keys.insert(key);
    for (const Key& key : keys) {
      std::deque<Place>&from = sent[key], &to = received[key];
      if (from.size() != to.size() && !cut_)
        return refuse(absl::StrCat(
            "rank ", std::get<1>(key), " sends rank ", std::get<2>(key), " ",
            from.size(), " messages with tag ", std::get<3>(key), " on '",
            script_.groups[std::get<0>(key)].name, "', which receives ",
            to.size()));
      for (auto* longer : {&from, &to})
        while (longer->size() > std::min(from.size(), to.size())) {
          drop(longer->front());
          longer->pop_front();
        }
      for (size_t i = 0; i < from.size(); ++i)
        if (at(from[i]).in != at(to[i]).out ||
            at(from[i]).dtype != at(to[i]).dtype)
          return refuse(absl::StrCat("rank ", from[i].rank, " sends ",
                                     describe(script_, at(from[i])), ", rank ",
                                     to[i].rank, " expects ",
                                     describe(script_, at(to[i]))));
    }
    return absl::OkStatus();
  }

  void drop(const Place& place) {
    gone_[static_cast<size_t>(place.rank)][place.index] = true;
    ++dropped_;
  }

  void note(std::string text) {
    if (std::find(script_.notes.begin(), script_.notes.end(), text) ==
        script_.notes.end())
      script_.notes.push_back(std::move(text));
  }

  void leave_out() {
    if (dropped_ == 0) return;
    for (int rank = 0; rank < script_.size(); ++rank) {
      const std::vector<bool>& gone = gone_[static_cast<size_t>(rank)];
      std::vector<size_t> now(gone.size(), 0);
      std::vector<ReplayCall> kept;
      for (size_t i = 0; i < gone.size(); ++i) {
        if (gone[i]) continue;
        now[i] = kept.size();
        ReplayCall call = std::move(calls(rank)[i]);
        std::vector<size_t> awaits;
        for (const size_t earlier : call.awaits)
          if (!gone[earlier]) awaits.push_back(now[earlier]);
        call.awaits = std::move(awaits);
        kept.push_back(std::move(call));
      }
      calls(rank) = std::move(kept);
    }
    note(absl::StrCat(dropped_,
                      " calls, at the edges of what was kept, have no "
                      "counterpart and are left out"));
  }

  ReplayScript& script_;
  const bool cut_;
  std::vector<std::vector<bool>> gone_;
  size_t dropped_ = 0;
};

}  // namespace

absl::Status link(ReplayScript* script, bool cut) {
  if (script->ranks.empty() || script->size() > kMostReplayRanks)
    return refuse(absl::StrCat(script->size(), " ranks; 1 to ",
                               kMostReplayRanks, " can be replayed"));
  for (const auto& calls : script->ranks)
    if (calls.size() > kMostReplayCalls)
      return refuse(
          absl::StrCat("a rank has more than ", kMostReplayCalls, " calls"));
  return Link(script, cut).run();
}

std::string describe(const ReplayScript& script, const ReplayCall& call) {
  const comm::OpShape& shape = op_shape(call.kind);
  std::string text = shape.name;
  if (call.kind != DW_OP_BARRIER)
    absl::StrAppend(&text, " ", dtype_name(call.dtype), " x ",
                    std::max(call.in, call.out));
  if (shape.reduces()) absl::StrAppend(&text, " ", reduce_op_name(call.reduce));
  if (shape.peer == comm::PeerRole::ROOT)
    absl::StrAppend(&text, " root ", call.peer);
  if (shape.peer == comm::PeerRole::PEER)
    absl::StrAppend(&text, call.kind == DW_OP_SEND ? " to " : " from ",
                    call.peer, " tag ", call.tag);
  if (call.group < script.groups.size())
    absl::StrAppend(&text, " on '", script.groups[call.group].name, "'");
  return text;
}

}  // namespace distwrap::bench
