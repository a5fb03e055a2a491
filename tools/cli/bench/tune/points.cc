#include "bench/tune/points.h"

#include "base/settings.h"
#include "bench/distwrap_contestant.h"
#include "bench/measure.h"
#include "bench/progress.h"
#include "bench/size.h"
#include "store/launch_info.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdlib.h>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr double kLeastSeconds = 0.01;

// One rank with the sessions of an experiment.
class Tuner {
 public:
  Tuner(const store::LaunchInfo& place, std::shared_ptr<Store> store)
      : place_(place),
        store_(std::move(store)),
        side_(store_, "tune", place.rank, place.world_size, 2 * kPatience) {}

  absl::Status run(double seconds, Points* points) {
    const std::vector<Experiment> all = experiments(place_.world_size);
    for (const Experiment& one : all) left_ += one.sizes().size();
    count_ = left_;
    // Two contestants, and as much time again for the parts that are not timed.
    plan_.seconds =
        std::max(kLeastSeconds, seconds / 4 / static_cast<double>(count_));
    for (const Experiment& one : all)
      if (absl::Status status = measure_one(one, &(*points)[one.name]);
          !status.ok())
        return status;
    progress_.clear();
    return absl::OkStatus();
  }

  absl::Status agree(const absl::Status& status) { return side_.agree(status); }

 private:
  absl::StatusOr<std::unique_ptr<Contestant>> make(const Experiment& one,
                                                   const std::string& way,
                                                   const std::string& hint) {
    Setup setup;
    setup.name = absl::StrCat(one.name, " ", way);
    setup.rank = place_.rank;
    setup.ranks = place_.world_size;
    setup.store = store_;
    setup.timeout = kPatience;
    setup.hints = {{"tuning", hint}};
    auto made = make_distwrap_contestant("shm", setup);
    const absl::Status status = side_.agree(made.status());
    if (!status.ok()) return status;
    return made;
  }

  absl::Status measure_one(const Experiment& one,
                           std::vector<SizeRatio>* points) {
    const auto usual = make(one, "never", one.never());
    if (!usual.ok()) return usual.status();
    const auto other = make(one, "always", one.always());
    if (!other.ok()) return other.status();
    const std::vector<Contestant*> both = {usual->get(), other->get()};
    for (const int64_t size : one.sizes()) {
      if (place_.rank == 0)
        progress_.show(absl::StrCat("[", count_ - --left_, "/", count_,
                                    "] shm.", one.name, ", ",
                                    format_size(size)));
      auto made = Case::make(one.spec(size, place_.rank, place_.world_size));
      if (absl::Status status = side_.agree(made.status()); !status.ok())
        return status;
      const auto rows = measure(*made, both, 0, side_, plan_);
      if (!rows.ok()) return rows.status();
      const Row& row = (*rows)[1];
      if (row.wrong + (*rows)[0].wrong > 0)
        return absl::DataLossError(absl::StrCat(
            "shm.", one.name, ": results were wrong at ", format_size(size)));
      points->push_back({size, row.ratio.value_or(Ratio{1, 1, 1})});
    }
    return absl::OkStatus();
  }

  const store::LaunchInfo place_;
  const std::shared_ptr<Store> store_;
  SideChannel side_;
  const Progress progress_;
  Plan plan_;
  size_t left_ = 0, count_ = 0;
};

}  // namespace

absl::Status measure_points(double seconds, const std::string& path) {
  // Ignores earlier results; this run measures anew.
  unsetenv(std::string(base::setting_name(base::Setting::kTuning)).c_str());
  const auto place = store::detect_launch(base::Environment::of_process());
  if (!place.ok()) return place.status();
  auto store = Store::connect(place->store_address, Deadline::after(kPatience));
  if (!store.ok()) return store.status();
  Tuner tuner(*place, *std::move(store));
  Points points;
  absl::Status status = tuner.run(seconds, &points);
  if (!status.ok()) return status;
  if (place->rank == 0) {
    std::ofstream file(path, std::ios::trunc);
    file << write_points(points);
    if (!file.flush())
      status = absl::InternalError(absl::StrCat("cannot write ", path));
  }
  // No rank leaves while another one still measures.
  return tuner.agree(status);
}

std::string write_points(const Points& points) {
  std::string text;
  for (const auto& [name, list] : points)
    for (const SizeRatio& point : list)
      absl::StrAppend(&text, name, " ", point.size, " ", point.ratio.median,
                      " ", point.ratio.low, " ", point.ratio.high, "\n");
  return text;
}

absl::StatusOr<Points> read_points(absl::string_view text) {
  Points points;
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    SizeRatio point;
    Ratio& ratio = point.ratio;
    if (words.size() != 5 || !absl::SimpleAtoi(words[1], &point.size) ||
        !absl::SimpleAtod(words[2], &ratio.median) ||
        !absl::SimpleAtod(words[3], &ratio.low) ||
        !absl::SimpleAtod(words[4], &ratio.high) || !(ratio.median > 0))
      return absl::InternalError("the ranks reported impossible numbers");
    points[std::string(words[0])].push_back(point);
  }
  return points;
}

}  // namespace distwrap::bench
