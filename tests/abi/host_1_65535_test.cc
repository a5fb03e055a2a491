// A host built with the imaginary headers of 1.65535, over a plugin of 1.0.
#include "abi/drive.h"
#include "plugin/backend_table.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <string.h>

static_assert(DW_ABI_MINOR == 65535, "built with the headers of 1.65535");
static_assert(sizeof(dw_op) == DW_OP_SIZE_1_0 + 8);
// 1.1 added two slots, 1.2 one, the imaginary version a fourth.
static_assert(sizeof(dw_backend_api) == DW_BACKEND_API_SIZE_1_0 + 4 * 8);

namespace distwrap::testing {
namespace {

plugin::BackendPtr load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  EXPECT_NE(library, nullptr) << dlerror();
  void* const symbol = dlsym(library, DW_PLUGIN_QUERY_SYMBOL);
  EXPECT_NE(symbol, nullptr);
  dw_plugin_query_fn query = nullptr;
  memcpy(&query, &symbol, sizeof query);
  dw_host_info info = {};
  info.struct_size = sizeof info;
  info.abi_major = DW_ABI_MAJOR;
  info.abi_minor = DW_ABI_MINOR;
  const auto backend = plugin::make_backend(query(&info), path);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *backend;
}

TEST(Host1_65535, OverAPluginOf1_0) {
  const plugin::BackendPtr backend = load(DW_TEST_PLUGINS "/echo_v1_0.so");
  EXPECT_EQ(backend->api().struct_size, sizeof(dw_backend_api));
  EXPECT_EQ(backend->api().abi_minor, 0);
  // The host reads nothing behind the plugin's own table.
  EXPECT_EQ(backend->api().comm_health, nullptr);

  OneRank rank(backend->api());
  echo_answer answer = {};
  EXPECT_EQ(rank.submit(sizeof(dw_op), &answer), DW_DONE);
  EXPECT_EQ(answer.own_size, DW_OP_SIZE_1_0);
  EXPECT_EQ(answer.given_size, sizeof(dw_op));
  answer = {};
  EXPECT_EQ(rank.submit(sizeof(dw_op), &answer, 0,
                        [](dw_op* op) { op->priority = 5; }),
            DW_INCOMPATIBLE);
  EXPECT_EQ(answer.given_size, 0u);
}

TEST(Host1_65535, OverAPluginOf1_65535) {
  const plugin::BackendPtr backend = load(DW_TEST_PLUGINS "/echo_v1_65535.so");
  ASSERT_NE(backend->api().comm_health, nullptr);
  OneRank rank(backend->api());
  EXPECT_EQ(backend->api().comm_health(rank.comm(), nullptr), DW_OK);
  echo_answer answer = {};
  EXPECT_EQ(rank.submit(sizeof(dw_op), &answer, 0,
                        [](dw_op* op) { op->priority = 5; }),
            DW_DONE);
  EXPECT_EQ(answer.priority, 5u);
}

}  // namespace
}  // namespace distwrap::testing
