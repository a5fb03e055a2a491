// Libraries of operators: loading, unloading, and callers meanwhile.
#include "distwrap/autograd.h"
#include "distwrap/registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>

namespace distwrap::dispatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

const std::string kOne = LIBRARY_ONE, kTwo = LIBRARY_TWO, kBad = LIBRARY_BAD;
using Count = int64_t(const Tensor&);

Tensor make(Device device) { return *Tensor::empty({1}, DType::kF32, device); }
Deadline soon() { return Deadline::after(absl::Seconds(10)); }

TEST(Libraries, AddKernelsToEachOthersOperatorsInAnyOrder) {
  const auto of_one = find_op<Count>("one::shared");
  const auto of_two = find_op<Count>("two::shared");
  for (const bool one_first : {true, false}) {
    ASSERT_TRUE(load_library(one_first ? kOne : kTwo).ok());
    ASSERT_TRUE(load_library(one_first ? kTwo : kOne).ok());
    ASSERT_TRUE(load_library(kOne).ok()) << "again";
    EXPECT_EQ(of_one.call(make(kMeta)).value(), 1);
    EXPECT_EQ(of_one.call(make(kCpu)).value(), 2);
    EXPECT_EQ(of_two.call(make(kMeta)).value(), 1);
    EXPECT_EQ(of_two.call(make(kCpu)).value(), 2);
    const absl::Status broken =
        find_op<Count>("one::broken").call(make(kMeta)).status();
    EXPECT_THAT(std::string(broken.message()), HasSubstr("of one"));
    ASSERT_TRUE(unload_library(kOne, soon()).ok());
    EXPECT_EQ(error_reason(of_one.call(make(kMeta)).status()),
              Reason::kOpUnknown);
    EXPECT_EQ(error_reason(of_two.call(make(kMeta)).status()),
              Reason::kNoKernel);
    ASSERT_TRUE(unload_library(kTwo, soon()).ok());
    ASSERT_TRUE(check_invariants().ok());
  }
}

TEST(Libraries, ABlockThatFailsLeavesNothing) {
  const absl::Status status = load_library(kBad);
  EXPECT_EQ(error_reason(status), Reason::kSchemaParse) << status;
  EXPECT_FALSE(find_operator("bad::first").schema().ok());
  EXPECT_EQ(error_reason(load_library("/no/such/file.so")),
            Reason::kPluginNotFound);
  EXPECT_EQ(error_reason(unload_library(kTwo, soon())),
            Reason::kPluginNotFound);
  EXPECT_TRUE(registry_status().ok()) << "an error of load_library is its own";
}

TEST(Libraries, TellWhatTheyRegistered) {
  const auto registered_by = [](const std::string& path) {
    for (const LibraryInfo& one : libraries()) {
      if (one.path == path) return one.registered;
    }
    return std::vector<std::string>();
  };
  EXPECT_THAT(registered_by(kTwo), IsEmpty());
  ASSERT_TRUE(load_library(kTwo).ok());
  EXPECT_THAT(registered_by(kTwo),
              IsSupersetOf({"own two", "define two::shared(Tensor x) -> int",
                            "implement two::shared Dense/cpu",
                            "implement one::shared Dense/cpu"}));
  ASSERT_TRUE(unload_library(kTwo, soon()).ok());
  EXPECT_THAT(registered_by(kTwo), IsEmpty());
  // The error of a later call names the library.
  const absl::Status gone =
      find_op<Count>("two::shared").call(make(kCpu)).status();
  EXPECT_EQ(error_reason(gone), Reason::kOpUnknown);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("removed with " + kTwo));
}

// A library for another core is refused before a line of it runs.
TEST(Libraries, OfAnotherCoreCompilerOrSanitizerDoNotRun) {
  const std::pair<std::string, std::string> foreign[] = {
      {FOREIGN_VERSION, "version"},
      {FOREIGN_ABI, "C++ ABI"},
      {FOREIGN_SANITIZER, "sanitizer"},
      {FOREIGN_NONE, "DW_OPERATORS"}};
  unsetenv("TEST_FOREIGN_RAN");
  for (const auto& [path, word] : foreign) {
    const absl::Status status = load_library(path);
    EXPECT_EQ(error_reason(status), Reason::kPluginRefused) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    EXPECT_EQ(std::getenv("TEST_FOREIGN_RAN"), nullptr) << path;
  }
  EXPECT_EQ(error_reason(load_library("/dev/null")), Reason::kPluginRefused);
}

