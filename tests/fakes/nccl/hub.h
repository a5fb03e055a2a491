// The process in which ranks meet that are processes of their own.
//
//   fakes::nccl::Hub hub;                       // before the ranks are started
//   setenv("FAKE_NCCL_HUB", hub.path(), 1);     // in each of them
//
// A rank that ends, however that happens, is gone for the others: its part of
// a call never comes, as with NCCL.
#ifndef DISTWRAP_TESTS_FAKES_NCCL_HUB_H_
#define DISTWRAP_TESTS_FAKES_NCCL_HUB_H_

#include <string>
#include <sys/types.h>

namespace fakes::nccl {

class Hub {
 public:
  Hub();
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  const char* path() const { return path_.c_str(); }

 private:
  std::string folder_, path_;
  pid_t pid_ = -1;
};

}  // namespace fakes::nccl

#endif  // DISTWRAP_TESTS_FAKES_NCCL_HUB_H_
