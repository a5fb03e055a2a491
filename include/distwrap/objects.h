// Objects between ranks: values of any shape, written as bounded, typed bytes;
// nothing that is received is ever run.
//
// Threads: any. Calls on one group are matched between ranks in the order in
// which they are made, among its other operations.
// Ownership: values.
//
//   std::vector<Object> all =
//       *distwrap::all_gather_object(Object::map({{"rank", get_rank()}}));
//
// All of them block, so that `async` is refused, and keep one deadline for all
// that they send. The ranks first tell each other what they are about to do: a
// root that is not of the group, an object that cannot be written, lists of
// different length or different calls end with an error on every rank at once,
// kAborted on those that did nothing wrong, and the group stays as it is. Bytes
// that are no object end with kObjectDecode on the rank that got them. Nothing
// is delivered then.
// On small groups objects of up to 2,000 bytes travel with the first exchange,
// so that there is no second one.
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

// Every rank's object on every rank, by rank of the group.
DISTWRAP_EXPORT absl::StatusOr<std::vector<Object>> all_gather_object(
    const Object& object, const OpOptions& options = {});

// Every rank's object on `dst`, by rank of the group; empty elsewhere. Unset:
// rank 0 of the group.
DISTWRAP_EXPORT absl::StatusOr<std::vector<Object>> gather_object(
    const Object& object, Peer dst = {}, const OpOptions& options = {});

// The entries of `src` in place of everybody's; lists are equally long. Unset:
// rank 0 of the group.
DISTWRAP_EXPORT absl::Status broadcast_object_list(
    absl::Span<Object> list, Peer src = {}, const OpOptions& options = {});

// Entry r of the list on `src` for rank r; lists elsewhere are not looked at.
// Unset: rank 0 of the group.
DISTWRAP_EXPORT absl::StatusOr<Object> scatter_object_list(
    absl::Span<const Object> list, Peer src = {},
    const OpOptions& options = {});

// To one other rank, whose list is equally long. The sender waits until the
// receiver is there. Tags are of no concern: messages of other kinds do not
// meet these.
DISTWRAP_EXPORT absl::Status send_object_list(absl::Span<const Object> list,
                                              Peer dst,
                                              const OpOptions& options = {});
DISTWRAP_EXPORT absl::Status recv_object_list(absl::Span<Object> list, Peer src,
                                              const OpOptions& options = {});

}  // namespace distwrap

#endif  // DISTWRAP_OBJECTS_H_
