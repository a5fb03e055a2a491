// The buffers of an operation on host memory, as copies in memory of a fake
// device.
//
//   DeviceCopies copies(op, device, size);
//   nccl().submit(comm, &copies.op(), work, error);
//   ...                             // the operation has ended
//   bool good = copies.give_back();
#ifndef DISTWRAP_TESTS_NCCL_DEVICE_COPIES_H_
#define DISTWRAP_TESTS_NCCL_DEVICE_COPIES_H_

#include "distwrap/abi/plugin.h"

#include <cstddef>
#include <vector>

namespace distwrap::nccl_test {

class DeviceCopies {
 public:
  // `op` is one that the backend does not refuse, of a group of this size. With
  // `scale_on_device` the factor of a premul_sum is copied, too.
  DeviceCopies(const dw_op& op, int device, int size, bool scale_on_device);
  // The device's memory is freed: no operation may use it any more.
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // The operation on the copies.
  dw_op& op() { return op_; }
  // Copies everything back, also what was an input or a gap between pieces.
  // False when something was written beside the buffers.
  bool give_back();

 private:
  // Memory of the host, and the place of its copy.
  struct Span {
    char* begin;
    size_t bytes, at;
    char* end() const { return begin + bytes; }
  };

  void add(const void* begin, size_t bytes);
  void add(const dw_buf& buffer);
  void* copy_of(const void* address) const;
  void translate(dw_buf& buffer, std::vector<void*>& parts);

  dw_op op_;
  const size_t size_;
  std::vector<Span> spans_;
  std::vector<char> before_;  // the first contents, with guards around
  char* memory_ = nullptr;
  std::vector<void*> in_parts_, out_parts_;
};

}  // namespace distwrap::nccl_test

#endif  // DISTWRAP_TESTS_NCCL_DEVICE_COPIES_H_
