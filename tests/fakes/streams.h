// A device with streams: queues, each with a thread that runs one operation
// after the other. Its memory is the host's.
//
//   fakes::FakeStream stream;
//   stream.put([&] { x[0] = 5; });   // runs some time later
//   all_reduce(view_on_device(x), ReduceOp::kSum, {.stream = stream.handle()});
//   stream.synchronize();
//
// `with_streams<perfect_table>()` is a backend of that device on top of a
// backend with all operations whose callers may wait. An operation on a stream
// runs there; an asynchronous one without a stream runs on a stream of its own.
#ifndef DISTWRAP_TESTS_FAKES_STREAMS_H_
#define DISTWRAP_TESTS_FAKES_STREAMS_H_

#include "distwrap/abi/plugin.h"
#include "distwrap/types.h"
#include "fakes/second_device.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace distwrap::fakes {

// An event that happens once.
class Event {
 public:
  void happen();
  void wait();
  bool has_happened();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
};

class FakeStream {
 public:
  FakeStream();
  // Waits until everything that was put on the stream has run.
  ~FakeStream();
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  void put(std::function<void()> task);
  void synchronize();
  Stream handle() { return {{DW_DEVICE_CUDA, 0}, this}; }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

// The slots of a backend of that device, which runs operations by `submit` with
// a waiting caller.
using Submit = int32_t (*)(dw_comm*, const dw_op*, dw_work*, dw_error*);
int32_t submit_on_stream(Submit submit, dw_comm* comm, const dw_op* op,
                         dw_work* work);
int32_t work_wait_stream(dw_comm* comm, dw_work* work, const dw_stream* stream,
                         dw_error* error);
// Sets the host's `complete`, by which the backend reports ends.
void complete_by(void (*complete)(dw_work*, int32_t, const dw_error*));

template <TableFunction kInner>
struct WithStreams {
  static int32_t open(const dw_host_api* host, const dw_open_info* info,
                      dw_backend** backend, dw_error* error) {
    complete_by(host->complete);
    return OnCuda<kInner>::open(host, info, backend, error);
  }
  // The rows without operations that a stream would have to copy.
  static int32_t caps(dw_backend* backend, const dw_caps_row** rows,
                      uint64_t* n, dw_error* error) {
    static std::vector<dw_caps_row> plain;
    const dw_caps_row* all;
    if (int32_t code = OnCuda<kInner>::caps(backend, &all, n, error))
      return code;
    static const bool kMade = [&] {
      plain.assign(all, all + *n);
      for (dw_caps_row& row : plain)
        row.flags &= ~uint32_t{DW_FLAG_PER_RANK | DW_FLAG_PARTS};
      return true;
    }();
    static_cast<void>(kMade);
    *rows = plain.data();
    return DW_OK;
  }
  static int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work,
                        dw_error* error) {
    if (op->stream.native == nullptr)
      return kInner().submit(comm, op, work, error);
    return submit_on_stream(kInner().submit, comm, op, work);
  }
  static int32_t submit_group(dw_backend*, const dw_group_item* items,
                              uint64_t n, dw_error* error) {
    for (uint64_t i = 0; i < n; ++i)
      submit(items[i].comm, items[i].op, items[i].work, error);
    return DW_OK;
  }
};

template <TableFunction kInner>
const dw_backend_api& with_streams() {
  static const dw_backend_api table = [] {
    dw_backend_api api = on_cuda<kInner>();
    api.name = {"streams", 7};
    api.flags |= DW_BACKEND_STREAMS;
    api.open = WithStreams<kInner>::open;
    api.caps = WithStreams<kInner>::caps;
    api.submit = WithStreams<kInner>::submit;
    api.submit_group = WithStreams<kInner>::submit_group;
    api.work_wait_stream = work_wait_stream;
    return api;
  }();
  return table;
}

}  // namespace distwrap::fakes

#endif  // DISTWRAP_TESTS_FAKES_STREAMS_H_
