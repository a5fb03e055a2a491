// The choice of a kernel, against a slow model that walks lists.
#include "distwrap/registration.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <random>

namespace distwrap::dispatch {
namespace {

// The kernel that ran last.
thread_local int g_ran = -1;

template <int kId>
absl::Status run(const OpHandle& /*op*/, KeySet /*set*/, Stack& /*stack*/) {
  g_ran = kId;
  return absl::OkStatus();
}

struct Place {
  const char* name;
  Target target;
  absl::Status (*function)(const OpHandle&, KeySet, Stack&);
};
const std::vector<Place>& places() {
  static const auto* const all = new std::vector<Place>{
      {"dense/cpu", {kDense, kCpu}, &run<0>},
      {"dense/private1", {kDense, kPrivate1}, &run<1>},
      {"sparse/cpu", {kSparse, kCpu}, &run<2>},
      {"explicit", kCompositeExplicit, &run<3>},
      {"implicit", kCompositeImplicit, &run<4>},
      {"autograd", kAutograd, &run<5>},
      {"autograd/cpu", {kAutograd, kCpu}, &run<6>},
      {"user1", kUser1, &run<7>},
      {"profile", kProfile, &run<8>},
      {"backend select", kBackendSelect, &run<9>},
  };
  return *all;
}
constexpr int kFallback = 100;

// A set of registrations of one operator, as bits of places().
class Model {
 public:
  explicit Model(unsigned registered) : registered_(registered) {}

  // The kernel that a call with this set runs; -1 for none.
  int choose(KeySet set) const {
    for (int bit = 63; bit >= kBackends; --bit) {
      const Key key = static_cast<Key>(bit);
      if (!set.has(key)) continue;
      const std::optional<int> found = of_layer(key, set.backend());
      if (found.has_value()) return *found;
    }
    return of_backend_slot();
  }

 private:
  bool has(int place) const { return (registered_ >> place & 1) != 0; }
  int of_backend_slot() const { return has(3) ? 3 : has(4) ? 4 : -1; }

  // nullopt: the layer has nothing to do.
  std::optional<int> of_layer(Key key, int backend) const {
    const int cpu = backend_of(kCpu), private1 = backend_of(kPrivate1);
    switch (key) {
      case kDense:
        if (backend == cpu && has(0)) return 0;
        if (backend == private1 && has(1)) return 1;
        return of_backend_slot();
      case kSparse:
        if (backend == cpu && has(2)) return 2;
        return of_backend_slot();
      case kAutograd: {
        if (backend == cpu && has(6)) return 6;
        const bool own = has(3) || (backend == cpu && (has(0) || has(2))) ||
                         (backend == private1 && has(1));
        if (has(4) && !own) return 4;
        if (has(5)) return 5;
        return kFallback;
      }
      case kUser1:
        if (has(7)) return 7;
        return std::nullopt;
      case kProfile:
        if (has(8)) return 8;
        return std::nullopt;
      case kBackendSelect:
        if (has(9)) return 9;
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  const unsigned registered_;
};

// Registers the places of a set, one after the other.
class Registered {
 public:
  void add(int place) {
    const Place& one = places()[static_cast<size_t>(place)];
    absl::StatusOr<Registration> made =
        implement("m::op", one.target, boxed(one.function));
    ASSERT_TRUE(made.ok()) << made.status();
    held_[place] = *std::move(made);
    bits_ |= 1U << place;
  }
  void remove(int place) {
    held_.erase(place);
    bits_ &= ~(1U << place);
  }
  bool has(int place) const { return (bits_ >> place & 1) != 0; }
  unsigned bits() const { return bits_; }

 private:
  std::map<int, Registration> held_;
  unsigned bits_ = 0;
};

// The kernel that the operator runs for a set, or -1 for none. The fallback of
// autograd needs no kernel below when it is told that none is there.
int ran(KeySet set) {
  static const OpHandle op = find_operator("m::op");
  Stack stack;
  g_ran = -1;
  const absl::Status status = op.redispatch_boxed(set, stack);
  if (!status.ok()) {
    EXPECT_EQ(error_reason(status), Reason::kNoKernel) << status;
    return -1;
  }
  return g_ran;
}

std::vector<KeySet> all_sets() {
  std::vector<KeySet> sets;
  const Key layers[] = {kDense,    kSparse,  kBackendSelect, kViewTracking,
                        kAutograd, kProfile, kUser1};
  for (unsigned layer = 0; layer < 1U << std::size(layers); ++layer) {
    for (const Device device : {kCpu, kMeta, kPrivate1}) {
      KeySet set;
      for (size_t i = 0; i < std::size(layers); ++i) {
        if ((layer >> i & 1) != 0) set = set | KeySet(layers[i], device);
      }
      sets.push_back(set);
    }
  }
  return sets;
}

void compare(const Registered& registered, const std::vector<KeySet>& sets) {
  const Model model(registered.bits());
  for (const KeySet set : sets) {
    int wanted = model.choose(set);
    // The fallback of autograd goes on below.
    if (wanted == kFallback) wanted = model.choose(set.below(kAutograd));
    ASSERT_EQ(ran(set), wanted)
        << set.text() << " with " << registered.bits() << "\n"
        << find_operator("m::op").dump();
  }
}

TEST(DispatchModel, AgreesOnAllSetsOfRegistrations) {
  const auto defined = define("m::op() -> ()");
  ASSERT_TRUE(defined.ok());
  const std::vector<KeySet> sets = all_sets();
  // In Gray's order one registration differs from one set to the next.
  Registered registered;
  for (unsigned i = 0; i < 1U << places().size(); ++i) {
    const unsigned gray = i ^ i >> 1;
    for (int place = 0; place < static_cast<int>(places().size()); ++place) {
      const bool wanted = (gray >> place & 1) != 0;
      if (wanted && !registered.has(place)) registered.add(place);
      if (!wanted && registered.has(place)) registered.remove(place);
    }
    compare(registered, sets);
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(check_invariants().ok());
}

TEST(DispatchModel, AgreesAfterRandomSteps) {
  const char* const wanted = std::getenv("TEST_DISPATCH_STEPS");
  const int steps = wanted == nullptr ? 5000 : std::atoi(wanted);
  std::mt19937 random(20);
  std::optional<Registration> defined;
  Registered registered;
  const std::vector<KeySet> sets = all_sets();
  for (int step = 0; step < steps; ++step) {
    const auto dice = random() % 12;
    SCOPED_TRACE(absl::StrCat("step ", step));
    if (dice < places().size()) {
      const int place = static_cast<int>(dice);
      if (registered.has(place)) {
        registered.remove(place);
      } else {
        registered.add(place);
      }
    } else if (defined.has_value()) {
      defined.reset();
    } else {
      defined = *define("m::op() -> ()");
    }
    if (!defined.has_value()) {
      Stack stack;
      ASSERT_EQ(error_reason(find_operator("m::op").call_boxed(stack)),
                Reason::kOpUnknown);
      continue;
    }
    compare(registered,
            {sets[random() % sets.size()], sets[random() % sets.size()]});
    if (HasFatalFailure()) return;
    if (step % 50 == 0) {
      ASSERT_TRUE(check_invariants().ok());
    }
  }
}

}  // namespace
}  // namespace distwrap::dispatch
