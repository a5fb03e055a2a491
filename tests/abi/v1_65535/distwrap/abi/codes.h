/* Result codes and reasons of the distwrap C ABI, made from their tables. */
#ifndef DISTWRAP_ABI_CODES_H_
#define DISTWRAP_ABI_CODES_H_

/* Enumerators name values only: every field that holds one is a fixed-width
 * integer (growth rule 1 in plugin.h). */
enum {
#define DW_CODE(value, name, enumerator, text) DW_##name = value,
#include "distwrap/abi/codes.def"
};

enum {
#define DW_REASON(value, name, enumerator, code, python, text) \
  DW_REASON_##name = value,
#include "distwrap/abi/reasons.def"
};

#endif /* DISTWRAP_ABI_CODES_H_ */
