// The exchange between two meshes, which may have all ranks in common, some or
// none.
#include "distwrap/distwrap.h"
#include "layout/peers.h"
#include "mesh/prepared.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace distwrap::mesh {
namespace {

using layout::Coordinates;
using layout::Regions;

// The layout with whole values where it has partial ones.
absl::StatusOr<const Layout*> without_partials(const Layout& layout) {
  if (!layout.is_partial()) return &layout;
  std::vector<Placement> placements = layout.placements();
  for (Placement& one : placements)
    if (one.kind == Placement::Kind::kPartial) one = Placement::replicate();
  return Layout::make(layout.mesh(), placements, layout.order());
}

// Chooses, among the ranks with equal parts, the one that gives the part to a
// rank of the other mesh: that rank itself where it is one of them, and
// otherwise one after the other.
class Givers {
 public:
  Givers(const Layout& layout, const std::vector<int>& ranks)
      : at_(layout.mesh().sizes), ranks_(ranks) {
    for (int a = 0; a < at_.axes(); ++a)
      if (layout.placements()[static_cast<size_t>(a)].kind !=
          Placement::Kind::kShard)
        replicated_.push_back(a);
  }

  // Calls f(place) for the giver of each part.
  template <class F>
  void each(int64_t taker, int takers_rank, const F& f) const {
    for (int64_t place = 0; place < at_.ranks(); ++place)
      if (is_first(place)) f(giver_of(place, taker, takers_rank));
  }

 private:
  // Whether no rank with this part comes before.
  bool is_first(int64_t place) const {
    return std::all_of(replicated_.begin(), replicated_.end(),
                       [&](int axis) { return at_.of(place, axis) == 0; });
  }
  int64_t giver_of(int64_t first, int64_t taker, int takers_rank) const {
    std::vector<int64_t> places;
    layout::each_member(at_, first, replicated_,
                        [&](int64_t place) { places.push_back(place); });
    for (const int64_t place : places)
      if (ranks_[static_cast<size_t>(place)] == takers_rank) return place;
    return places[static_cast<size_t>(taker) % places.size()];
  }

  const Coordinates at_;
  const std::vector<int>& ranks_;
  std::vector<int> replicated_;
};

// The ranks of both meshes: those of the first, then the others of the second.
std::vector<int> ranks_of_both(const std::vector<int>& first,
                               const std::vector<int>& second) {
  std::vector<int> all = first;
  for (const int rank : second)
    if (std::find(first.begin(), first.end(), rank) == first.end())
      all.push_back(rank);
  return all;
}

int64_t place_of(const std::vector<int>& ranks, int rank) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : found - ranks.begin();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Prepared>> Prepared::make_between(
    const DeviceMesh& to_mesh, const Layout& to, const DeviceMesh& from_mesh,
    const Layout& from, const std::vector<int64_t>& shape, DType dtype,
    std::optional<DType> wire, const PlanOptions& options) {
  const absl::StatusOr<const Layout*> given = without_partials(from);
  if (!given.ok()) return given.status();
  const absl::StatusOr<const Layout*> taken = without_partials(to);
  if (!taken.ok()) return taken.status();
  // Every rank plans on both meshes, so that all hear of what is impossible.
  const absl::StatusOr<PlanRef> before =
      make_plan(shape, dtype_size(dtype), from, **given, options);
  if (!before.ok()) return before.status();
  const absl::StatusOr<PlanRef> after =
      make_plan(shape, dtype_size(dtype), **taken, to, options);
  if (!after.ok()) return after.status();

  absl::StatusOr<WireForm> form = WireForm::make(**before, dtype, wire);
  // The exchange between the meshes sends, too.
  if (form.ok() && form->is_plain())
    form = WireForm::cast(dtype, wire.value_or(dtype));
  if (!form.ok()) return form.status();
  std::shared_ptr<Prepared> made(new Prepared(*form, from_mesh));
  made->meshes_.emplace_back(to_mesh.state());
  const bool gives = from_mesh.rank() >= 0, takes = to_mesh.rank() >= 0;
  made->in_counts_ = {gives ? Regions(from, shape).count(from_mesh.rank()) : 0};
  if (gives)
    if (absl::Status status = made->add_plans(from_mesh, {*before});
        !status.ok())
      return status;
  if (absl::Status status = made->add_exchange(
          to_mesh, **taken, from_mesh, **given, shape, options.cap_bytes);
      !status.ok())
    return status;
  if (takes)
    if (absl::Status status = made->add_plans(to_mesh, {*after}); !status.ok())
      return status;
  made->finish(absl::StrCat(
      made->form_text(), "\n", absl::StrJoin(shape, ","), "\n", from.text(),
      " on ", absl::StrJoin(from_mesh.ranks(), ","), "\n", to.text(), " on ",
      absl::StrJoin(to_mesh.ranks(), ",")));
  return made;
}

absl::Status Prepared::add_exchange(const DeviceMesh& to_mesh, const Layout& to,
                                    const DeviceMesh& from_mesh,
                                    const Layout& from,
                                    const std::vector<int64_t>& shape,
                                    int64_t room) {
  const Regions held(from, shape), wanted(to, shape);
  const Givers givers(from, from_mesh.ranks());
  const std::vector<int> both =
      ranks_of_both(from_mesh.ranks(), to_mesh.ranks());
  absl::StatusOr<Group> group =
      from_mesh.state()->group_of(both, "between meshes");
  if (!group.ok()) return group.status();
  Step step;
  step.kind = PlanStep::Kind::kExchange;
  step.group = *std::move(group);
  step.label = absl::StrCat("redistribute ", from.text(), "->", to.text(),
                            " between meshes");
  step.counts = {to_mesh.rank() < 0 ? 0 : wanted.count(to_mesh.rank())};
  const auto blocks_of = [&](int own) {
    Blocks send, receive;
    const int64_t gives = place_of(from_mesh.ranks(), own),
                  takes = place_of(to_mesh.ranks(), own);
    for (const int rank : both) {
      send.begin_member();
      receive.begin_member();
      if (const int64_t taker = place_of(to_mesh.ranks(), rank);
          gives >= 0 && taker >= 0)
        givers.each(taker, rank, [&](int64_t giver) {
          if (giver == gives)
            send.add(Block::common(held, gives, wanted, taker), 0);
        });
      if (const int64_t giver = place_of(from_mesh.ranks(), rank);
          takes >= 0 && giver >= 0)
        givers.each(takes, own, [&](int64_t chosen) {
          if (chosen == giver)
            receive.add(Block::common(wanted, takes, held, giver), 0);
        });
    }
    return std::pair(std::move(send), std::move(receive));
  };
  std::tie(step.send, step.receive) = blocks_of(get_rank());
  step.moves_blocks = leaves_blocks(
      step, std::vector<int64_t>(both.begin(), both.end()),
      held.largest() + wanted.largest(),
      [&](int64_t rank) { return blocks_of(static_cast<int>(rank)); });
  if (!step.moves_blocks &&
      held.largest() + wanted.largest() > room / static_cast<int64_t>(size_)) {
    Rounds rounds;
    for (const int rank : both) {
      const auto [send, receive] = blocks_of(rank);
      rounds.add(send, receive, false);
    }
    step.rounds = rounds.number(room, size_);
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

}  // namespace distwrap::mesh
