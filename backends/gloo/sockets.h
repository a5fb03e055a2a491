// The sockets of a communicator, one for each peer, duplicated from Gloo's.
//
// Only a broken connection ends a blocked call of Gloo from outside. The
// duplicates ensure that `shut` never hits a descriptor number that the process
// has reused.
//
// Threads: any; `add` comes before all other calls.
#ifndef DISTWRAP_BACKENDS_GLOO_SOCKETS_H_
#define DISTWRAP_BACKENDS_GLOO_SOCKETS_H_

#include "address.h"

#include <vector>

namespace gloo_backend {

class Sockets {
 public:
  Sockets() = default;
  ~Sockets();
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  // A connection as Gloo made it. Only the calling side knows `there`; `here`
  // is the address of a listener that serves this connection alone.
  struct Ends {
    int rank;
    Address here;
    Address there;  // empty: any caller
  };
  // Finds and duplicates the descriptors of all connections; false when one is
  // not open.
  bool add(const std::vector<Ends>& connections);

  struct Held {
    int rank;
    int descriptor;
  };
  const std::vector<Held>& held() const { return held_; }

  // Ends every transfer on the sockets, on both sides.
  void shut() const;

  // The ranks that have closed their side; all ranks after `shut`.
  std::vector<int> closed() const;

 private:
  bool holds(int rank) const;

  std::vector<Held> held_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_SOCKETS_H_
