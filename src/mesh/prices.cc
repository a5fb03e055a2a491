// The prices of collectives on a mesh, measured on request.
#include "base/error.h"
#include "base/exceptions.h"
#include "distwrap/deadline.h"
#include "distwrap/distwrap.h"
#include "distwrap/mesh.h"
#include "facade/binding.h"
#include "group/group_state.h"
#include "mesh/mesh_state.h"

#include <absl/functional/function_ref.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace distwrap {
namespace {

constexpr char kCall[] = "DeviceMesh::measure_prices";
// The key of the job's prices in the store.
constexpr char kKey[] = "plan_prices";
constexpr absl::Duration kStoreLimit = absl::Seconds(30);
// Bytes that a rank gets in a short and in a long exchange.
constexpr int64_t kShort = 1024, kLong = int64_t{1} << 20;
constexpr int kTimesInTurn = 4, kMostTurns = 64;
constexpr int64_t kLeastPrice = 1, kMostPrice = 1'000'000;

absl::Status refuse(Reason reason, std::string what, std::string next_step) {
  return base::make_error({.reason = reason,
                           .what = std::move(what),
                           .op = kCall,
                           .next_step = std::move(next_step)});
}

std::string text_of(const PlanPrices& prices) {
  return absl::StrCat(prices.begin, ",", prices.near, ",", prices.far, ",",
                      prices.copy);
}

absl::StatusOr<PlanPrices> prices_of(absl::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  PlanPrices prices;
  int64_t* const all[] = {&prices.begin, &prices.near, &prices.far,
                          &prices.copy};
  bool reads = words.size() == std::size(all);
  for (size_t i = 0; reads && i < words.size(); ++i)
    reads = absl::SimpleAtoi(words[i], all[i]) && *all[i] >= kLeastPrice;
  if (reads) return prices;
  return refuse(Reason::kInvalidArgument,
                "the store has something else under the key of the prices",
                "let no program write keys of the group");
}

// The shortest time of a call, which all ranks of the group make equally often:
// until the limit has passed at the group's first rank.
absl::StatusOr<int64_t> shortest_ns(const Group& group, absl::Duration limit,
                                    absl::FunctionRef<absl::Status()> call) {
  const Deadline until = Deadline::after(limit);
  int64_t shortest = INT64_MAX;
  int32_t goes_on = 1;
  for (int turn = 0; goes_on != 0; ++turn) {
    for (int i = 0; i < kTimesInTurn; ++i) {
      const int64_t began = Deadline::now_ns();
      if (absl::Status status = call(); !status.ok()) return status;
      shortest = std::min(shortest, Deadline::now_ns() - began);
    }
    goes_on = turn + 1 < kMostTurns && !until.passed() ? 1 : 0;
    const absl::Status status =
        broadcast(TensorView(&goes_on, 1), Peer::group(0), {.group = group})
            .status();
    if (!status.ok()) return status;
  }
  return shortest;
}

// The time to begin an exchange of all ranks of a group, and for 1,024 bytes
// that each of them gets.
struct LinkTimes {
  int64_t begin, kib;
};

absl::StatusOr<LinkTimes> time_exchanges(const Group& group,
                                         absl::Duration limit) {
  const int64_t others = group.size() - 1;
  int64_t times[2], got[2];
  for (const int which : {0, 1}) {
    const int64_t piece =
        std::max<int64_t>(1, (which == 0 ? kShort : kLong) / others);
    got[which] = piece * others;
    std::vector<uint8_t> in(static_cast<size_t>(piece * group.size()), 1),
        out(in.size());
    const absl::StatusOr<int64_t> ns = shortest_ns(group, limit / 2, [&] {
      return all_to_all_single(TensorView(out), TensorView(in), {}, {},
                               {.group = group})
          .status();
    });
    if (!ns.ok()) return ns.status();
    times[which] = *ns;
  }
  return LinkTimes{times[0], (times[1] - times[0]) * 1024 / (got[1] - got[0])};
}

int64_t time_copies(absl::Duration limit) {
  const Deadline until = Deadline::after(limit);
  std::vector<uint8_t> from(static_cast<size_t>(kLong), 1), to(from.size());
  int64_t shortest = INT64_MAX;
  for (int turn = 0; turn == 0 || (turn < kMostTurns && !until.passed());
       ++turn) {
    const int64_t began = Deadline::now_ns();
    std::memcpy(to.data(), from.data(), from.size());
    shortest = std::min(shortest, Deadline::now_ns() - began);
    from[static_cast<size_t>(turn)] = to[static_cast<size_t>(turn) + 1];
  }
  return shortest * 1024 / kLong;
}

// The figures of this rank, with all others.
absl::StatusOr<PlanPrices> measure(mesh::MeshState& mesh,
                                   const std::vector<int32_t>& host_of,
                                   absl::Duration limit) {
  const auto host = [&](int rank) {
    return host_of[static_cast<size_t>(rank)];
  };
  const int me = mesh.ranks()[static_cast<size_t>(mesh.rank())];
  std::vector<int> near, far;
  for (const int rank : mesh.ranks())
    if (host(rank) == host(me)) near.push_back(rank);
  // With the ranks of this one's place on the other hosts.
  const int64_t per_host = mesh.ranks_per_host();
  if (per_host != 0)
    for (int64_t place = mesh.rank() % per_host;
         place < static_cast<int64_t>(mesh.ranks().size()); place += per_host)
      far.push_back(mesh.ranks()[static_cast<size_t>(place)]);
  PlanPrices prices;
  const auto bounded = [](int64_t price) {
    return std::clamp(price, kLeastPrice, kMostPrice);
  };
  const auto time = [&](const std::vector<int>& ranks, const char* what,
                        int64_t sharing, int64_t* kib) -> absl::Status {
    if (ranks.size() < 2) return absl::OkStatus();
    const absl::StatusOr<Group> group = mesh.group_of(ranks, what);
    if (!group.ok()) return group.status();
    const absl::StatusOr<LinkTimes> times = time_exchanges(*group, limit / 3);
    if (!times.ok()) return times.status();
    prices.begin = bounded(times->begin);
    *kib = bounded(times->kib / sharing);
    return absl::OkStatus();
  };
  // All ranks of a host share its network. An exchange on a host is the one
  // whose begin counts, where there is one.
  absl::Status status = time(far, "mesh, between hosts",
                             std::max<int64_t>(1, per_host), &prices.far);
  if (status.ok()) status = time(near, "mesh, on a host", 1, &prices.near);
  if (!status.ok()) return status;
  prices.copy = bounded(time_copies(limit / 3));
  return prices;
}

}  // namespace

