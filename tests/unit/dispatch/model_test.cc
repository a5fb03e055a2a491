// The choice of a kernel, against a slow model that walks lists.
#include "distwrap/registration.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

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

// All sets of six keys for arguments, includes and excludes, and all masks,
// which are the layers without a kernel.
TEST(DispatchModel, AgreesOnAllArgumentsIncludesExcludesAndMasks) {
  const auto defined = define("m::tls(Tensor x) -> int");
  ASSERT_TRUE(defined.ok());
  constexpr Key kLayers[] = {kDense,    kSparse,  kBackendSelect,
                             kAutocast, kProfile, kUser1};
  constexpr unsigned kAll = 1U << std::size(kLayers);
  const auto set_of = [&](unsigned bits) {
    KeySet set;
    for (size_t i = 0; i < std::size(kLayers); ++i) {
      if ((bits >> i & 1) != 0) set = set | KeySet(kLayers[i]);
    }
    return set;
  };
  Tensor x = *Tensor::empty({1}, DType::kF32, kMeta);
  const auto op = find_op<int64_t(const Tensor&)>("m::tls");
  // The slot of each layer answers with its number; masked ones have none.
  static constexpr auto kAnswer = +[](KeySet set, const Tensor&) {
    return static_cast<int64_t>(set.highest_bit());
  };
  for (unsigned mask = 0; mask < kAll; ++mask) {
    std::vector<Registration> kernels;
    for (size_t i = 0; i < std::size(kLayers); ++i) {
      if ((mask >> i & 1) == 0) continue;
      const bool by_backend = i < 2;
      auto made =
          by_backend ? implement("m::tls", {kLayers[i], kMeta}, kernel(kAnswer))
                     : implement("m::tls", kLayers[i], kernel(kAnswer));
      ASSERT_TRUE(made.ok()) << made.status();
      kernels.push_back(*std::move(made));
    }
    for (unsigned args = 0; args < kAll; ++args) {
      x.state()->keys =
          set_of(args) | KeySet::of_bits(uint64_t{1} << backend_of(kMeta));
      for (unsigned include = 0; include < kAll; ++include) {
        const IncludeGuard in(set_of(include));
        for (unsigned exclude = 0; exclude < kAll; ++exclude) {
          const ExcludeGuard out(set_of(exclude));
          // Dense and sparse without a kernel are missing, not idle.
          const unsigned left = (args | include) & ~exclude & (mask | 3);
          const int highest = left == 0 ? -1 : 31 - std::countl_zero(left);
          const bool missing = highest < 0 || (mask >> highest & 1) == 0;
          // An error takes a thousand times as long as an answer.
          if (missing && (args + include + exclude + mask) % 1024 != 0)
            continue;
          const absl::StatusOr<int64_t> answer = op.call(x);
          ASSERT_EQ(answer.ok(), !missing)
              << args << " " << include << " " << exclude << " " << mask;
          if (!missing) {
            ASSERT_EQ(*answer,
                      static_cast<int>(kLayers[static_cast<size_t>(highest)]));
          }
        }
      }
    }
  }
}

// ---- random steps over several operators ----

constexpr int kOperators = 4;
std::string name_of(int op) { return absl::StrCat("m::random", op); }

// A step of a run: it toggles a definition, a kernel, an override of it, or
// the fallback of a layer.
struct Step {
  int op, place, kind;
  std::string text() const {
    return absl::StrCat("{", op, ", ", place, ", ", kind, "}");
  }
};
enum Kind { kDefine, kKernel, kOverride, kLayerFallback, kKinds };

// Two layers get fallbacks of their own.
constexpr Key kFallbackKeys[] = {kUser1, kProfile};
constexpr int kOverrideBase = 20, kFallbackBase = 40;

template <int kId>
absl::Status run_override(const OpHandle&, KeySet, Stack&) {
  g_ran = kOverrideBase + kId;
  return absl::OkStatus();
}
template <int kId>
absl::Status run_fallback(const OpHandle&, KeySet, Stack&) {
  g_ran = kFallbackBase + kId;
  return absl::OkStatus();
}
constexpr std::array kOverrides = {
    &run_override<0>, &run_override<1>, &run_override<2>, &run_override<3>,
    &run_override<4>, &run_override<5>, &run_override<6>, &run_override<7>,
    &run_override<8>, &run_override<9>};

// The process's registry and the model of it, changed together.
class World {
 public:
  // Does the step, or undoes what it did before. False if it has no effect.
  bool toggle(const Step& step) {
    const auto place = static_cast<size_t>(step.place);
    if (step.kind == kLayerFallback) {
      const size_t key = place % std::size(kFallbackKeys);
      return change(key_of(step), [&] {
        return fallback(kFallbackKeys[key],
                        boxed(key == 0 ? &run_fallback<0> : &run_fallback<1>));
      });
    }
    if (step.kind == kDefine) {
      return change(key_of(step),
                    [&] { return define(name_of(step.op) + "() -> ()"); });
    }
    const bool on_top = step.kind == kOverride;
    // A first kernel under an override would be a duplicate.
    if (!on_top && held_.count(key_of({step.op, step.place, kOverride})) > 0 &&
        held_.count(key_of(step)) == 0) {
      return false;
    }
    return change(key_of(step), [&] {
      return implement(
          name_of(step.op), places()[place].target,
          boxed(on_top ? kOverrides[place] : places()[place].function),
          on_top ? Existing::kOverride : Existing::kRefuse);
    });
  }
  bool defined(int op) const {
    return held_.count(key_of({op, 0, kDefine})) > 0;
  }