TEST(Libraries, AreBusyWhileGradientsNeedTheirCode) {
  ASSERT_TRUE(load_library(kOne).ok());
  const Tensor x = make(kMeta);
  ASSERT_TRUE(x.set_requires_grad().ok());
  {
    const auto y = find_op<Tensor(const Tensor&)>("one::same").call(x);
    ASSERT_TRUE(y.ok()) << y.status();
    ASSERT_TRUE(y->requires_grad());
    const absl::Status busy =
        unload_library(kOne, Deadline::after(absl::Milliseconds(20)));
    EXPECT_EQ(error_reason(busy), Reason::kLibraryBusy) << busy;
    EXPECT_THAT(std::string(busy.message()),
                AllOf(HasSubstr("1 gradients"), HasSubstr("one::same")))
        << "with counts and operators";
    EXPECT_FALSE(find_operator("one::same").schema().ok())
        << "registrations stay removed";
    EXPECT_EQ(error_reason(load_library(kOne)), Reason::kLibraryBusy)
        << "its blocks would not run again";
  }
  EXPECT_TRUE(unload_library(kOne, soon()).ok());
}

// From now on membarrier(2) fails in this process.
void forbid_membarrier() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// Without membarrier(2) nobody can tell when callers have left: the code stays
// mapped, and the registrations are gone.
void unload_without_membarrier() {
  forbid_membarrier();
  bool right = load_library(kTwo).ok();
  const absl::Status busy = unload_library(kTwo, soon());
  right = right && error_reason(busy) == Reason::kLibraryBusy &&
          !find_operator("two::shared").schema().ok();
  std::fprintf(stderr, "%s\n", std::string(busy.message()).c_str());
  std::_Exit(right ? 0 : 1);
}

TEST(LibrariesDeathTest, StayMappedWithoutMembarrier) {
  // A process of its own, which has made no barrier yet.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(unload_without_membarrier(), ::testing::ExitedWithCode(0),
              "membarrier");
}

absl::Status unload_from_inside(const OpHandle&, KeySet, Stack&) {
  return unload_library(kTwo, Deadline::after(absl::ZeroDuration()));
}

TEST(Libraries, CannotBeUnloadedFromInsideAnOperator) {
  ASSERT_TRUE(load_library(kTwo).ok());
  const auto defined = define("t::unload() -> ()");
  const auto kernel =
      implement("t::unload", kCompositeExplicit, boxed(&unload_from_inside));
  Stack stack;
  EXPECT_EQ(error_reason(find_operator("t::unload").call_boxed(stack)),
            Reason::kLibraryBusy);
  EXPECT_TRUE(unload_library(kTwo, soon()).ok());
}

// A call counts its first object of a kind while another thread waits for it.
std::atomic<bool> g_inside{false};
std::atomic<bool> g_go_on{false};
int64_t first_object(const Tensor& /*x*/) {
  g_inside = true;
  while (!g_go_on) std::this_thread::yield();
  struct Release {
    void operator()(void* /*data*/) const {}
  };
  static char memory[8];
  return Storage(memory, sizeof memory, kCpu, Release()).bytes();
}

TEST(Libraries, UnloadWhileACallCountsItsFirstObject) {
  ASSERT_TRUE(load_library(kTwo).ok());
  const auto defined = define("t::first(Tensor x) -> int");
  const auto kept =
      implement("t::first", {kDense, kCpu}, kernel<&first_object>());
  std::thread caller([] {
    EXPECT_EQ(find_op<Count>("t::first").call(make(kCpu)).value(), 8);
  });
  while (!g_inside) std::this_thread::yield();
  std::thread unloader([] {
    const absl::Status status = unload_library(kTwo, Deadline::never());
    EXPECT_TRUE(status.ok()) << status;
  });
  // The registrations have ended, so the unloader waits now, or will at once.
  while (find_operator("two::shared").schema().ok()) std::this_thread::yield();
  g_go_on = true;
  caller.join();
  unloader.join();
}

TEST(Libraries, UnloadUnderCallers) {
  const char* const wanted = std::getenv("TEST_UNLOADS");
  const int unloads = wanted == nullptr ? 100 : std::atoi(wanted);
  const auto shared = find_op<Count>("two::shared");
  std::atomic<bool> done{false};
  std::atomic<int64_t> answered{0}, unknown{0}, wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      const Tensor x = make(kCpu);
      while (!done.load(std::memory_order_relaxed)) {
        const absl::StatusOr<int64_t> result = shared.call(x);
        if (result.ok()) {
          (*result == 2 ? answered : wrong).fetch_add(1);
        } else {
          const Reason reason = error_reason(result.status());
          const bool gone =
              reason == Reason::kOpUnknown || reason == Reason::kNoKernel;
          (gone ? unknown : wrong).fetch_add(1);
        }
      }
    });
  }
  for (int i = 0; i < unloads; ++i) {
    ASSERT_TRUE(load_library(kTwo).ok());
    const int64_t before = answered.load();
    while (answered.load() == before) std::this_thread::yield();
    ASSERT_TRUE(unload_library(kTwo, soon()).ok());
  }
  done = true;
  for (std::thread& one : callers) one.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace distwrap::dispatch