absl::StatusOr<PlanPrices> DeviceMesh::measure_prices(
    absl::Duration limit) const try {
  if (state_ == nullptr || rank() < 0)
    return refuse(Reason::kMeshMismatch, "this rank is not in the mesh",
                  "make the call on the mesh's ranks alone");
  if (size() < 2)
    return refuse(Reason::kMeshShape, "a mesh of one rank has nothing to send",
                  "measure on a mesh of two ranks or more");
  if (limit <= absl::ZeroDuration())
    return refuse(Reason::kInvalidArgument, "the limit is not positive",
                  "give the time that measuring may take");
  const std::shared_ptr<group::GroupState> world = facade::kept_group_of({});
  if (world == nullptr)
    return refuse(Reason::kNotInitialized, "the session has ended",
                  "measure before it is closed");
  const std::string key = world->key(kKey);
  const absl::StatusOr<Group> all =
      state_->group_of(state_->ranks(), "mesh, all ranks");
  if (!all.ok()) return all.status();
  const auto tell = [&](int64_t* values, int64_t count) {
    return broadcast(TensorView(values, count), Peer::group(0), {.group = *all})
        .status();
  };
  // The first rank alone uses the store, and the others follow it.
  const bool leads = rank() == 0;
  const auto in_store = [&](const std::string& text) {
    return world->store()->compare_set(key, "", text,
                                       Deadline::after(kStoreLimit));
  };
  absl::StatusOr<std::string> text = std::string();
  if (leads) text = in_store("");
  int64_t measures = leads && text.ok() && text->empty() ? 1 : 0;
  absl::Status status = tell(&measures, 1);
  if (!status.ok()) return status;
  if (measures != 0) {
    const absl::StatusOr<PlanPrices> mine =
        measure(*state_, world->host_of(), limit);
    if (!mine.ok()) return mine.status();
    // Another mesh may have measured meanwhile: the first one counts.
    if (leads) text = in_store(text_of(*mine));
  }
  absl::StatusOr<PlanPrices> prices =
      text.ok() ? prices_of(*text) : text.status();
  int64_t values[] = {0, 0, 0, 0};
  if (leads && prices.ok()) {
    values[0] = prices->begin;
    values[1] = prices->near;
    values[2] = prices->far;
    values[3] = prices->copy;
  }
  status = tell(values, std::size(values));
  if (!status.ok()) return status;
  if (values[0] == 0)
    return leads ? prices.status()
                 : refuse(Reason::kStoreUnreachable,
                          "the first rank of the mesh has no prices",
                          "look at that rank's own error");
  prices = PlanPrices{values[0], values[1], values[2], values[3]};
  state_->set_prices(*prices);
  return prices;
} catch (...) {
  return base::error_of_exception(kCall);
}

}  // namespace distwrap
