// Names through which the ranks of one job, and of no other, find each other.
//
// Threads: pure functions with equal results in every process.
//
//   job_name(info);                            // "ompi-4240-9c0f..."
//   meeting_name("tcp", "localhost:29500");    // "tcp-localhost-29500-51ab..."
#ifndef DISTWRAP_SRC_STORE_JOB_NAME_H_
#define DISTWRAP_SRC_STORE_JOB_NAME_H_

#include "store/launch_info.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace distwrap::store {

// FNV-1a, which gives the same value in every process, unlike the hashes of
// containers.
uint64_t stable_hash(absl::string_view text);

// A name that is equal on all ranks of the job and differs from every other
// job's, restarts included: letters, digits and dashes, at most 48. Empty
// without a job id.
std::string job_name(const LaunchInfo& info);
// A name made of any text that all ranks know; `kind` is a short word.
std::string meeting_name(absl::string_view kind, absl::string_view text);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_JOB_NAME_H_
