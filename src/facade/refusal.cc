#include "facade/refusal.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

namespace distwrap {

const OpOptions kDefaultOptions;

namespace facade {

absl::Status refusal(const char* call, const group::GroupState& group,
                     const OpOptions& options, ErrorInfo info) {
  info.op = call;
  info.group = group.name();
  info.my_rank = group.rank();
  info.group_size = group.size();
  info.label = std::string(options.label);
  return base::make_error(info);
}

absl::Status refuse_stream(const char* call, const group::GroupState& group,
                           const OpOptions& options) {
  return refusal(call, group, options,
                 {.reason = Reason::kUnsupported,
                  .what = "a backend with streams does not serve this call",
                  .actual = absl::StrCat("a stream of device type ",
                                         options.stream.device.type),
                  .next_step = "leave the stream unset"});
}

}  // namespace facade
}  // namespace distwrap
