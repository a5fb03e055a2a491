// ncclConfig_t in the form of each version of NCCL.
#include "nccl/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace distwrap::nccl_test {
namespace {

using nccl_backend::Hints;
using nccl_backend::kUnset;
using ::testing::HasSubstr;

// As nccl.h of 2.32.3 declares them. Older ones end earlier.
static_assert(offsetof(ncclConfig, size) == 0);
static_assert(offsetof(ncclConfig, magic) == 8);
static_assert(offsetof(ncclConfig, version) == 12);
static_assert(offsetof(ncclConfig, blocking) == 16);
static_assert(offsetof(ncclConfig, cgaClusterSize) == 20);
static_assert(offsetof(ncclConfig, minCTAs) == 24);
static_assert(offsetof(ncclConfig, maxCTAs) == 28);
static_assert(offsetof(ncclConfig, netName) == 32);
static_assert(offsetof(ncclConfig, splitShare) == 40);
static_assert(offsetof(ncclConfig, trafficClass) == 44);
static_assert(offsetof(ncclConfig, commName) == 48);
static_assert(offsetof(ncclConfig, collnetEnable) == 56);
static_assert(offsetof(ncclConfig, CTAPolicy) == 60);
static_assert(offsetof(ncclConfig, shrinkShare) == 64);
static_assert(offsetof(ncclConfig, nvlsCTAs) == 68);
static_assert(offsetof(ncclConfig, nChannelsPerNetPeer) == 72);
static_assert(offsetof(ncclConfig, nvlinkCentricSched) == 76);
static_assert(offsetof(ncclConfig, graphUsageMode) == 80);
static_assert(offsetof(ncclConfig, numRmaCtx) == 84);
static_assert(offsetof(ncclConfig, maxP2pPeers) == 88);
static_assert(offsetof(ncclConfig, graphStreamOrdering) == 92);
static_assert(offsetof(ncclConfig, launchOrderImplicit) == 96);
static_assert(offsetof(ncclConfig, numRmaSig) == 100);
static_assert(offsetof(ncclConfig, rmaEagerInit) == 104);
static_assert(offsetof(ncclConfig, hostCftMode) == 108);
static_assert(offsetof(ncclConfig, nvlsHostMode) == 112);

ncclConfig filled(int version, const Hints& hints = {}) {
  ncclConfig config;
  dw_error error = {};
  EXPECT_EQ(nccl_backend::fill_config(version, hints, &config, &error), DW_OK)
      << error.text;
  return config;
}

// The bytes are sizeof(ncclConfig_t) of the version that is named, and the
// version tells NCCL which fields they have.
TEST(NcclConfig, HasTheFormOfItsVersion) {
  const struct {
    int version;
    size_t bytes;
    unsigned form;
  } kForms[] = {{21903, 48, 21700}, {22005, 48, 21700},  {22304, 48, 21700},
                {22502, 48, 21700}, {22602, 48, 22600},  {22703, 72, 22703},
                {22803, 80, 22803}, {22809, 80, 22803},  {22902, 80, 22803},
                {23003, 80, 22803}, {23100, 120, 23100}, {23203, 120, 23100},
                {29900, 120, 23100}};
  for (const auto& form : kForms) {
    const ncclConfig config = filled(form.version);
    EXPECT_EQ(config.size, form.bytes) << form.version;
    EXPECT_EQ(config.version, form.form) << form.version;
    EXPECT_EQ(config.magic, 0xcafebeefU);
    EXPECT_EQ(config.blocking, 0);
    for (const int unset : {config.cgaClusterSize,
                            config.minCTAs,
                            config.maxCTAs,
                            config.splitShare,
                            config.trafficClass,
                            config.collnetEnable,
                            config.CTAPolicy,
                            config.shrinkShare,
                            config.nvlsCTAs,
                            config.nChannelsPerNetPeer,
                            config.nvlinkCentricSched,
                            config.graphUsageMode,
                            config.numRmaCtx,
                            config.maxP2pPeers,
                            config.graphStreamOrdering,
                            config.launchOrderImplicit,
                            config.numRmaSig,
                            config.rmaEagerInit,
                            config.hostCftMode,
                            config.nvlsHostMode})
      EXPECT_EQ(unset, kUnset) << form.version;
    EXPECT_EQ(config.netName, nullptr);
    EXPECT_EQ(config.commName, nullptr);
  }
}

// A hint's field is inside of the form that its first version gets, and the
// version before refuses the hint.
TEST(NcclConfig, HasTheFieldOfEachHint) {
#define NCCL_FIELD_HINT(name, field, first, least, most)                      \
  {                                                                           \
    Hints hints;                                                              \
    hints.name = most;                                                        \
    const ncclConfig config = filled(first, hints);                           \
    EXPECT_EQ(config.field, most) << #name;                                   \
    EXPECT_LE(offsetof(ncclConfig, field) + sizeof config.field, config.size) \
        << #name;                                                             \
    ncclConfig none;                                                          \
    dw_error error = {};                                                      \
    EXPECT_EQ(nccl_backend::fill_config(first - 1, hints, &none, &error),     \
              DW_INVALID_ARGUMENT)                                            \
        << #name;                                                             \
    EXPECT_THAT(error.text, HasSubstr(#name));                                \
  }
#include "nccl/hints.def"
  Hints named;
  named.net_name = "Socket";
  EXPECT_STREQ(filled(21903, named).netName, "Socket");
  named.comm_name = "world";
  EXPECT_STREQ(filled(22703, named).commName, "world");
  ncclConfig none;
  dw_error error = {};
  EXPECT_EQ(nccl_backend::fill_config(22702, named, &none, &error),
            DW_INVALID_ARGUMENT);
  EXPECT_THAT(error.text, HasSubstr("comm_name"));
}

}  // namespace
}  // namespace distwrap::nccl_test
