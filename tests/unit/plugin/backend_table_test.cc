#include "plugin/backend_table.h"

#include "distwrap/abi/read.h"
#include "scratch.h"

#include <gtest/gtest.h>

#include <stddef.h>
#include <string.h>

namespace distwrap::plugin {
namespace {

// 1.1 added two slots, 1.2 one.
static_assert(sizeof(dw_backend_api) == DW_BACKEND_API_SIZE_1_0 + 3 * 8);

// A table with the required slots only.
dw_backend_api minimal() {
  dw_backend_api api = {};
  api.struct_size = sizeof api;
  api.abi_major = DW_ABI_MAJOR;
  api.name = {"least", 5};
  api.version = {"2", 1};
  api.open = [](const dw_host_api*, const dw_open_info*, dw_backend**,
                dw_error*) { return int32_t{DW_UNAVAILABLE}; };
  api.close = [](dw_backend*) {};
  api.caps = [](dw_backend*, const dw_caps_row**, uint64_t*, dw_error*) {
    return int32_t{DW_OK};
  };
  api.setup_begin = [](dw_backend*, const dw_setup_info*, dw_setup**, dw_blob*,
                       dw_error*) { return int32_t{DW_OK}; };
  api.setup_step = [](dw_setup*, const dw_blob*, uint64_t, dw_blob*,
                      dw_setup_result*, dw_error*) { return int32_t{DW_OK}; };
  api.setup_cancel = [](dw_setup*) {};
  api.comm_abort = [](dw_comm*, const dw_error*) { return int32_t{DW_OK}; };
  api.comm_destroy = [](dw_comm*, int64_t, dw_error*) {
    return int32_t{DW_OK};
  };
  api.query = [](dw_comm*, const dw_op*, dw_error*) { return int32_t{DW_OK}; };
  api.submit = [](dw_comm*, const dw_op*, dw_work*, dw_error*) {
    return int32_t{DW_DONE};
  };
  return api;
}

absl::Status status_of(const dw_backend_api& api) {
  return make_backend(&api, "here").status();
}

TEST(BackendTable, SlotsListIsComplete) {
  size_t slots = 0;
#define DW_SLOT(slot, required)                         \
  EXPECT_EQ(offsetof(dw_backend_api, slot),             \
            offsetof(dw_backend_api, open) + 8 * slots) \
      << #slot;                                         \
  ++slots;
#include "plugin/slots.def"
  EXPECT_EQ(sizeof(dw_backend_api), offsetof(dw_backend_api, open) + 8 * slots);
}

TEST(BackendTable, IsACopy) {
  char name[] = "least";
  dw_backend_api from = minimal();
  from.name.data = name;
  const absl::StatusOr<BackendPtr> backend = make_backend(&from, "linked in");
  ASSERT_TRUE(backend.ok()) << backend.status();
  name[0] = 'X';
  const auto open = from.open;
  memset(static_cast<void*>(&from), 0, sizeof from);
  EXPECT_EQ((*backend)->name(), "least");
  EXPECT_EQ((*backend)->version(), "2");
  EXPECT_EQ((*backend)->origin(), "linked in");
  EXPECT_EQ((*backend)->api().open, open);
  EXPECT_EQ(std::string((*backend)->api().name.data), "least");
  EXPECT_EQ((*backend)->api().struct_size, sizeof(dw_backend_api));
}

TEST(BackendTable, EmptySlotsAnswer) {
  const dw_backend_api from = minimal();
  const absl::StatusOr<BackendPtr> backend = make_backend(&from, "here");
  ASSERT_TRUE(backend.ok());
  const dw_backend_api& api = (*backend)->api();
#define DW_SLOT(slot, required) EXPECT_NE(api.slot, nullptr) << #slot;
#include "plugin/slots.def"
  dw_error error;
  memset(&error, 0xff, sizeof error);
  EXPECT_EQ(api.mem_alloc(nullptr, 1, nullptr, nullptr, &error),
            DW_UNIMPLEMENTED);
  EXPECT_EQ(error.code, DW_UNIMPLEMENTED);
  EXPECT_EQ(error.reason, DW_REASON_UNSUPPORTED);
  EXPECT_EQ(error.peer, -1);
  EXPECT_EQ(error.native, 0);
  EXPECT_EQ(std::string(error.text), "the backend does not have mem_alloc");
  EXPECT_EQ(api.plan_start(nullptr, nullptr, &error), DW_UNIMPLEMENTED);
  EXPECT_EQ(std::string(error.text), "the backend does not have plan_start");
  EXPECT_EQ(api.plan_start(nullptr, nullptr, nullptr), DW_UNIMPLEMENTED);
  EXPECT_EQ(api.submit_group(nullptr, nullptr, 0, nullptr), DW_UNIMPLEMENTED);
  int32_t fd = 7;
  EXPECT_EQ(api.wait_fd(nullptr, &fd), DW_UNIMPLEMENTED);
  EXPECT_EQ(fd, 7);
  EXPECT_EQ(api.arm(nullptr), DW_UNIMPLEMENTED);
  EXPECT_EQ(api.progress(nullptr), 0);
  EXPECT_EQ(api.extension(nullptr, {"x-y", 3}, 0), nullptr);
}

TEST(BackendTable, EveryRequiredSlotIsNamed){
#define DW_SLOT(slot, required)                                     \
  {                                                                 \
    dw_backend_api api = minimal();                                 \
    api.slot = nullptr;                                             \
    if (required)                                                   \
      expect_refused(status_of(api), Refusal::kMissingSlot, #slot); \
    else                                                            \
      EXPECT_TRUE(status_of(api).ok()) << #slot;                    \
  }
#include "plugin/slots.def"
}

TEST(BackendTable, SizesAndVersions) {
  expect_refused(make_backend(nullptr, "here").status(), Refusal::kNoTable);
  dw_backend_api api = minimal();
  for (uint32_t size : {0u, 8u, DW_BACKEND_API_SIZE_1_0 - 1}) {
    api.struct_size = size;
    expect_refused(status_of(api), Refusal::kBadTable, "struct_size");
  }
  api = minimal();
  api.abi_major = 2;
  api.abi_minor = 5;
  expect_refused(status_of(api), Refusal::kWrongAbi, "2.5");
  api = minimal();
  api.abi_minor = 99;
  EXPECT_TRUE(status_of(api).ok());
}

TEST(BackendTable, ALongerTableIsAnOffer) {
  struct {
    dw_backend_api api;
    void (*newer)();
  } longer = {minimal(), [] {}};
  longer.api.struct_size = sizeof longer;
  const absl::StatusOr<BackendPtr> backend = make_backend(&longer.api, "here");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->api().struct_size, sizeof(dw_backend_api));
}

TEST(BackendTable, Data) {
  for (const char* name : {"a", "gloo", "x_1"}) {
    dw_backend_api api = minimal();
    api.name = {name, strlen(name)};
    EXPECT_TRUE(status_of(api).ok()) << name;
  }
  for (const char* name :
       {"A", "1a", "_a", "a-b", "a b", "a/b", "\xc3\xa9", "a\n"}) {
    dw_backend_api api = minimal();
    api.name = {name, strlen(name)};
    expect_refused(status_of(api), Refusal::kBadTable, "name");
  }
  dw_backend_api api = minimal();
  const std::string long_name(65, 'a');
  api.name = {long_name.data(), long_name.size()};
  expect_refused(status_of(api), Refusal::kBadTable, "name");
  api = minimal();
  api.name = {nullptr, 5};
  expect_refused(status_of(api), Refusal::kMissingSlot, "name");
  api = minimal();
  api.version = {nullptr, 5};
  expect_refused(status_of(api), Refusal::kBadTable, "version");
  api.version = {nullptr, 0};
  EXPECT_TRUE(status_of(api).ok());
  api = minimal();
  api.flags = 0x100 | 0x1000'0000;
  expect_refused(status_of(api), Refusal::kBadTable, "unknown flags 0x100");
  api.flags = 0x1000'0000;
  EXPECT_TRUE(status_of(api).ok());
  api = minimal();
  api.n_hints = 1;
  expect_refused(status_of(api), Refusal::kBadTable, "hints");
  const dw_str hints[] = {{"a.b", 3}, {nullptr, 3}};
  api.hints = hints;
  EXPECT_TRUE(status_of(api).ok());
  api.n_hints = 2;
  expect_refused(status_of(api), Refusal::kBadTable, "hint 1");
  api.n_hints = UINT64_MAX;
  expect_refused(status_of(api), Refusal::kBadTable, "hints");
}

}  // namespace
}  // namespace distwrap::plugin
