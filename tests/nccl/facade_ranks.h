// The facade over the backend and the fakes: sessions of ranks as threads, each
// with a device of its own.
#ifndef DISTWRAP_TESTS_NCCL_FACADE_RANKS_H_
#define DISTWRAP_TESTS_NCCL_FACADE_RANKS_H_

#include "distwrap/distwrap.h"
#include "fake_nccl.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::nccl_test {

using Ints = std::vector<int64_t>;
using HintMap = std::map<std::string, std::string>;
using Settings = std::map<std::string, std::string>;

// The session of a rank, over NCCL 2.32.3 unless the hints name another file,
// with these variables of the environment and no others.
absl::StatusOr<Session> open_session(int rank, int n,
                                     std::shared_ptr<Store> store,
                                     HintMap hints = {},
                                     const Settings& settings = {});

// Opens a session, runs `body` and closes on every rank.
void run(int n, const std::function<void(Session&)>& body,
         const HintMap& hints = {}, const Settings& settings = {});

// Values on a device, as a tensor.
class OnDevice {
 public:
  OnDevice(int device, const Ints& values)
      : device_(device),
        count_(values.size()),
        data_(static_cast<int64_t*>(
            fakes::gpu::allocate(device, count_ * sizeof(int64_t)))) {
    set(values);
  }
  ~OnDevice() { fakes::gpu::release(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  TensorView view() const {
    return TensorView(data_, static_cast<int64_t>(count_), DType::kI64,
                      Device{DW_DEVICE_CUDA, device_});
  }
  void set(const Ints& values) const {
    fakes::gpu::write(data_, values.data(), count_ * sizeof(int64_t));
  }
  Ints values() const {
    Ints read(count_);
    fakes::gpu::read(read.data(), data_, count_ * sizeof(int64_t));
    return read;
  }

 private:
  const int device_;
  const size_t count_;
  int64_t* const data_;
};

inline Stream handle(CUstream_st& stream) {
  return {{DW_DEVICE_CUDA, stream.device}, &stream};
}

}  // namespace distwrap::nccl_test

#endif  // DISTWRAP_TESTS_NCCL_FACADE_RANKS_H_
