// The promises of a backend, from an instance that is opened for this
// purpose and then closed.
//
// Threads: any.
#ifndef DISTWRAP_TOOLS_CLI_INFO_BACKEND_ROWS_H_
#define DISTWRAP_TOOLS_CLI_INFO_BACKEND_ROWS_H_

#include "plugin/backend_table.h"

#include <absl/status/statusor.h>

#include <string>
#include <vector>

namespace distwrap::cli {

// The device type that a backend is asked about: the host's memory where it
// serves that, and otherwise the first that it serves.
int32_t device_type_of(const plugin::BackendTable& backend);

struct BackendPromises {
  // The lines that the instance logs when it opens: versions, devices.
  std::vector<std::string> notes;
  std::vector<dw_caps_row> rows;
  // Whether it knows the extensions distwrap.moe and distwrap.moe.sum
  // (abi/moe.h), as a communicator of one rank answers `query`; false for
  // backends of devices.
  bool moves_rows = false, adds_rows = false;
};

// The promises of an instance for that device type. Errors: the backend's own.
absl::StatusOr<BackendPromises> backend_promises(
    const plugin::BackendTable& backend);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_BACKEND_ROWS_H_
