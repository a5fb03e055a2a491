// A communicator or window that is being built in rounds.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_SETUP_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_SETUP_H_

#include "algo/compose/comm.h"
#include "distwrap/abi/plugin.h"

namespace distwrap::algo::compose {

class Setup {
 public:
  virtual ~Setup() = default;
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  dw_setup* abi() { return reinterpret_cast<dw_setup*>(this); }
  static Setup& of(dw_setup* setup) { return *reinterpret_cast<Setup*>(setup); }

  // The slot setup_step; the caller ends the setup.
  virtual int32_t step(const dw_blob* in, uint64_t n, dw_blob* out,
                       dw_setup_result* result, dw_error* error) = 0;
  virtual void cancel() = 0;

 protected:
  Setup() = default;
};

// The rounds of the backend below.
class BelowSetup {
 public:
  explicit BelowSetup(Backend& backend) : backend_(backend) {}

  int32_t begin(const dw_setup_info& info, dw_blob* out, dw_error* error);
  int32_t begin_window(dw_comm* comm, const dw_setup_info& info, dw_blob* out,
                       dw_error* error);
  int32_t step(const dw_blob* in, uint64_t n, dw_blob* out,
               dw_setup_result* result, dw_error* error);
  void cancel();

 private:
  Backend& backend_;
  dw_setup* setup_ = nullptr;
};

// window_setup.cc
int32_t begin_window(Comm& comm, const dw_setup_info& info, dw_setup** setup,
                     dw_blob* out, dw_error* error);

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_SETUP_H_
