// How ranks get rank 0's memory: its descriptor comes over a Unix socket in the
// abstract namespace, which needs no file and exists on one host only. No call
// blocks; the rounds of the host tell when the other side is ready.
#ifndef DISTWRAP_BACKENDS_SHM_MEET_H_
#define DISTWRAP_BACKENDS_SHM_MEET_H_

#include "hostmem/segment.h"
#include "watch.h"

#include <cstdint>
#include <vector>

namespace shm_backend {

using dw_hostmem::Descriptor;

// A random name of a socket.
struct SocketName {
  unsigned char bytes[16];
};

// Rank 0's side.
class Host {
 public:
  int32_t listen(int size, SocketName* name, dw_error* error);
  // Called when all other ranks have connected: hands each of them the
  // descriptors of the memory and, unless `watch` is NULL, of all ranks'
  // processes. A rank has to send its token, which strangers do not know.
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
  // Called when rank 0 has served: receives the memory and, unless `watch` is
  // NULL, all ranks' processes.
  int32_t take(int rank, int size, Descriptor* memory, Watch* watch,
               dw_error* error);

 private:
  Descriptor socket_;
};

bool fill_random(void* bytes, size_t n);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_MEET_H_
