// Something that the ranks build in rounds: a communicator (setup.cc) or a
// window (window_setup.cc). In each a rank says something, with a head by which
// the others know what it belongs to.
#ifndef DISTWRAP_BACKENDS_UCX_BUILDING_H_
#define DISTWRAP_BACKENDS_UCX_BUILDING_H_

#include "distwrap/abi/plugin.h"
#include "library.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ucx_backend {

class Building {
 public:
  enum class What : uint32_t {
    kCommunicator = 0x7863752e,
    kWindow = 0x7778752e
  };

  Building(What what, const Library& library, const dw_setup_info& info);
  virtual ~Building() = default;
  Building(const Building&) = delete;
  Building& operator=(const Building&) = delete;

  // What this rank says in the round to come.
  dw_blob word() const { return {blob_.data(), blob_.size(), nullptr, 0}; }
  // DW_OK when there is another round, DW_DONE after the last.
  int32_t step(const dw_blob* in, uint64_t n, dw_error* error);
  // What was built; given away.
  virtual dw_setup_result take() = 0;

 protected:
  // What all ranks have said in a round, by rank.
  using Words = std::vector<std::string>;
  // As `step`, with the round that has ended, from 0.
  virtual int32_t hear(uint32_t round, const Words& words, dw_error* error) = 0;
  void say(const std::string& what);

 private:
  struct Head {
    uint32_t magic, version;
    int32_t rank, size;
    uint64_t uid, epoch;
    uint32_t major, minor;  // of UCX
    uint32_t round, bytes;  // of what follows
  };

  int32_t read(const dw_blob* in, uint64_t n, Words* words,
               dw_error* error) const;

  Head head_ = {};
  std::string blob_;
};

// A rank's word is not what it should be.
int32_t refuse_word(dw_error* error, int peer, const std::string& text);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_BUILDING_H_
