// What this program was built from and how; build_info.cc is written by the
// build.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_BUILD_INFO_H_
#define DISTWRAP_TOOLS_CLI_BENCH_BUILD_INFO_H_

namespace distwrap::bench::build {

extern const char* const kVersion;  // "0.1.0"
extern const char* const kCommit;   // as git describes it; "" outside of git
extern const char* const kFlags;    // of the compiler
extern const char* const kType;     // "Release"

}  // namespace distwrap::bench::build

#endif  // DISTWRAP_TOOLS_CLI_BENCH_BUILD_INFO_H_
