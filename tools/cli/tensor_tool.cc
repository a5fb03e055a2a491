#include "tensor_tool.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace distwrap::cli {

int run_tensor_tool(const char* command, const Words& words) {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program =
      (self.parent_path().parent_path() / "libexec/distwrap/tensor_tool")
          .string();
  std::vector<char*> arguments = {const_cast<char*>(program.c_str())};
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  std::fprintf(stderr,
               "%s: %s is missing: build distwrap with -DDISTWRAP_TENSOR=ON\n",
               command, program.c_str());
  return kFailed;
}

}  // namespace distwrap::cli
