#include "composed/contestants.h"

#include "bench/table_contestant.h"
#include "composed/replay.h"
#include "plugin/backend_table.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace distwrap::composed {
namespace {

using bench::Case;
using bench::Contestant;
using bench::Setup;
using bench::TableContestant;
using bench::TimedCall;

absl::StatusOr<std::unique_ptr<TableContestant>> make_whole(
    const dw_backend_api& table, const Setup& setup) {
  auto backend = plugin::make_backend(&table, "linked in");
  if (!backend.ok()) return backend.status();
  return TableContestant::make(*std::move(backend), setup);
}

// The bytes of the output that no part wrote: they were copied.
uint64_t copied_bytes(const std::vector<Step>& steps, const Case& c) {
  const TensorView view = c.out();
  if (view.data() == c.in().data()) return 0;
  const auto bytes = static_cast<uint64_t>(c.out_bytes());
  std::vector<bool> written(bytes);
  const auto write = [&](const void* at, uint64_t n) {
    const auto begin = reinterpret_cast<uintptr_t>(at) -
                       reinterpret_cast<uintptr_t>(view.data());
    for (uint64_t i = begin; i < bytes && i < begin + n; ++i) written[i] = true;
  };
  for (const Step& step : steps) {
    write(step.out, step.count * step.element);
    for (const dw_op& op : step.ops) {
      write(op.out.data,
            static_cast<uint64_t>(op.out.count) * op.out.dtype.bits / 8u);
    }
  }
  return static_cast<uint64_t>(
      std::count(written.begin(), written.end(), false));
}

// Runs the operation once, and from then on only its parts.
class Parts final : public Contestant {
 public:
  Parts(std::string name, std::unique_ptr<TableContestant> whole)
      : name_(std::move(name)), whole_(std::move(whole)) {}

  std::string name() const override { return name_; }
  bool checked() const override { return false; }

  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) override {
    auto call = whole_->prepare(c);
    if (!call.ok() || *call == nullptr || !c.active()) return call;
    tape().start(c.spec().ranks);
    const absl::Status made = (*call)->repeat(1);
    std::vector<Step> steps = tape().stop();
    if (!made.ok()) return made;
    Step copy;
    copy.count = copied_bytes(steps, c);
    copy.out = c.out().data();
    copy.in = {this};  // from anywhere
    if (copy.count > 0) steps.push_back(std::move(copy));
    auto replay = std::make_shared<Replay>();
    if (absl::Status status = replay->load(std::move(steps), c.spec().ranks);
        !status.ok())
      return status;
    return bench::make_call([replay] { return replay->run(); });
  }

 private:
  std::string name_;
  std::unique_ptr<TableContestant> whole_;
};

}  // namespace

std::vector<bench::ContestantKind> kinds_of(const std::string& name,
                                            const std::string& summary,
                                            const dw_backend_api& table) {
  const dw_backend_api* const api = &table;
  const auto whole =
      [api](const Setup& setup) -> absl::StatusOr<std::unique_ptr<Contestant>> {
    auto made = make_whole(*api, setup);
    if (!made.ok()) return made.status();
    return *std::move(made);
  };
  const auto parts =
      [api](const Setup& setup) -> absl::StatusOr<std::unique_ptr<Contestant>> {
    auto made = make_whole(*api, setup);
    if (!made.ok()) return made.status();
    return std::make_unique<Parts>(setup.name, *std::move(made));
  };
  return {
      {"parts_" + name, "the parts of that, one after the other", "", parts},
      {"composed_" + name, summary, "", whole}};
}

}  // namespace distwrap::composed
