// Finds the loaded module of an address, and whether that module may call what
// is guarded.
//
// Threads: any. Readers take no lock: the table is small, has a fixed place,
// and is read again when a writer has changed it meanwhile. Modules that are
// not in it yet are found by reading the linker's list; a dlclose makes it
// forget all.
#ifndef DISTWRAP_GUARD_MODULES_H_
#define DISTWRAP_GUARD_MODULES_H_

#include <cstddef>
#include <cstdint>

namespace distwrap_guard {

struct Module {
  uintptr_t begin = 0, end = 0;  // the segment with the address; 0: none
  bool is_exempt = false;
};

// The module of an address.
Module module_of(uintptr_t address);
// Counts the times when modules were forgotten.
uint64_t generation();
void forget_modules();
// The file of a module, "" when it has gone, as text in `file`.
void file_of(uintptr_t address, char* file, size_t size);

void exempt_module_of(const void* address);
void exempt_name(const char* prefix);

}  // namespace distwrap_guard

#endif  // DISTWRAP_GUARD_MODULES_H_
