// The calls that move objects (objects.h), without the hooks around them.
#ifndef DISTWRAP_SRC_FACADE_OBJECT_CALLS_H_
#define DISTWRAP_SRC_FACADE_OBJECT_CALLS_H_

#include "distwrap/objects.h"

namespace distwrap::facade {

absl::StatusOr<std::vector<Object>> all_gather_object(const Object& object,
                                                      const OpOptions& options);
absl::StatusOr<std::vector<Object>> gather_object(const Object& object,
                                                  Peer dst,
                                                  const OpOptions& options);
absl::Status broadcast_object_list(absl::Span<Object> list, Peer src,
                                   const OpOptions& options);
absl::StatusOr<Object> scatter_object_list(absl::Span<const Object> list,
                                           Peer src, const OpOptions& options);
absl::Status send_object_list(absl::Span<const Object> list, Peer dst,
                              const OpOptions& options);
absl::Status recv_object_list(absl::Span<Object> list, Peer src,
                              const OpOptions& options);

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_OBJECT_CALLS_H_
