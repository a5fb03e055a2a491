// plugin_probe FILE: loads a plugin as the host would and asks for its table.
//
// The last line of the output is one of the answers of probe_answer.h; messages
// of the dynamic linker come before it. The program is a part of the loader and
// not meant for people. It is C++, so that the C++ runtime is loaded before any
// plugin, as in the host.
#include "distwrap/abi/note.h"
#include "distwrap/abi/plugin.h"
#include "plugin/probe_answer.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

namespace distwrap::plugin {
namespace {

void say(const char* text) {
  size_t size = strlen(text);
  while (size > 0) {
    const ssize_t n = write(STDOUT_FILENO, text, size);
    if (n <= 0) return;
    text += n;
    size -= static_cast<size_t>(n);
  }
}

// Ends without `exit`, because a plugin's exit handlers belong to the end of
// the real host.
[[noreturn]] void answer(const char* text, int status) {
  say(text);
  _exit(status);
}

[[noreturn]] void run(const char* file) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);  // a crash is an expected answer
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    say(dlerror());
    answer(kProbeNotLoadable, 1);
  }
  void* const symbol = dlsym(library, DW_PLUGIN_QUERY_SYMBOL);
  if (symbol != nullptr) {
    dw_host_info host = {};
    host.struct_size = sizeof host;
    host.abi_major = DW_ABI_MAJOR;
    host.abi_minor = DW_ABI_MINOR;
    host.sanitizer = DW_SANITIZER;
    host.version = {"probe", 5};
    dw_plugin_query_fn query = nullptr;
    memcpy(&query, &symbol, sizeof query);
    (void)query(&host);
  }
  answer(kProbeDone, 0);
}

}  // namespace
}  // namespace distwrap::plugin

int main(int argc, char** argv) {
  if (argc != 2) distwrap::plugin::answer("usage: plugin_probe FILE\n", 2);
  distwrap::plugin::run(argv[1]);
}
