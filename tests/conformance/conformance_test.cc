// Every check over every backend, linked in and as a module.
//
// DISTWRAP_TEST_SEED chooses another sample of calls.
#include "checks.h"
#include "distwrap/abi/note.h"
#include "pace.h"
#include "subjects.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <iostream>
#include <string>

namespace distwrap::conformance {
namespace {

const dw_backend_api* from_module(const std::string& name) {
  static const dw_host_info kHost = {
      sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, DW_SANITIZER, 0,
      {"test", 4}};
  const std::string path =
      std::string(DISTWRAP_PLUGIN_FOLDER) + "/libdistwrap_" + name + ".so";
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return nullptr;
  const auto query = reinterpret_cast<dw_plugin_query_fn>(
      dlsym(module, DW_PLUGIN_QUERY_SYMBOL));
  return query == nullptr ? nullptr : query(&kHost);
}

class Conformance : public testing::Test {
 public:
  Conformance(Subject subject, bool as_module, int size, Check check)
      : subject_(std::move(subject)),
        as_module_(as_module),
        size_(size),
        check_(check) {}

  void TestBody() override {
    const dw_backend_api* const api =
        as_module_ ? from_module(subject_.module) : &subject_.table();
    ASSERT_NE(api, nullptr) << "no table";
    Findings findings;
    check_.run(*api, size_, limits_of(subject_), findings);
    EXPECT_TRUE(findings.empty())
        << findings.text() << "with DISTWRAP_TEST_SEED=" << test_seed();
  }

 private:
  const Subject subject_;
  const bool as_module_;
  const int size_;
  const Check check_;
};

void register_tests(const Subject& subject, bool as_module, int size) {
  const std::string suite = subject.name + "_" +
                            (as_module ? "module" : "linked") + "_" +
                            std::to_string(size);
  for (const Check& check : all_checks()) {
    if (size > check.largest_size) continue;
    testing::RegisterTest(suite.c_str(), check.name, nullptr, nullptr, __FILE__,
                          __LINE__, [=]() -> Conformance* {
                            return new Conformance(subject, as_module, size,
                                                   check);
                          });
  }
}

// The module is the same code: one size shows that it is all there.
const bool registered = [] {
  std::cout << "DISTWRAP_TEST_SEED=" << test_seed() << std::endl;
  for (const Subject& subject : subjects()) {
    for (const int size : subject.sizes) register_tests(subject, false, size);
    if (!subject.module.empty())
      register_tests(subject, true, subject.sizes[subject.sizes.size() / 3]);
  }
  return true;
}();

TEST(ConformanceSubjects, AreRegistered) { EXPECT_TRUE(registered); }

}  // namespace
}  // namespace distwrap::conformance
