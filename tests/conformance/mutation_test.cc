// The checks, checked: backends that break one rule each must be caught.
#include "checks.h"
#include "distwrap/abi/note.h"

#include <gtest/gtest.h>

extern "C" const dw_backend_api* dw_plugin_query_v1_loopback(
    const dw_host_info*);

namespace distwrap::conformance {
namespace {

const dw_backend_api& sound() {
  static const dw_host_info kHost = {
      sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, DW_SANITIZER, 0,
      {"test", 4}};
  return *dw_plugin_query_v1_loopback(&kHost);
}

using Submit = int32_t (*)(dw_comm*, const dw_op*, dw_work*, dw_error*);

char* output(const dw_op* op) { return static_cast<char*>(op->out.data); }
char* input(const dw_op* op) { return static_cast<char*>(op->in.data); }

int32_t spoilt(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error,
               void (*spoil)(const dw_op*)) {
  const int32_t code = sound().submit(comm, op, work, error);
  if (code == DW_DONE && op->out.count > 0) spoil(op);
  return code;
}

int32_t wrong_sum(dw_comm* comm, const dw_op* op, dw_work* work,
                  dw_error* error) {
  return spoilt(comm, op, work, error, [](const dw_op* done) {
    if (done->reduce == DW_REDUCE_SUM) output(done)[0] ^= 1;
  });
}

int32_t writes_behind(dw_comm* comm, const dw_op* op, dw_work* work,
                      dw_error* error) {
  return spoilt(comm, op, work, error, [](const dw_op* done) {
    output(done)[done->out.count * done->out.dtype.bits / 8] = 0;
  });
}

int32_t writes_before(dw_comm* comm, const dw_op* op, dw_work* work,
                      dw_error* error) {
  return spoilt(comm, op, work, error,
                [](const dw_op* done) { output(done)[-1] = 0; });
}

int32_t writes_input(dw_comm* comm, const dw_op* op, dw_work* work,
                     dw_error* error) {
  return spoilt(comm, op, work, error,
                [](const dw_op* done) { input(done)[0] ^= 1; });
}

int32_t forgets_the_end(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
  if (op->kind == DW_OP_BARRIER || op->out.count < 2)
    return sound().submit(comm, op, work, error);
  dw_op shorter = *op;
  --shorter.in.count;
  --shorter.out.count;
  return sound().submit(comm, &shorter, work, error);
}

int32_t writes_what_it_refuses(dw_comm* comm, const dw_op* op, dw_work* work,
                               dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  if (code == DW_UNIMPLEMENTED && op->out.count > 0 && op->out.data != nullptr)
    output(op)[0] = 0x11;
  return code;
}

int32_t never_completes(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  return code == DW_DONE && work != nullptr ? DW_OK : code;
}

int32_t completes_twice(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  if (code != DW_DONE || work == nullptr) return code;
  host_table().complete(work, DW_OK, nullptr);
  host_table().complete(work, DW_OK, nullptr);
  return DW_OK;
}

int32_t completes_what_is_done(dw_comm* comm, const dw_op* op, dw_work* work,
                               dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  if (work != nullptr) host_table().complete(work, DW_OK, nullptr);
  return code;
}

int32_t pends_when_the_caller_waits(dw_comm* comm, const dw_op* op,
                                    dw_work* work, dw_error* error) {
  const int32_t code = sound().submit(comm, op, work, error);
  return code == DW_DONE ? DW_OK : code;
}

int32_t ignores_flags(dw_comm* comm, const dw_op* op, dw_work* work,
                      dw_error* error) {
  dw_op plain = *op;
  if (op->struct_size == sizeof plain) plain.flags &= 3u;
  return sound().submit(comm, op->struct_size == sizeof plain ? &plain : op,
                        work, error);
}

int32_t ignores_the_tail(dw_comm* comm, const dw_op* op, dw_work* work,
                         dw_error* error) {
  dw_op plain = *op;
  if (plain.struct_size > sizeof plain) plain.struct_size = sizeof plain;
  return sound().submit(comm, &plain, work, error);
}

int32_t says_nothing(dw_comm* comm, const dw_op* op, dw_error*) {
  return sound().query(comm, op, nullptr);
}

int32_t promises_everything(dw_comm*, const dw_op*, dw_error*) { return DW_OK; }

int32_t ignores_abort(dw_comm*, const dw_error*) { return DW_OK; }

int32_t takes_any_setup(dw_backend* backend, const dw_setup_info* info,
                        dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info good = *info;
  good.struct_size = sizeof good;
  good.flags = DW_SETUP_COMMUNICATOR;
  good.rank = 0;
  good.size = 1;
  good.n_hints = 0;
  return sound().setup_begin(backend, &good, setup, out, error);
}

struct Mutation {
  const char* name;
  CheckFunction caught_by;
  void (*mutate)(dw_backend_api&);
};

#define SUBMITS(function, check)                                          \
  {                                                                       \
#function, check, [](dw_backend_api & api) { api.submit = function; } \
  }

const Mutation kMutations[] = {
    SUBMITS(wrong_sum, check_waiting_calls),
    SUBMITS(writes_behind, check_waiting_calls),
    SUBMITS(writes_before, check_waiting_calls),
    SUBMITS(writes_input, check_waiting_calls),
    SUBMITS(forgets_the_end, check_waiting_calls),
    SUBMITS(pends_when_the_caller_waits, check_waiting_calls),
    SUBMITS(writes_what_it_refuses, check_refusals),
    SUBMITS(ignores_flags, check_refusals),
    SUBMITS(ignores_the_tail, check_growth),
    SUBMITS(never_completes, check_async_calls),
    SUBMITS(completes_twice, check_async_calls),
    SUBMITS(completes_what_is_done, check_async_calls),
    {"says_nothing", check_refusals,
     [](dw_backend_api& api) { api.query = says_nothing; }},
    {"promises_everything", check_refusals,
     [](dw_backend_api& api) { api.query = promises_everything; }},
    {"ignores_abort", check_abort,
     [](dw_backend_api& api) { api.comm_abort = ignores_abort; }},
    {"takes_any_setup", check_open,
     [](dw_backend_api& api) { api.setup_begin = takes_any_setup; }},
};

class MutationTest : public testing::TestWithParam<Mutation> {};

TEST_P(MutationTest, IsCaught) {
  // What never ends is given up soon: each of many operations waits once.
  const Limits limits = {std::chrono::milliseconds(1),
                         std::chrono::milliseconds(20000)};
  dw_backend_api broken = sound();
  GetParam().mutate(broken);
  Findings findings;
  GetParam().caught_by(broken, 1, limits, findings);
  EXPECT_FALSE(findings.empty());
}

TEST(SoundBackend, HasNoFindings) {
  for (const Check& check : all_checks()) {
    Findings findings;
    check.run(sound(), 1, {}, findings);
    EXPECT_TRUE(findings.empty()) << check.name << ": " << findings.text();
  }
}

INSTANTIATE_TEST_SUITE_P(All, MutationTest, testing::ValuesIn(kMutations),
                         [](const testing::TestParamInfo<Mutation>& mutation) {
                           return std::string(mutation.param.name);
                         });

}  // namespace
}  // namespace distwrap::conformance
