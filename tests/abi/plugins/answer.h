/* The answer that the echo plugin writes to the output of an operation: the
 * fields that it has read. */
#ifndef DISTWRAP_TESTS_ABI_PLUGINS_ANSWER_H_
#define DISTWRAP_TESTS_ABI_PLUGINS_ANSWER_H_

#include <stdint.h>

typedef struct echo_answer {
  uint32_t plugin_minor; /* minor version of its headers */
  uint32_t own_size;     /* size of the plugin's dw_op */
  uint32_t seen_size;    /* struct_size after reading        */
  uint32_t given_size;   /* struct_size as the host sent it  */
  uint64_t seq;
  uint64_t priority; /* since 1.65535, else 0 */
} echo_answer;

#endif /* DISTWRAP_TESTS_ABI_PLUGINS_ANSWER_H_ */
