// Modes and observers: who sees which calls of a thread.
#include "distwrap/mode.h"
#include "distwrap/registration.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::dispatch {
namespace {

using Log = std::vector<std::string>;
using Same = Tensor(const Tensor&);

// Operators mode::inner and mode::outer, which calls mode::inner; mode::fails,
// mode::throws.
class Modes : public ::testing::Test {
 protected:
  static Tensor inner(const Tensor& x) { return x; }
  static absl::StatusOr<Tensor> outer(const Tensor& x) {
    return find_op<Same>("mode::inner").call(x);
  }
  static absl::StatusOr<Tensor> fails(const Tensor& x) {
    return Tensor::empty({-x.size(0)});
  }
  static Tensor throws(const Tensor& /*x*/) {
    throw std::runtime_error("of a kernel");
  }
  void SetUp() override {
    add("inner", kernel<&inner>());
    add("outer", kernel<&outer>());
    add("fails", kernel<&fails>());
    add("throws", kernel<&throws>());
  }
  void add(const std::string& name, const Kernel& kernel) {
    kept_.push_back(*define("mode::" + name + "(Tensor x) -> Tensor"));
    kept_.push_back(*implement("mode::" + name, kCompositeExplicit, kernel));
  }
  absl::Status call(const std::string& name) {
    return find_op<Same>("mode::" + name).call(x_).status();
  }
  Tensor x_ = *Tensor::empty({1}, DType::kF32, kMeta);
  std::vector<Registration> kept_;
};

// Writes down what it sees, and calls mode::inner itself.
struct Writer : Mode {
  Writer(std::string word, Log* to) : name(std::move(word)), log(to) {}
  absl::Status run(const OpHandle& op, KeySet set, Stack& stack) override {
    log->push_back(name + " " + op.name());
    const Tensor x = *Tensor::empty({1}, DType::kF32, kMeta);
    const absl::Status own = find_op<Same>("mode::inner").call(x).status();
    if (!own.ok()) return own;
    return op.redispatch_boxed(set, stack);
  }
  std::string name;
  Log* log;
};
std::unique_ptr<Writer> writer(std::string name, Log* log) {
  return std::make_unique<Writer>(std::move(name), log);
}

TEST_F(Modes, NeverSeeTheirOwnCalls) {
  Log log;
  {
    const ModeGuard guard(kUser1, writer("a", &log));
    ASSERT_TRUE(guard.status().ok()) << guard.status();
    ASSERT_TRUE(call("inner").ok());
    EXPECT_EQ(log, Log{"a mode::inner"});
    log.clear();
    // A composite's parts are the program's calls, not the mode's.
    ASSERT_TRUE(call("outer").ok());
    EXPECT_EQ(log, Log{"a mode::outer"});
  }
  log.clear();
  ASSERT_TRUE(call("inner").ok());
  EXPECT_EQ(log, Log());
}

TEST_F(Modes, TheNewestOfAStackRunsFirstAndReachesTheNext) {
  Log log;
  const ModeGuard first(kUser1, writer("a", &log));
  const ModeGuard second(kUser1, writer("b", &log));
  ASSERT_TRUE(call("inner").ok());
  // b's own call is seen by a alone; then b goes on to a.
  EXPECT_EQ(log, (Log{"b mode::inner", "a mode::inner", "a mode::inner"}));
}

TEST_F(Modes, AreBackAfterErrorsAndExceptions) {
  Log log;
  const ModeGuard guard(kUser2, writer("a", &log));
  const uint64_t include = thread_keys.include;
  EXPECT_EQ(error_reason(call("fails")), Reason::kArgument);
  EXPECT_EQ(error_reason(call("throws")), Reason::kKernelFailed);
  struct Throws : Mode {
    absl::Status run(const OpHandle&, KeySet, Stack&) override {
      throw std::runtime_error("of a mode");
    }
  };
  {
    const ModeGuard inside(kUser2, std::make_unique<Throws>());
    EXPECT_EQ(error_reason(call("inner")), Reason::kKernelFailed);
    EXPECT_EQ(error_reason(call("inner")), Reason::kKernelFailed);
  }
  EXPECT_EQ(thread_keys.include, include);
  log.clear();
  ASSERT_TRUE(call("inner").ok());
  EXPECT_EQ(log, Log{"a mode::inner"});
}

TEST_F(Modes, OfPreDispatchAreFunctionalThenRecorder) {
  Log log;
  const ModeGuard functional(PreDispatch::kFunctional, writer("f", &log));
  const ModeGuard recorder(PreDispatch::kRecorder, writer("r", &log));
  const ModeGuard again(PreDispatch::kRecorder, writer("never", &log));
  EXPECT_EQ(error_reason(again.status()), Reason::kDuplicate);
  ASSERT_TRUE(call("inner").ok());
  EXPECT_EQ(log, (Log{"f mode::inner", "r mode::inner", "r mode::inner"}));
}

TEST_F(Modes, NeedAKeyWithoutAFallback) {
  const ModeGuard wrong(kProfile, writer("a", nullptr));
  EXPECT_EQ(error_reason(wrong.status()), Reason::kArgument);
  const auto fallback = dispatch::fallback(
      kUser4, boxed(+[](const OpHandle& op, KeySet set, Stack& stack) {
        return op.redispatch_boxed(set.below(kUser4), stack);
      }));
  ASSERT_TRUE(fallback.ok());
  const ModeGuard taken(kUser4, writer("a", nullptr));
  EXPECT_EQ(error_reason(taken.status()), Reason::kDuplicate);
  EXPECT_TRUE(call("inner").ok());
}

TEST_F(Modes, GoToWorkersWithTheCapturedState) {
  Log log;
  TlsState state;
  {
    const ModeGuard guard(kUser1, writer("a", &log));
    state = TlsState::capture();
  }
  std::thread([&] {
    ASSERT_TRUE(call("inner").ok());
    EXPECT_EQ(log, Log());
    const TlsState before = state.restore();
    ASSERT_TRUE(call("inner").ok());
    EXPECT_EQ(log, Log{"a mode::inner"});
    before.restore();
    ASSERT_TRUE(call("inner").ok());
    EXPECT_EQ(log.size(), 1U);
  }).join();
}

struct Seen {
  Log log;
  static void begin(void* context, const OpHandle& op, KeySet set,
                    const Stack* arguments) {
    auto& log = static_cast<Seen*>(context)->log;
    log.push_back("begin " + op.name() + " " +
                  std::string(key_name(set.highest())) +
                  (arguments == nullptr
                       ? std::string()
                       : " " + std::to_string(arguments->size()) + " values"));
  }
  static void end(void* context, const OpHandle& op, const absl::Status& status,
                  const Stack* results) {
    static_cast<Seen*>(context)->log.push_back(
        "end " + op.name() + (status.ok() ? " ok" : " failed") +
        (results == nullptr ? "" : " with results"));
  }
  Observer observer(bool values) {
    return {.begin = &begin, .end = &end, .context = this, .values = values};
  }
};

TEST_F(Modes, ObserversHearOfCallsAndNotOfHops) {
  Seen seen;
  const auto fallback = dispatch::fallback(
      kProfile, boxed(+[](const OpHandle& op, KeySet set, Stack& stack) {
        return op.redispatch_boxed(set.below(kProfile), stack);
      }));
  {
    const auto kept = observe("mode::inner", seen.observer(false));
    ASSERT_TRUE(kept.ok());
    ASSERT_TRUE(check_invariants().ok());
    ASSERT_TRUE(call("outer").ok());
    EXPECT_EQ(seen.log, (Log{"begin mode::inner Dense", "end mode::inner ok"}));
    seen.log.clear();
    const IncludeGuard hop{KeySet(kProfile)};
    ASSERT_TRUE(call("inner").ok());
    EXPECT_EQ(seen.log,
              (Log{"begin mode::inner Profile", "end mode::inner ok"}));
    seen.log.clear();
    Stack stack;
    stack.push_back(Value::own(x_));
    ASSERT_TRUE(find_operator("mode::inner").call_boxed(stack).ok());
    EXPECT_EQ(seen.log.size(), 2U) << "boxed calls are observed, too";
  }
  seen.log.clear();
  ASSERT_TRUE(call("inner").ok());
  EXPECT_EQ(seen.log, Log());
  ASSERT_TRUE(check_invariants().ok());
}

TEST_F(Modes, ObserversOfAllOperatorsMayAskForValues) {
  Seen values, plain;
  const auto all = observe("", values.observer(true));
  const auto one = observe("mode::fails", plain.observer(false));
  // Operators that come later are observed as well.
  add("later", kernel<&inner>());
  ASSERT_TRUE(call("later").ok());
  EXPECT_EQ(values.log, (Log{"begin mode::later Dense 1 values",
                             "end mode::later ok with results"}));
  EXPECT_FALSE(call("fails").ok());
  EXPECT_EQ(plain.log,
            (Log{"begin mode::fails Dense", "end mode::fails failed"}));
  EXPECT_EQ(values.log.back(), "end mode::fails failed");
}

}  // namespace
}  // namespace distwrap::dispatch
