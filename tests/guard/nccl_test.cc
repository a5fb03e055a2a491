// The door before a libnccl.so.2 that the program links, which counts the calls
// that reach it.
#include "distwrap/distwrap.h"
#include "distwrap/guard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

extern "C" {
#define MPI(symbol)
#define UCX(symbol)
#define GLOO(symbol)
#define NCCL(symbol) int symbol(void*, void*, long, int, int, void*, void*);
#define DW_GUARDED(symbol, library, instead) library(symbol)
#include "guard/guarded_calls.def"
#undef NCCL
int ncclCommDestroy(void*);
int ncclCommCount(void*, int*);
int counted_calls(const char* name);
}

namespace distwrap {
namespace {

struct Function {
  const char* name;
  int (*call)(void*, void*, long, int, int, void*, void*);
};

const std::vector<Function> kFunctions = {
#define NCCL(symbol) {#symbol, &symbol},
#define DW_GUARDED(symbol, library, instead) library(symbol)
#include "guard/guarded_calls.def"
};

// Calls each function once; `reach`: whether NCCL should see it.
void call_all(bool reach) {
  for (const Function& one : kFunctions) {
    const int before = counted_calls(one.name);
    const int result = one.call(nullptr, nullptr, 1, 2, 3, nullptr, nullptr);
    EXPECT_EQ(result, reach ? 0 : 5) << one.name;
    EXPECT_EQ(counted_calls(one.name), before + (reach ? 1 : 0)) << one.name;
  }
}

TEST(Nccl, EachFunctionIsRefusedWhileASessionGuards) {
  ASSERT_EQ(kFunctions.size(), 14u);
  call_all(true);
  const auto session = Session::create(
      {.rank = 0, .world_size = 1, .guard = GuardMode::kRequire});
  ASSERT_TRUE(session.ok()) << session.status();
  call_all(false);
  int count = 0;
  EXPECT_EQ(ncclCommCount(nullptr, &count), 0);
  EXPECT_EQ(count, 1) << "a query passes";
  EXPECT_EQ(ncclCommDestroy(nullptr), 0) << "an end passes";
  {
    const GuardAllow allow("a test");
    call_all(true);
  }
  call_all(false);
  EXPECT_TRUE(session->close().ok());
  call_all(true);
}

}  // namespace
}  // namespace distwrap
