#include "unit/comm/fake_backend.h"

#include <gtest/gtest.h>

// The objects of the ABI that a fake needs to tell apart.
struct dw_backend {};
struct dw_comm {};
struct dw_setup {
  int round = 0;
};
struct dw_mem {};

namespace distwrap::comm {
namespace {

FakeBackend* fake = nullptr;
dw_backend the_backend;
dw_comm the_comm;
dw_mem the_memory;

constexpr dw_caps_row kEverything{
    ~uint64_t{0}, ~uint64_t{0}, ~0u, ~0u, ~0u, 0, 0, 0};

int32_t open(const dw_host_api* host, const dw_open_info*, dw_backend** backend,
             dw_error*) {
  fake->host = host;
  *backend = &the_backend;
  return DW_OK;
}
void close(dw_backend*) { ++fake->closes; }
int32_t caps(dw_backend*, const dw_caps_row** rows, uint64_t* n, dw_error*) {
  *rows = &kEverything;
  *n = 1;
  return DW_OK;
}
int32_t setup_begin(dw_backend*, const dw_setup_info*, dw_setup** setup,
                    dw_blob* out, dw_error*) {
  *setup = new dw_setup;
  *out = {"hi", 2, nullptr, 0};
  return DW_OK;
}
int32_t setup_step(dw_setup* setup, const dw_blob*, uint64_t, dw_blob*,
                   dw_setup_result* result, dw_error* error) {
  const int round = setup->round++;
  const int32_t code = fake->step ? fake->step(round, error) : DW_DONE;
  if (code == DW_OK) return code;
  delete setup;
  if (code == DW_DONE) *result = {&the_comm, nullptr};
  return code;
}
void setup_cancel(dw_setup* setup) {
  ++fake->cancels;
  delete setup;
}
int32_t comm_abort(dw_comm*, const dw_error*) {
  ++fake->aborts;
  if (fake->abort) fake->abort();
  return DW_OK;
}
int32_t comm_destroy(dw_comm*, int64_t, dw_error*) {
  ++fake->destroys;
  return DW_OK;
}
int32_t query(dw_comm*, const dw_op*, dw_error*) { return DW_OK; }
int32_t submit(dw_comm*, const dw_op* op, dw_work* work, dw_error* error) {
  ++fake->submits;
  return fake->submit ? fake->submit(*op, work, error) : DW_DONE;
}

int32_t progress(dw_backend*) { return fake->progress(); }
int32_t wait_fd(dw_backend*, int32_t* fd) {
  *fd = fake->wait_fd;
  return DW_OK;
}
int32_t arm(dw_backend*) { return fake->arm(); }
int32_t mem_register(dw_backend*, void* address, uint64_t bytes,
                     dw_mem** memory, dw_error*) {
  const int32_t code = fake->mem_register(address, bytes);
  if (code == DW_OK) *memory = &the_memory;
  return code;
}
int32_t mem_release(dw_backend* /*backend*/, dw_mem* memory, dw_error* error) {
  EXPECT_EQ(memory, &the_memory);
  return fake->mem_release(error);
}
int32_t submit_group(dw_backend*, const dw_group_item* items, uint64_t n,
                     dw_error* error) {
  return fake->submit_group ? fake->submit_group(items, n, error) : DW_DONE;
}

}  // namespace

FakeBackend::FakeBackend(uint32_t flags) {
  EXPECT_EQ(fake, nullptr);
  fake = this;
  api_.struct_size = sizeof api_;
  api_.abi_major = DW_ABI_MAJOR;
  api_.flags = flags;
  api_.devices = 1u << DW_DEVICE_CPU | 1u << DW_DEVICE_CUDA;
  api_.name = {"fake", 4};
  api_.version = {"1", 1};
  api_.open = comm::open;
  api_.close = comm::close;
  api_.caps = comm::caps;
  api_.setup_begin = comm::setup_begin;
  api_.setup_step = comm::setup_step;
  api_.setup_cancel = comm::setup_cancel;
  api_.comm_abort = comm::comm_abort;
  api_.comm_destroy = comm::comm_destroy;
  api_.query = comm::query;
  api_.submit = comm::submit;
  api_.submit_group = comm::submit_group;
}

FakeBackend::~FakeBackend() { fake = nullptr; }

std::shared_ptr<BackendInstance> FakeBackend::open(Device device) {
  if (progress) api_.progress = comm::progress;
  if (arm) {
    api_.wait_fd = comm::wait_fd;
    api_.arm = comm::arm;
  }
  if (mem_register) api_.mem_register = comm::mem_register;
  if (mem_release) api_.mem_release = comm::mem_release;
  const auto table = plugin::make_backend(&api_, "a test");
  EXPECT_TRUE(table.ok()) << table.status();
  auto instance = BackendInstance::open(*table, device, {});
  EXPECT_TRUE(instance.ok()) << instance.status();
  return *std::move(instance);
}

}  // namespace distwrap::comm
