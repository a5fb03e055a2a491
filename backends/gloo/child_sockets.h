// Connections that the child of a fork must not keep, because they would hide
// the parent's end from its peers.
//
// Before fork returns in the child, each descriptor of such a connection,
// Gloo's own included, becomes one of /dev/null. The numbers stay taken, so
// code that closes them in the child closes nothing that was opened since.
//
// Threads: any.
#ifndef DISTWRAP_BACKENDS_GLOO_CHILD_SOCKETS_H_
#define DISTWRAP_BACKENDS_GLOO_CHILD_SOCKETS_H_

namespace gloo_backend::child_sockets {

// Adds one descriptor of the connection. Descriptors above 65,535 are not
// tracked and stay open in the child.
void add(int descriptor);
// Called before the descriptor is closed.
void remove(int descriptor);

}  // namespace gloo_backend::child_sockets

#endif  // DISTWRAP_BACKENDS_GLOO_CHILD_SOCKETS_H_
