// Every check over every backend, linked in and as a module.
#include "checks.h"
#include "distwrap/abi/note.h"
#include "subjects.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <string>

namespace distwrap::conformance {
namespace {

const dw_host_info kHost = {
    sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, DW_SANITIZER, 0,
    {"test", 4}};

const dw_backend_api* from_module(const std::string& name) {
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
        as_module_ ? from_module(subject_.name) : subject_.linked_in(&kHost);
    ASSERT_NE(api, nullptr) << "no table";
    ASSERT_EQ(std::string(api->name.data, api->name.size), subject_.name);
    Findings findings;
    check_.run(*api, size_, {}, findings);
    EXPECT_TRUE(findings.empty()) << findings.text();
  }

 private:
  const Subject subject_;
  const bool as_module_;
  const int size_;
  const Check check_;
};

void register_tests(const Subject& subject, bool as_module, int size) {
  const std::string suite = std::string(subject.name) + "_" +
                            (as_module ? "module" : "linked") + "_" +
                            std::to_string(size);
  for (const Check& check : all_checks())
    testing::RegisterTest(suite.c_str(), check.name, nullptr, nullptr, __FILE__,
                          __LINE__, [=]() -> Conformance* {
                            return new Conformance(subject, as_module, size,
                                                   check);
                          });
}

// The module is the same code: one size shows that it is all there.
const bool registered = [] {
  for (const Subject& subject : subjects()) {
    for (const int size : subject.sizes) register_tests(subject, false, size);
    register_tests(subject, true, subject.sizes[subject.sizes.size() / 3]);
  }
  return true;
}();

TEST(ConformanceSubjects, AreRegistered) { EXPECT_TRUE(registered); }

}  // namespace
}  // namespace distwrap::conformance
