#include "store/pmix_client.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>

namespace distwrap::store {
namespace {

// Types of the PMIx standard, whose layouts are stable since version 2.
struct Process {
  char name_space[256];
  uint32_t rank;
};
struct Value {
  uint16_t type;
  union {
    uint32_t u32;
    uint64_t room[4];
  } data;
};
constexpr uint16_t kUint32 = 14;
constexpr uint32_t kWholeJob = UINT32_MAX - 1;
constexpr char kJobSize[] = "pmix.job.size";
constexpr char kLibrary[] = "libpmix.so.2";

using Init = int (*)(Process*, const void*, size_t);
using Get = int (*)(const Process*, const char*, const void*, size_t, Value**);
using Finalize = int (*)(const void*, size_t);

Finalize finalize = nullptr;

absl::Status failed(absl::string_view cause) {
  return base::make_error(
      {.reason = Reason::kLaunchMissing,
       .what = "PMIx gave the rank, but its client library did not give the "
               "world size",
       .op = "init",
       .cause = std::string(cause),
       .next_step = absl::StrCat("install ", kLibrary,
                                 ", or give rank and world_size")});
}

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

absl::StatusOr<int> ask() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return failed(dlerror());
  const auto init = symbol<Init>(library, "PMIx_Init");
  const auto get = symbol<Get>(library, "PMIx_Get");
  finalize = symbol<Finalize>(library, "PMIx_Finalize");
  if (init == nullptr || get == nullptr || finalize == nullptr)
    return failed(absl::StrCat(kLibrary, " lacks a function"));
  Process process = {};
  if (const int code = init(&process, nullptr, 0); code != 0)
    return failed(absl::StrCat("PMIx_Init: ", code));
  // PMIx counts its initialisations, so an MPI library that finalizes earlier
  // does no harm.
  std::atexit([] { finalize(nullptr, 0); });
  process.rank = kWholeJob;
  Value* value = nullptr;
  if (const int code = get(&process, kJobSize, nullptr, 0, &value);
      code != 0 || value == nullptr)
    return failed(absl::StrCat("PMIx_Get: ", code));
  const bool is_size = value->type == kUint32 && value->data.u32 > 0 &&
                       value->data.u32 <= INT32_MAX;
  const int size = is_size ? static_cast<int>(value->data.u32) : 0;
  std::free(value);
  if (!is_size) return failed("the value is not a number");
  return size;
}

}  // namespace

absl::StatusOr<int> pmix_job_size() {
  static const absl::StatusOr<int>* const size = new absl::StatusOr<int>(ask());
  return *size;
}

}  // namespace distwrap::store
