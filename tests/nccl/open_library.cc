// Opens the NCCL of a file as the backend does, and prints what it has:
//   open_library FILE
//   version 2.28.9
//   ncclAlltoAll yes
#include "nccl/library.h"

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  nccl_backend::Nccl nccl;
  dw_error error = {};
  if (nccl_backend::open_nccl(argv[1], &nccl, &error) != DW_OK) {
    std::fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  std::printf("version %s\n", nccl_backend::version_text(nccl.version).c_str());
#define NCCL_OPTIONAL(type, name, parameters) \
  std::printf(#name " %s\n", nccl.name != nullptr ? "yes" : "no");
#include "nccl/symbols.def"
  return 0;
}
