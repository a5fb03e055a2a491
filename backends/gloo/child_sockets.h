// Connections that the child of a fork does not keep: it would hide the
// parent's end from its peers.
//
// In the child each descriptor of such a connection, Gloo's own too, becomes
// one of /dev/null before fork returns there. Their numbers stay taken, so
// whatever closes them in the child harms nothing that was opened since.
//
// Threads: any.
#ifndef DISTWRAP_BACKENDS_GLOO_CHILD_SOCKETS_H_
#define DISTWRAP_BACKENDS_GLOO_CHILD_SOCKETS_H_

namespace gloo_backend::child_sockets {

// One descriptor of the connection. Numbers beyond those that are kept note of,
// 65,536, stay open in the child.
void add(int descriptor);
// Before it is closed.
void remove(int descriptor);

}  // namespace gloo_backend::child_sockets

#endif  // DISTWRAP_BACKENDS_GLOO_CHILD_SOCKETS_H_
