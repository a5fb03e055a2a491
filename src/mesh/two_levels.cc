// Steps in two levels: among the ranks of a host, and between hosts.
//
// Ranks that share a host reduce what they have before any of it leaves the
// host; and where all of them need the same, each fetches a share of it, which
// it hands to the others. So every value comes to a host once. This is what the
// hierarchical collectives of NCCL and of MPI libraries do.
#include "distwrap/distwrap.h"
#include "layout/peers.h"
#include "mesh/prepared.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace distwrap::mesh {
namespace {

using Kind = PlanStep::Kind;
using layout::Coordinates;

int64_t sum(absl::Span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

absl::StatusOr<Prepared::Levels> Prepared::make_levels(const DeviceMesh& mesh,
                                                       const PlanStep& step) {
  Levels levels;
  absl::StatusOr<Group> near = mesh.group_along(step.near);
  if (!near.ok()) return near.status();
  levels.near = *std::move(near);
  if (step.kind == Kind::kAllReduce || step.kind == Kind::kReduceScatter) {
    std::vector<int> others = step.axes;
    for (const int axis : step.near) std::erase(others, axis);
    absl::StatusOr<Group> far = mesh.group_along(others);
    if (!far.ok()) return far.status();
    levels.far = *std::move(far);
  }
  const Coordinates at(mesh.shape().sizes);
  const auto place_of = [&](int64_t rank) {
    int64_t place = 0;
    for (const int axis : step.near)
      place = place * at.size(axis) + at.of(rank, axis);
    return place;
  };
  for (const int axis : step.near) levels.ranks *= at.size(axis);
  levels.place = place_of(mesh.rank());
  layout::each_member(at, mesh.rank(), step.axes, [&](int64_t member) {
    levels.places.push_back(place_of(member));
  });
  return levels;
}

absl::Status Prepared::run_levels(const Step& step, std::byte* const* to,
                                  const std::byte* const* from,
                                  const Staging& staging,
                                  std::optional<absl::Duration> timeout) const {
  const Deadline deadline =
      timeout.has_value() ? Deadline::after(*timeout) : Deadline::never();
  for (Share share{0, step.rounds}; share.number < share.parts;
       ++share.number) {
    if (timeout.has_value() && share.number != 0)
      timeout = std::max(deadline.remaining(), absl::Nanoseconds(1));
    const OpOptions options = {.timeout = timeout, .label = step.label};
    absl::Status status;
    switch (step.kind) {
      case Kind::kAllReduce:
        status = reduce_in_levels(step, share, to, from, staging, options);
        break;
      case Kind::kReduceScatter:
        status = scatter_in_levels(step, share, to, from, staging, options);
        break;
      default:
        status = fetch_in_levels(step, share, to, from, staging, options);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorView> Prepared::reduce_on_host(
    const Step& step, Share share, const std::byte* const* from,
    std::vector<int64_t> counts, const Staging& staging,
    OpOptions options) const {
  step.send.pack(staging.pieces(), from, size_, share);
  const TensorView all = view(staging.pieces(), sum(counts));
  const TensorView mine =
      view(staging.middle(), counts[static_cast<size_t>(step.levels.place)]);
  options.group = step.levels.near;
  absl::Status status =
      reduce_scatter_v(mine, all, elements(std::move(counts)), step.op, options)
          .status();
  if (!status.ok()) return status;
  return mine;
}

// The ranks of a host each reduce a share, over the hosts as well, and gather
// the shares.
absl::Status Prepared::reduce_in_levels(const Step& step, Share share,
                                        std::byte* const* to,
                                        const std::byte* const* from,
                                        const Staging& staging,
                                        OpOptions options) const {
  const int64_t count = step.send.total(share);
  std::vector<int64_t> shares;
  for (Share one{0, step.levels.ranks}; one.number < one.parts; ++one.number)
    shares.push_back(one.end(count) - one.begin(count));
  const absl::StatusOr<TensorView> mine =
      reduce_on_host(step, share, from, shares, staging, options);
  if (!mine.ok()) return mine.status();
  options.group = step.levels.far;
  absl::Status status = all_reduce(*mine, *mine, step.op, options).status();
  if (!status.ok()) return status;
  options.group = step.levels.near;
  status = all_gather_v(view(staging.parts(), count), *mine,
                        elements(std::move(shares)), options)
               .status();
  if (status.ok()) step.receive.unpack(staging.parts(), to, size_, share);
  return status;
}

// A rank reduces with its host what the ranks of its place on all hosts want,
// and with these its own.
absl::Status Prepared::scatter_in_levels(const Step& step, Share share,
                                         std::byte* const* to,
                                         const std::byte* const* from,
                                         const Staging& staging,
                                         OpOptions options) const {
  // The members are in the order of the host's ranks.
  const std::vector<int64_t> counts = step.send.counts(share);
  const size_t hosts = counts.size() / static_cast<size_t>(step.levels.ranks);
  const auto of_place = [&](size_t place) {
    return absl::MakeConstSpan(counts).subspan(place * hosts, hosts);
  };
  std::vector<int64_t> by_place;
  for (size_t place = 0; place * hosts < counts.size(); ++place)
    by_place.push_back(sum(of_place(place)));
  const absl::StatusOr<TensorView> mine =
      reduce_on_host(step, share, from, std::move(by_place), staging, options);
  if (!mine.ok()) return mine.status();
  const auto own = of_place(static_cast<size_t>(step.levels.place));
  options.group = step.levels.far;
  absl::Status status =
      reduce_scatter_v(view(staging.parts(), step.receive.total(share)), *mine,
                       elements({own.begin(), own.end()}), step.op, options)
          .status();
  if (status.ok()) step.receive.unpack(staging.parts(), to, size_, share);
  return status;
}

// A rank fetches a share of each block, and gathers those of its host.
absl::Status Prepared::fetch_in_levels(const Step& step, Share share,
                                       std::byte* const* to,
                                       const std::byte* const* from,
                                       const Staging& staging,
                                       OpOptions options) const {
  const Levels& levels = step.levels;
  const auto of_place = [&](int64_t place) {
    return Share{share.number * levels.ranks + place,
                 share.parts * levels.ranks};
  };
  std::vector<Share> wanted;
  for (const int64_t place : levels.places) wanted.push_back(of_place(place));
  step.send.pack(staging.pieces(), from, size_, wanted);
  const std::vector<int64_t> sent = step.send.counts(wanted);
  const Share own = of_place(levels.place);
  const TensorView mine = view(staging.parts(), step.receive.total(own));
  options.group = step.group;
  absl::Status status =
      all_to_all_single(mine, view(staging.pieces(), sum(sent)),
                        elements(step.receive.counts(own)), elements(sent),
                        options)
          .status();
  if (!status.ok()) return status;
  std::vector<int64_t> shares;
  for (int64_t place = 0; place < levels.ranks; ++place)
    shares.push_back(step.receive.total(of_place(place)));
  options.group = levels.near;
  status = all_gather_v(view(staging.middle(), sum(shares)), mine,
                        elements(shares), options)
               .status();
  if (!status.ok()) return status;
  const std::byte* packed = staging.middle();
  for (int64_t place = 0; place < levels.ranks; ++place) {
    step.receive.unpack(packed, to, size_, of_place(place));
    packed += bytes(shares[static_cast<size_t>(place)]);
  }
  return absl::OkStatus();
}

}  // namespace distwrap::mesh
