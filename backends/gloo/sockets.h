// The sockets of a communicator, one per peer, held beside Gloo.
//
// Gloo has no way to end a blocked call from outside but a broken connection.
// These are duplicates of its descriptors, so that `shut` never hits a number
// that the process has used again meanwhile.
//
// Threads: any; `add` comes before everything else.
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

  // A connection as Gloo made it. `there` is known only to the side that
  // called; the address of a listener, `here`, is its own alone.
  struct Ends {
    int rank;
    Address here;
    Address there;  // empty: whoever called
  };
  // Finds and holds the descriptors of all; false when one is not open.
  bool add(const std::vector<Ends>& connections);

  struct Held {
    int rank;
    int descriptor;
  };
  const std::vector<Held>& held() const { return held_; }

  // Ends every transfer on them, on both sides.
  void shut() const;

  // Ranks that have closed their side, or all once `shut` was called.
  std::vector<int> closed() const;

 private:
  bool holds(int rank) const;

  std::vector<Held> held_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_SOCKETS_H_
