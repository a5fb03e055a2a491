// The capability rows of a backend, from an instance that is opened for this
// purpose and then closed.
//
// Threads: any.
#ifndef DISTWRAP_TOOLS_CLI_INFO_BACKEND_ROWS_H_
#define DISTWRAP_TOOLS_CLI_INFO_BACKEND_ROWS_H_

#include "plugin/backend_table.h"

#include <absl/status/statusor.h>

#include <vector>

namespace distwrap::cli {

// The rows for host memory. Errors: the backend's own.
absl::StatusOr<std::vector<dw_caps_row>> backend_rows(
    const plugin::BackendTable& backend);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_BACKEND_ROWS_H_
