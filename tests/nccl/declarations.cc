// Compares the backend's declarations of NCCL, functions included, with the
// nccl.h of a real one;
// real_libraries.py compiles it with each, and links nothing.
#include <climits>

#include <cstddef>
#include <cstdint>
#include <type_traits>

struct CUstream_st;
namespace ours {
using ::CUstream_st;
#include "nccl/nccl_types.h"
#define NCCL_SYMBOL(type, name, parameters) type name parameters;
#define NCCL_OPTIONAL(type, name, parameters) type name parameters;
#include "nccl/symbols.def"
constexpr int kShrink = NCCL_SHRINK_DEFAULT, kRevoke = NCCL_REVOKE_DEFAULT;
constexpr int kSymmetric = NCCL_WIN_COLL_SYMMETRIC;
constexpr int kAlignment = NCCL_WIN_REQUIRED_ALIGNMENT;
}  // namespace ours

// This header has macros with the names of the declarations above.
#include <nccl.h>

#define EQUAL(name) \
  static_assert(static_cast<int>(::name) == static_cast<int>(ours::name), #name)
#define FIELD(name)                                                       \
  static_assert(                                                          \
      offsetof(ncclConfig_t, name) == offsetof(ours::ncclConfig, name) && \
          sizeof(ncclConfig_t::name) == sizeof(ours::ncclConfig::name) && \
          std::is_pointer_v<decltype(ncclConfig_t::name)> ==              \
              std::is_pointer_v<decltype(ours::ncclConfig::name)>,        \
      #name)
// Whether a caller by one type passes what the other one takes: integers and
// enums of one size, structs of one size, pointers to the like of each other.
template <class A, class B>
constexpr bool alike() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_void_v<A> == std::is_void_v<B>;
  else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using To = std::remove_cv_t<std::remove_pointer_t<A>>;
    using ToOurs = std::remove_cv_t<std::remove_pointer_t<B>>;
    // An opaque struct has another name there.
    if constexpr (std::is_class_v<To> && std::is_class_v<ToOurs>)
      return true;
    else
      return alike<To, ToOurs>();
  } else if constexpr (std::is_class_v<A> && std::is_class_v<B>)
    return sizeof(A) == sizeof(B);
  else
    return (std::is_integral_v<A> ||
            std::is_enum_v<A>)&&std::is_integral_v<B> &&
           sizeof(A) == sizeof(B);
}
template <class A, class B>
struct Alike;
template <class R, class... A, class S, class... B>
struct Alike<R(A...), S(B...)> {
  static constexpr bool kSame = [] {
    if constexpr (sizeof...(A) == sizeof...(B))
      return alike<R, S>() && (alike<A, B>() && ...);
    return false;
  }();
};
#define FUNCTION(name) \
  static_assert(Alike<decltype(::name), decltype(ours::name)>::kSame, #name);
#define NCCL_SYMBOL(type, name, parameters) FUNCTION(name)
#include "nccl/symbols.def"

#define SINCE(major, minor, patch) \
  (NCCL_VERSION_CODE >= NCCL_VERSION(major, minor, patch))

EQUAL(ncclSuccess);
EQUAL(ncclUnhandledCudaError);
EQUAL(ncclSystemError);
EQUAL(ncclInternalError);
EQUAL(ncclInvalidArgument);
EQUAL(ncclInvalidUsage);
EQUAL(ncclRemoteError);
EQUAL(ncclInProgress);
EQUAL(ncclInt8);
EQUAL(ncclUint8);
EQUAL(ncclInt32);
EQUAL(ncclUint32);
EQUAL(ncclInt64);
EQUAL(ncclUint64);
EQUAL(ncclFloat16);
EQUAL(ncclFloat32);
EQUAL(ncclFloat64);
EQUAL(ncclSum);
EQUAL(ncclProd);
EQUAL(ncclMax);
EQUAL(ncclMin);
EQUAL(ncclAvg);
EQUAL(ncclNumOps);
EQUAL(ncclScalarDevice);
EQUAL(ncclScalarHostImmediate);
static_assert(sizeof(ncclUniqueId) == sizeof(ours::ncclUniqueId));
FIELD(size);
FIELD(magic);
FIELD(version);
FIELD(blocking);
FIELD(cgaClusterSize);
FIELD(minCTAs);
FIELD(maxCTAs);
FIELD(netName);
FIELD(splitShare);
#if SINCE(2, 23, 4)
FUNCTION(ncclCommInitRankScalable)
#endif
#if SINCE(2, 24, 3)
EQUAL(ncclFloat8e4m3);
EQUAL(ncclFloat8e5m2);
#endif
#if SINCE(2, 27, 3)
FIELD(trafficClass);
FIELD(commName);
FIELD(collnetEnable);
FIELD(CTAPolicy);
FIELD(shrinkShare);
FIELD(nvlsCTAs);
#endif
#if SINCE(2, 27, 3)
FUNCTION(ncclCommShrink)
FUNCTION(ncclCommWindowRegister)
static_assert(NCCL_SHRINK_DEFAULT == ours::kShrink);
static_assert(NCCL_WIN_COLL_SYMMETRIC == ours::kSymmetric);
#endif
#if SINCE(2, 28, 7)
FUNCTION(ncclCommRevoke)
static_assert(NCCL_REVOKE_DEFAULT == ours::kRevoke);
#endif
#if SINCE(2, 28, 3)
FUNCTION(ncclAlltoAll)
FUNCTION(ncclGather)
FUNCTION(ncclScatter)
static_assert(NCCL_WIN_REQUIRED_ALIGNMENT == ours::kAlignment);
FIELD(nChannelsPerNetPeer);
FIELD(nvlinkCentricSched);
#endif
#if SINCE(2, 29, 2)
FUNCTION(ncclPutSignal)
FUNCTION(ncclSignal)
FUNCTION(ncclWaitSignal)
static_assert(sizeof(ncclWaitSignalDesc_t) == sizeof(ours::ncclWaitSignalDesc));
static_assert(offsetof(ncclWaitSignalDesc_t, sigIdx) ==
              offsetof(ours::ncclWaitSignalDesc, sigIdx));
#endif
#if SINCE(2, 31, 0)
EQUAL(ncclTimeout);
FIELD(launchOrderImplicit);
FIELD(numRmaSig);
FIELD(nvlsHostMode);
static_assert(sizeof(ncclConfig_t) == sizeof(ours::ncclConfig));
#endif
#if SINCE(2, 32, 3)
FUNCTION(ncclSetEncryption)
static_assert(sizeof(ncclEncryptionConfig_t) ==
              sizeof(ours::ncclEncryptionConfig));
static_assert(offsetof(ncclEncryptionConfig_t, psk) ==
              offsetof(ours::ncclEncryptionConfig, psk));
#endif
