// The source version and the compiler settings of this program; the build
// writes build_info.cc.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_BUILD_INFO_H_
#define DISTWRAP_TOOLS_CLI_BENCH_BUILD_INFO_H_

namespace distwrap::bench::build {

extern const char* const kVersion;  // "0.1.0"
extern const char* const kCommit;   // output of git describe; "" outside of git
extern const char* const kFlags;    // flags of the compiler
extern const char* const kType;     // "Release"

}  // namespace distwrap::bench::build

#endif  // DISTWRAP_TOOLS_CLI_BENCH_BUILD_INFO_H_
