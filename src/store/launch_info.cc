#include "store/launch_info.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

namespace distwrap::store {
namespace {

using base::Environment;
using base::Setting;
using base::setting_name;

constexpr int kMaxWorldSize = 1 << 20;

struct Place {
  int rank = 0, size = 0;
};

// A rank and the size it belongs to: both or neither.
absl::StatusOr<std::optional<Place>> read_place(const Environment& environment,
                                                Setting rank_setting,
                                                Setting size_setting) {
  const absl::string_view rank_name = setting_name(rank_setting);
  const absl::string_view size_name = setting_name(size_setting);
  const absl::StatusOr<std::optional<int>> rank =
      environment.get_int(rank_name, 0, kMaxWorldSize - 1);
  if (!rank.ok()) return rank.status();
  const absl::StatusOr<std::optional<int>> size =
      environment.get_int(size_name, 1, kMaxWorldSize);
  if (!size.ok()) return size.status();
  if (!rank->has_value() && !size->has_value()) return std::optional<Place>();
  if (rank->has_value() != size->has_value()) {
    const bool have_rank = rank->has_value();
    return base::make_error(
        {.reason = Reason::kLaunchMissing,
         .what = absl::StrCat(have_rank ? rank_name : size_name, " is ",
                              have_rank ? **rank : **size, " but ",
                              have_rank ? size_name : rank_name, " is unset"),
         .op = "init",
         .next_step = "set both, or start with `distwrap run`"});
  }
  if (**rank >= **size)
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = absl::StrCat(rank_name, " is not below ", size_name),
         .op = "init",
         .expected = absl::StrCat("0 <= ", rank_name, " < ", **size),
         .actual = absl::StrCat("'", **rank, "'"),
         .next_step = absl::StrCat("correct ", rank_name, " or ", size_name)});
  return std::optional<Place>(Place{**rank, **size});
}

}  // namespace

absl::StatusOr<LaunchInfo> detect_launch(const Environment& environment) {
  const absl::StatusOr<std::optional<Place>> world =
      read_place(environment, Setting::kRank, Setting::kWorldSize);
  if (!world.ok()) return world.status();
  if (!world->has_value())
    return base::make_error(
        {.reason = Reason::kLaunchMissing,
         .what = absl::StrCat(setting_name(Setting::kRank), " and ",
                              setting_name(Setting::kWorldSize), " are unset"),
         .op = "init",
         .next_step = "start with `distwrap run -n N program`, or give rank "
                      "and world_size"});
  const absl::StatusOr<std::optional<Place>> local =
      read_place(environment, Setting::kLocalRank, Setting::kLocalWorldSize);
  if (!local.ok()) return local.status();

  LaunchInfo info;
  info.rank = (*world)->rank;
  info.world_size = (*world)->size;
  info.local_rank = info.rank;
  info.local_world_size = info.world_size;
  if (local->has_value()) {
    info.local_rank = (*local)->rank;
    info.local_world_size = (*local)->size;
  }
  if (info.local_world_size > info.world_size)
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = absl::StrCat(setting_name(Setting::kLocalWorldSize),
                              " is above ", setting_name(Setting::kWorldSize)),
         .op = "init",
         .expected = absl::StrCat("at most ", info.world_size),
         .actual = absl::StrCat("'", info.local_world_size, "'")});
  info.launcher = "distwrap";
  info.store_address = environment.get_or_default(Setting::kStore);
  info.job_id = environment.get_or_default(Setting::kJobId);
  return info;
}

}  // namespace distwrap::store
