#include "config.h"

#include "library.h"
#include "sdk/fail.h"

#include <iterator>
#include <string>

namespace nccl_backend {
namespace {

// The forms, newest first. NCCL fills up a shorter form with its own defaults,
// so newer versions, whose further fields no hint sets, get the last one.
struct FormOfConfig {
  int since;
  size_t bytes;
};
constexpr size_t up_to(size_t end) { return (end + 7) / 8 * 8; }
constexpr FormOfConfig kForms[] = {
    {23100, sizeof(ncclConfig)},
    {22803, up_to(offsetof(ncclConfig, graphUsageMode))},
    {22703, up_to(offsetof(ncclConfig, nChannelsPerNetPeer))},
    {22600, up_to(offsetof(ncclConfig, commName))},
    {21700, up_to(offsetof(ncclConfig, trafficClass))},
};
static_assert(sizeof(ncclConfig) == 120);
static_assert(up_to(offsetof(ncclConfig, graphUsageMode)) == 80);
static_assert(offsetof(ncclConfig, splitShare) == 40);

const FormOfConfig& form_of(int version) {
  for (const FormOfConfig& form : kForms)
    if (version >= form.since) return form;
  return kForms[std::size(kForms) - 1];
}

int32_t too_old(const char* hint, int since, int version, dw_error* error) {
  const std::string text = std::string("nccl: hint ") + hint + " needs NCCL " +
                           version_text(since) + "; this is NCCL " +
                           version_text(version);
  return dw_invalid(error, text.c_str());
}

}  // namespace

int32_t fill_config(int version, const Hints& hints, ncclConfig* config,
                    dw_error* error) {
  const FormOfConfig& form = form_of(version);
  *config = {};
  config->size = form.bytes;
  config->magic = kConfigMagic;
  // The version of the form, not of the library: NCCL reads from it which
  // fields there are.
  config->version = static_cast<unsigned>(form.since);
  config->cgaClusterSize = config->minCTAs = config->maxCTAs = kUnset;
  config->splitShare = config->trafficClass = kUnset;
  config->collnetEnable = config->CTAPolicy = config->shrinkShare = kUnset;
  config->nvlsCTAs = config->nChannelsPerNetPeer = kUnset;
  config->nvlinkCentricSched = kUnset;
  config->graphUsageMode = config->numRmaCtx = config->maxP2pPeers = kUnset;
  config->graphStreamOrdering = config->launchOrderImplicit = kUnset;
  config->numRmaSig = config->rmaEagerInit = config->hostCftMode = kUnset;
  config->nvlsHostMode = kUnset;
  config->blocking = 0;
#define NCCL_FIELD_HINT(name, field, first, least, most)               \
  if (hints.name != kUnset) {                                          \
    if (version < first) return too_old(#name, first, version, error); \
    config->field = hints.name;                                        \
  }
#include "hints.def"
  if (!hints.net_name.empty()) config->netName = hints.net_name.c_str();
  if (!hints.comm_name.empty()) {
    if (version < 22703) return too_old("comm_name", 22703, version, error);
    config->commName = hints.comm_name.c_str();
  }
  return DW_OK;
}

}  // namespace nccl_backend
