// How the ranks get the first one's memory: over a Unix socket in the abstract
// namespace, which needs no file and exists on one host only. Nothing blocks:
// the rounds of the host say when the other side is ready.
#ifndef DISTWRAP_BACKENDS_SHM_MEET_H_
#define DISTWRAP_BACKENDS_SHM_MEET_H_

#include "segment.h"
#include "watch.h"

#include <cstdint>
#include <vector>

namespace shm_backend {

// A random name of a socket.
struct SocketName {
  unsigned char bytes[16];
};

// The first rank's side.
class Host {
 public:
  int32_t listen(int size, SocketName* name, dw_error* error);
  // When all others have called: gives each of them the memory, and everybody's
  // processes, unless `watch` is null. `tokens` tell the ranks from strangers.
  int32_t serve(const std::vector<uint64_t>& tokens, int memory, Watch* watch,
                dw_error* error);

 private:
  Descriptor listener_;
};

// The side of another rank.
class Guest {
 public:
  int32_t call(const SocketName& name, int rank, uint64_t token,
               dw_error* error);
  // When the first rank has served: its memory, and everybody's processes,
  // unless `watch` is null.
  int32_t take(int rank, int size, Descriptor* memory, Watch* watch,
               dw_error* error);

 private:
  Descriptor socket_;
};

bool fill_random(void* bytes, size_t n);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_MEET_H_