  // The number of the kernel that a set runs, by the model.
  int wanted(int op, KeySet set) const {
    unsigned registered = 0;
    for (int place = 0; place < static_cast<int>(places().size()); ++place) {
      if (held_.count(key_of({op, place, kKernel})) > 0 ||
          held_.count(key_of({op, place, kOverride})) > 0) {
        registered |= 1U << place;
      }
    }
    const Model model(registered);
    for (KeySet left = set;;) {
      const Key layer = left.highest();
      for (size_t i = 0; left.has_layer() && i < std::size(kFallbackKeys);
           ++i) {
        const int place = i == 0 ? 7 : 8;
        if (layer == kFallbackKeys[i] && (registered >> place & 1) == 0 &&
            held_.count(key_of({0, static_cast<int>(i), kLayerFallback})) > 0) {
          return kFallbackBase + static_cast<int>(i);
        }
      }
      if (left.has_layer() && (layer == kUser1 || layer == kProfile) &&
          (registered >> (layer == kUser1 ? 7 : 8) & 1) == 0) {
        left = left.minus(layer);
        continue;
      }
      int found = model.choose(left);
      if (found == kFallback) found = model.choose(left.below(kAutograd));
      const bool over =
          found >= 0 && held_.count(key_of({op, found, kOverride})) > 0;
      return over ? kOverrideBase + found : found;
    }
  }

 private:
  static int key_of(const Step& step) {
    const bool of_all = step.kind == kLayerFallback;
    const int place =
        step.kind == kDefine ? 0
        : of_all ? step.place % static_cast<int>(std::size(kFallbackKeys))
                 : step.place;
    return ((of_all ? 0 : step.op) * 100 + place) * kKinds + step.kind;
  }
  template <class F>
  bool change(int key, const F& make) {
    if (held_.erase(key) > 0) return true;
    absl::StatusOr<Registration> made = make();
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) held_[key] = *std::move(made);
    return made.ok();
  }
  std::map<int, Registration> held_;
};

// The first disagreement after the steps; empty if there is none.
std::string disagreement(const std::vector<Step>& steps,
                         const std::vector<KeySet>& sets, unsigned seed,
                         bool invariants) {
  World world;
  std::mt19937 random(seed);
  for (const Step& step : steps) {
    world.toggle(step);
    if (invariants && !check_invariants().ok()) return "a table is wrong";
    const KeySet set = sets[random() % sets.size()];
    g_ran = -1;
    Stack stack;
    const absl::Status status =
        find_operator(name_of(step.op)).redispatch_boxed(set, stack);
    if (!world.defined(step.op)) {
      if (error_reason(status) != Reason::kOpUnknown) return "not unknown";
      continue;
    }
    const int wanted = world.wanted(step.op, set);
    if (g_ran != wanted) {
      return absl::StrCat(name_of(step.op), " ran ", g_ran, " instead of ",
                          wanted, " for ", set.text());
    }
  }
  return "";
}

// Leaves out steps as long as the rest still disagrees.
std::vector<Step> shrink(std::vector<Step> steps,
                         const std::vector<KeySet>& sets, unsigned seed) {
  for (size_t part = steps.size() / 2; part > 0; part /= 2) {
    for (size_t at = 0; at + part <= steps.size();) {
      std::vector<Step> fewer = steps;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(at + part));
      if (!disagreement(fewer, sets, seed, true).empty()) {
        steps = std::move(fewer);
      } else {
        at += part;
      }
    }
  }
  return steps;
}

TEST(DispatchModel, AgreesAfterRandomSteps) {
  const char* const wanted = std::getenv("TEST_DISPATCH_STEPS");
  const int steps = wanted == nullptr ? 5000 : std::atoi(wanted);
  const std::vector<KeySet> sets = all_sets();
  std::mt19937 random(20);
  // In runs of 1000 steps, so that one that fails is short enough to shrink.
  for (int done = 0; done < steps; done += 1000) {
    std::vector<Step> run;
    for (int i = 0; i < 1000; ++i) {
      const auto dice = random() % 100;
      run.push_back({static_cast<int>(random() % kOperators),
                     static_cast<int>(random() % places().size()),
                     dice < 10   ? kDefine
                     : dice < 70 ? kKernel
                     : dice < 95 ? kOverride
                                 : kLayerFallback});
    }
    const auto seed = static_cast<unsigned>(random());
    const std::string wrong = disagreement(run, sets, seed, true);
    if (wrong.empty()) continue;
    std::string text;
    for (const Step& step : shrink(run, sets, seed)) {
      absl::StrAppend(&text, step.text(), ", ");
    }
    FAIL() << wrong << "; steps with seed " << seed << ": " << text;
  }
}

}  // namespace
}  // namespace distwrap::dispatch
