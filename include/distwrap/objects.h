// Objects between ranks: values of any shape, sent as typed bytes of limited
// size. Nothing that is received is ever run.
//
// Threads: any. Ranks match the calls on one group in the order in which they
// are made, together with the group's other operations.
// Ownership: values.
//
//   std::vector<Object> all =
//       *distwrap::all_gather_object(Object::map({{"rank", get_rank()}}));
//
// All functions block, so they refuse `async`; one deadline covers everything
// that a call sends. The ranks first compare what they are about to do. A root
// outside the group, an object that cannot be written, lists of different
// lengths, and different calls end with an error on every rank at once
// (kAborted on the ranks that did nothing wrong), and the group stays intact.
// Received bytes that are no object end with kObjectDecode on the rank that
// received them. A call that fails delivers nothing. On small groups objects of
// up to 2,000 bytes travel with the first exchange and need no second one.
#ifndef DISTWRAP_OBJECTS_H_
#define DISTWRAP_OBJECTS_H_

#include "distwrap/export.h"
#include "distwrap/object.h"
#include "distwrap/op_options.h"
#include "distwrap/peer.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <vector>

namespace distwrap {

// Gives every rank's object to every rank, by rank of the group.
DISTWRAP_EXPORT absl::StatusOr<std::vector<Object>> all_gather_object(
    const Object& object, const OpOptions& options = {});

// Gives every rank's object to `dst`, by rank of the group; other ranks get an
// empty list. Unset `dst`: rank 0 of the group.
DISTWRAP_EXPORT absl::StatusOr<std::vector<Object>> gather_object(
    const Object& object, Peer dst = {}, const OpOptions& options = {});

// Replaces every rank's list by the entries of `src`; all lists have the same
// length. Unset `src`: rank 0 of the group.
DISTWRAP_EXPORT absl::Status broadcast_object_list(
    absl::Span<Object> list, Peer src = {}, const OpOptions& options = {});

// Gives entry r of the list on `src` to rank r; other ranks' lists are ignored.
// Unset `src`: rank 0 of the group.
DISTWRAP_EXPORT absl::StatusOr<Object> scatter_object_list(
    absl::Span<const Object> list, Peer src = {},
    const OpOptions& options = {});

// Sends a list to one other rank, whose list has the same length. The sender
// waits until the receiver calls. Tags play no role: other messages never match
// these.
DISTWRAP_EXPORT absl::Status send_object_list(absl::Span<const Object> list,
                                              Peer dst,
                                              const OpOptions& options = {});
DISTWRAP_EXPORT absl::Status recv_object_list(absl::Span<Object> list, Peer src,
                                              const OpOptions& options = {});

}  // namespace distwrap

#endif  // DISTWRAP_OBJECTS_H_
