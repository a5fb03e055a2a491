// Ranks as threads, and a library that does every operation right, or wrong in
// a chosen way, without communication except for a meeting.
#ifndef DISTWRAP_TESTS_UNIT_BENCH_FAKE_CONTESTANT_H_
#define DISTWRAP_TESTS_UNIT_BENCH_FAKE_CONTESTANT_H_

#include "bench/contestant.h"
#include "bench/side_channel.h"

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::bench {

struct Behaviour {
  std::string name = "fake";
  // From this call on, a wrong value is written to the output's first element
  // after the right result; 0: never.
  int64_t corrupt_from_call = 0;
  // The result of every call.
  absl::Status status = absl::OkStatus();
  bool has_operation = true;
  bool waits_in_barrier = true;
  bool changes_input = false;
  int64_t takes_ns = 0;  // at least
  bool keeps_outputs = false;
};

class FakeContestant final : public Contestant {
 public:
  // `side` is the fake library's own network.
  FakeContestant(Behaviour behaviour, std::unique_ptr<SideChannel> side)
      : behaviour_(std::move(behaviour)), side_(std::move(side)) {}

  std::string name() const override { return behaviour_.name; }
  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) override;

  int64_t calls() const { return calls_; }
  // The address to which each call wrote.
  const std::vector<const void*>& outputs() const { return outputs_; }

 private:
  Behaviour behaviour_;
  std::unique_ptr<SideChannel> side_;
  int64_t calls_ = 0;
  std::vector<const void*> outputs_;
};

// Runs `body(rank, store)` on a thread for each rank, with one store.
void run_ranks(int ranks,
               const std::function<void(int, std::shared_ptr<Store>)>& body);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TESTS_UNIT_BENCH_FAKE_CONTESTANT_H_
