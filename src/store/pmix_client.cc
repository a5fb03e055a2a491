#include "store/pmix_client.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

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
    char* text;
    uint32_t u32;
    uint64_t room[4];
  } data;
};
constexpr uint16_t kString = 3, kUint32 = 14;
constexpr uint32_t kWholeJob = UINT32_MAX - 1;
constexpr char kLibrary[] = "libpmix.so.2";

using Init = int (*)(Process*, const void*, size_t);
using Get = int (*)(const Process*, const char*, const void*, size_t, Value**);
using Finalize = int (*)(const void*, size_t);

Finalize finalize = nullptr;

// A fact: its key, the rank that it is of, and what it is for people.
struct Fact {
  const char* key;
  uint32_t rank;
  const char* title;
};
constexpr Fact kJobSize = {"pmix.job.size", kWholeJob, "the world size"};
constexpr Fact kLocalSize = {"pmix.local.size", kWholeJob,
                             "the number of ranks on this host"};
constexpr Fact kFirstHost = {"pmix.hname", 0, "the host of rank 0"};

absl::Status failed(const Fact& fact, absl::string_view cause) {
  return base::make_error(
      {.reason = Reason::kLaunchMissing,
       .what = absl::StrCat("PMIx gave the rank, but its client library did "
                            "not give ",
                            fact.title),
       .op = "init",
       .cause = std::string(cause),
       .next_step = absl::StrCat("install ", kLibrary,
                                 ", or give rank and world_size")});
}

// This process as a client of the server.
struct Client {
  Process process = {};
  Get get = nullptr;
  std::string problem = {};  // "" when it is one
};

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

Client connect() {
  Client client;
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    client.problem = dlerror();
    return client;
  }
  const auto init = symbol<Init>(library, "PMIx_Init");
  client.get = symbol<Get>(library, "PMIx_Get");
  finalize = symbol<Finalize>(library, "PMIx_Finalize");
  if (init == nullptr || client.get == nullptr || finalize == nullptr) {
    client.problem = absl::StrCat(kLibrary, " lacks a function");
    return client;
  }
  if (const int code = init(&client.process, nullptr, 0); code != 0) {
    client.problem = absl::StrCat("PMIx_Init: ", code);
    return client;
  }
  // PMIx counts its initialisations, so an MPI library that finalizes earlier
  // does no harm.
  std::atexit([] { finalize(nullptr, 0); });
  return client;
}

const Client& own_client() {
  static const Client* const client = new Client(connect());
  return *client;
}

// Hands the fact's value to `read`, which says whether it could be read.
template <class Read>
absl::Status ask(const Fact& fact, const Read& read) {
  const Client& client = own_client();
  if (!client.problem.empty()) return failed(fact, client.problem);
  Process whom = client.process;
  whom.rank = fact.rank;
  Value* value = nullptr;
  if (const int code = client.get(&whom, fact.key, nullptr, 0, &value);
      code != 0 || value == nullptr)
    return failed(fact, absl::StrCat("PMIx_Get: ", code));
  const bool is_known = read(*value);
  std::free(value);
  return is_known ? absl::OkStatus()
                  : failed(fact, "the value has another type");
}

absl::StatusOr<int> number(const Fact& fact) {
  int number = 0;
  const absl::Status status = ask(fact, [&](const Value& value) {
    if (value.type != kUint32 || value.data.u32 == 0 ||
        value.data.u32 > INT32_MAX)
      return false;
    number = static_cast<int>(value.data.u32);
    return true;
  });
  if (!status.ok()) return status;
  return number;
}

}  // namespace

absl::StatusOr<int> pmix_job_size() { return number(kJobSize); }

absl::StatusOr<int> pmix_local_size() { return number(kLocalSize); }

absl::StatusOr<std::string> pmix_first_host() {
  std::string name;
  const absl::Status status = ask(kFirstHost, [&](const Value& value) {
    if (value.type != kString || value.data.text == nullptr) return false;
    name = value.data.text;
    std::free(value.data.text);
    return !name.empty();
  });
  if (!status.ok()) return status;
  return name;
}

}  // namespace distwrap::store
