/* The ELF note of a plugin: who may load this file, told without loading it.
 *
 * One note, owner "DWP", type DW_NOTE_TYPE, holds a dw_note. The host reads it
 * from the file before mapping it, so nothing of a refused plugin ever runs.
 * DW_PLUGIN_NOTE, once in one source file of the plugin, emits it. */
#ifndef DISTWRAP_ABI_NOTE_H_
#define DISTWRAP_ABI_NOTE_H_

#include "distwrap/abi/types.h"

#define DW_NOTE_OWNER "DWP"
#define DW_NOTE_TYPE 1

/* The sanitizers a file was built with: host and plugin must be equal. */
#define DW_SANITIZER_NONE 0
#define DW_SANITIZER_ADDRESS 1
#define DW_SANITIZER_THREAD 2
#define DW_SANITIZER_MEMORY 3

#if defined(__SANITIZE_ADDRESS__)
#define DW_SANITIZER DW_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define DW_SANITIZER DW_SANITIZER_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DW_SANITIZER DW_SANITIZER_ADDRESS
#elif __has_feature(thread_sanitizer)
#define DW_SANITIZER DW_SANITIZER_THREAD
#elif __has_feature(memory_sanitizer)
#define DW_SANITIZER DW_SANITIZER_MEMORY
#endif
#endif
#ifndef DW_SANITIZER
#define DW_SANITIZER DW_SANITIZER_NONE
#endif

typedef struct dw_note { /* leaf */
  uint16_t abi_major, abi_minor;
  uint32_t sanitizer; /* DW_SANITIZER_<KIND> */
  uint32_t flags;     /* none in 1.0         */
  uint32_t reserved;
} dw_note;
DW_STATIC_ASSERT(sizeof(dw_note) == 16);

#define DW_NOTE_STRING_(x) #x
#define DW_NOTE_STRING(x) DW_NOTE_STRING_(x)

/* For a file of any ABI version and kind; tests make wrong ones with it. */
#define DW_PLUGIN_NOTE_OF(major, minor, sanitizer, flags) \
  __asm__(".pushsection .note.distwrap,\"a\",@note\n"                       \
          ".balign 4\n"                                                      \
          ".long 4, 16, " DW_NOTE_STRING(DW_NOTE_TYPE) "\n"                  \
          ".asciz \"" DW_NOTE_OWNER "\"\n"                                   \
          ".short " DW_NOTE_STRING(major) ", " DW_NOTE_STRING(minor) "\n"    \
          ".long " DW_NOTE_STRING(sanitizer) ", " DW_NOTE_STRING(flags)      \
          ", 0\n"                                                            \
          ".popsection\n")

#define DW_PLUGIN_NOTE \
  DW_PLUGIN_NOTE_OF(DW_ABI_MAJOR, DW_ABI_MINOR, DW_SANITIZER, 0)

#endif /* DISTWRAP_ABI_NOTE_H_ */
