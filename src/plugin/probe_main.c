/* plugin_probe FILE: loads a plugin as the host would and asks for its table.
 *
 * Ends with DW_PROBE_DONE as its last output when nothing went wrong; what the
 * dynamic linker said otherwise. Part of the loader, not for people. */
#include "distwrap/abi/note.h"
#include "distwrap/abi/plugin.h"
#include "plugin/probe_answer.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int answer(const char* text, int status) {
  size_t size = strlen(text);
  while (size > 0) {
    ssize_t n = write(STDOUT_FILENO, text, size);
    if (n <= 0) break;
    text += n;
    size -= (size_t)n;
  }
  return status;
}

int main(int argc, char** argv) {
  static const char kVersion[] = "probe";
  const struct rlimit no_core = {0, 0};
  dw_host_info host;
  dw_plugin_query_fn query;
  void* symbol;
  void* library;
  if (argc != 2) _exit(answer("usage: plugin_probe FILE\n", 2));
  setrlimit(RLIMIT_CORE, &no_core); /* a crash is an answer, not a finding */
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) _exit(answer(dlerror(), 1));
  symbol = dlsym(library, DW_PLUGIN_QUERY_SYMBOL);
  if (symbol != NULL) {
    memset(&host, 0, sizeof host);
    host.struct_size = (uint32_t)sizeof host;
    host.abi_major = DW_ABI_MAJOR;
    host.abi_minor = DW_ABI_MINOR;
    host.sanitizer = DW_SANITIZER;
    host.version.data = kVersion;
    host.version.size = sizeof kVersion - 1;
    memcpy(&query, &symbol, sizeof query);
    (void)query(&host);
  }
  /* The end of the process is the host's to test, not the plugin's to see. */
  _exit(answer(DW_PROBE_DONE, 0));
}
