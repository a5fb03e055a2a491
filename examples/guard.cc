// A call past distwrap is refused while a session guards the process, and
// passes in a scope: docs/guard.md.
#include <distwrap/distwrap.h>
#include <distwrap/guard.h>

#include <dlfcn.h>
#include <iostream>

namespace dw = distwrap;

// Calls MPI_Barrier as a part of a program would that was forgotten, if the
// process has any.
int forgotten_call() {
  using Barrier = int (*)(void*);
  auto* const barrier =
      reinterpret_cast<Barrier>(dlsym(RTLD_DEFAULT, "MPI_Barrier"));
  return barrier == nullptr ? -1 : barrier(nullptr);
}

int main() {
  const auto session =
      dw::init_process_group({.guard = dw::GuardMode::kRequire});
  if (!session.ok()) {
    std::cerr << session.status().message() << "\n";
    return 1;
  }
  const int result = forgotten_call();
  std::cout << (result != 0 ? "refused" : "passed") << "\n";
  {
    const dw::GuardAllow allow("part of a solver that uses MPI");
    std::cout << "open scopes: " << dw::guard_status().scopes.size() << "\n";
  }
  return dw::destroy_process_group().ok() ? 0 : 1;
}
