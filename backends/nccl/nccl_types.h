// NCCL's types, as much of them as this backend uses. They are declared here
// because one build has to serve every NCCL from 2.19 on, on machines that have
// no NCCL, too. The names of values are NCCL's.
#ifndef DISTWRAP_BACKENDS_NCCL_NCCL_TYPES_H_
#define DISTWRAP_BACKENDS_NCCL_NCCL_TYPES_H_

#include <climits>

#include <cstddef>
#include <cstdint>

extern "C" {

struct ncclComm;
struct ncclWindow_vidmem;  // ncclWindow_t points to one
struct CUstream_st;

// ncclResult_t. NCCL's enumerations have the size of an int.
enum : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,  // since 2.30.3
};

// ncclDataType_t
enum : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,  // since 2.24.3
  ncclFloat8e5m2 = 11,
};

// ncclRedOp_t. Reductions that ncclRedOpCreatePreMulSum makes have larger
// values.
enum : int {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
};

// ncclScalarResidence_t
enum : int { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

// Flags of ncclCommShrink and ncclCommRevoke.
enum : int { NCCL_SHRINK_DEFAULT = 0, NCCL_REVOKE_DEFAULT = 0 };

// The flag of ncclCommWindowRegister that is used, and its rule.
enum : int {
  NCCL_WIN_COLL_SYMMETRIC = 1,
  NCCL_WIN_REQUIRED_ALIGNMENT = 4096,
};

// ncclWaitSignalDesc_t: so many signals of one rank.
struct ncclWaitSignalDesc {
  int opCnt, peer, sigIdx, ctx;
};

struct ncclUniqueId {
  char internal[128];
};

// ncclConfig_t. Newer versions have appended fields; `size` and `version` tell
// the library how much of it there is. The comments name the first version of
// each form.
struct ncclConfig {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char* netName;
  int splitShare;    // the form of 2.18 ends here
  int trafficClass;  // 2.26
  const char* commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs;  // 2.27.3
  int nChannelsPerNetPeer, nvlinkCentricSched;          // 2.28.3
  // 2.31; some of these are older, in forms that are not used.
  int graphUsageMode, numRmaCtx, maxP2pPeers, graphStreamOrdering;
  int launchOrderImplicit, numRmaSig, rmaEagerInit, hostCftMode, nvlsHostMode;
};

// ncclEncryptionConfig_t
enum : int { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 };
struct ncclEncryptionConfig {
  size_t size;
  unsigned magic, version;
  int mode;
  const char* psk;
};

}  // extern "C"

namespace nccl_backend {

inline constexpr unsigned kConfigMagic = 0xcafebeef;
inline constexpr int kUnset = INT_MIN;  // an int in ncclConfig without a value

// The number by which NCCL reports a version.
constexpr int version_code(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_NCCL_TYPES_H_
