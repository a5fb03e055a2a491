// A library that carries out the measured operations: a backend through
// distwrap, or another library beside it.
//
// Threads: used by one. Ownership: a TimedCall borrows its Case and Contestant.
//
//   std::unique_ptr<TimedCall> call = contestant.prepare(c).value();
//   call->repeat(1000);
#ifndef DISTWRAP_TOOLS_CLI_BENCH_CONTESTANT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_CONTESTANT_H_

#include "bench/case.h"
#include "distwrap/store.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::bench {

// The way in which a loop is timed.
struct Loop {
  int64_t batch = 1;     // calls between two clock readings
  int64_t start_at = 0;  // monotonic ns before which the loop does not begin
};

// The call that is timed.
class TimedCall {
 public:
  virtual ~TimedCall() = default;
  // Makes `times` calls one after the other; the first error ends the loop. The
  // loop is inside, so that a call of 50 ns does not pay for a virtual call.
  virtual absl::Status repeat(int64_t times) = 0;
  // Makes `ns.size()` batches and stores the time of each. A contestant whose
  // calls run in another process times them there.
  virtual absl::Status timed(const Loop& loop, absl::Span<int64_t> ns);
  // Makes the output look unwritten, as the case requires.
  virtual absl::Status spoil() { return absl::OkStatus(); }
  // Copies the result of the last call into the buffers of the case, for calls
  // that run in another process.
  virtual absl::Status fetch() { return absl::OkStatus(); }
};

// Makes a TimedCall of a function that returns absl::Status.
template <class F>
std::unique_ptr<TimedCall> make_call(F f) {
  class Looped final : public TimedCall {
   public:
    explicit Looped(F f) : f_(std::move(f)) {}
    absl::Status repeat(int64_t times) override {
      for (int64_t i = 0; i < times; ++i) {
        absl::Status status = f_();
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    }

   private:
    F f_;
  };
  return std::make_unique<Looped>(std::move(f));
}

class Contestant {
 public:
  virtual ~Contestant() = default;
  // The name in tables: "distwrap/gloo".
  virtual std::string name() const = 0;
  // All ranks prepare in the same order. Null when the library lacks the
  // operation; a first call that fails with kUnimplemented means that as well.
  virtual absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) = 0;
  // Whether the outputs are those of the operation. False for a yardstick such
  // as memcpy.
  virtual bool checked() const { return true; }
};

// The parameters of a contestant. All ranks make their contestants in the same
// order.
struct Setup {
  // The name to show; it differs between two copies of one kind.
  std::string name = {};
  int rank = 0;
  int ranks = 1;
  std::shared_ptr<Store> store = nullptr;
  absl::Duration timeout = absl::Seconds(60);
  std::map<std::string, std::string> hints = {};
  bool shared_memory = false;  // use buffers that the backend allocates
};

// A library that --vs offers.
struct ContestantKind {
  std::string name = {};
  std::string summary = {};
  // The reason why it cannot take part on this machine; "" when it can.
  std::string missing = {};
  std::function<absl::StatusOr<std::unique_ptr<Contestant>>(const Setup&)>
      make = {};
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_CONTESTANT_H_
