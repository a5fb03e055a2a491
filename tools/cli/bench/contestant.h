// Something that can carry out the measured operations: a backend through
// distwrap, or another library beside it.
//
// Threads: used by one. Ownership: a Call borrows its Case and Contestant.
//
//   std::unique_ptr<Call> call = contestant.prepare(c).value();
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

// How a loop is timed.
struct Loop {
  int64_t batch = 1;     // calls in one reading
  int64_t start_at = 0;  // monotonic ns before which it does not begin
};

// The bare call that is timed.
class Call {
 public:
  virtual ~Call() = default;
  // `times` calls one after the other; the first error ends it. The loop is in
  // here, so that what costs 50 ns is not timed through a virtual call each.
  virtual absl::Status repeat(int64_t times) = 0;
  // The same for `ns.size()` batches, each with what it took. Calls that happen
  // in another process are timed there.
  virtual absl::Status timed(const Loop& loop, absl::Span<int64_t> ns);
  // Makes the output look unwritten, as the case has it, and
  virtual absl::Status spoil() { return absl::OkStatus(); }
  // brings the result of the last call into the buffers of the case, for calls
  // that happen in another process.
  virtual absl::Status fetch() { return absl::OkStatus(); }
};

// A Call of anything that returns absl::Status.
template <class F>
std::unique_ptr<Call> make_call(F f) {
  class Looped final : public Call {
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
  // As it stands in tables: "distwrap/gloo".
  virtual std::string name() const = 0;
  // All ranks do it in the same order. Null when it has no such operation; a
  // first call that ends with kUnimplemented says the same.
  virtual absl::StatusOr<std::unique_ptr<Call>> prepare(Case& c) = 0;
  // Whether the outputs are those of the operation. Not for a yardstick such as
  // memcpy.
  virtual bool checked() const { return true; }
};

// What a contestant is made of. All ranks make theirs in the same order.
struct Setup {
  // As it is to be called; differs between two copies of one kind.
  std::string name = {};
  int rank = 0;
  int ranks = 1;
  std::shared_ptr<Store> store = nullptr;
  absl::Duration timeout = absl::Seconds(60);
  std::map<std::string, std::string> hints = {};
  bool shared_memory = false;  // buffers that the backend allocates
};

// What --vs offers.
struct ContestantKind {
  std::string name = {};
  std::string summary = {};
  // Why it cannot take part on this machine; "" when it can.
  std::string missing = {};
  std::function<absl::StatusOr<std::unique_ptr<Contestant>>(const Setup&)>
      make = {};
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_CONTESTANT_H_
