/* What the echo plugin writes to the output of an operation: what it read. */
#ifndef DISTWRAP_TESTS_ABI_PLUGINS_ANSWER_H_
#define DISTWRAP_TESTS_ABI_PLUGINS_ANSWER_H_

#include <stdint.h>

typedef struct echo_answer {
  uint32_t plugin_minor; /* of the headers it was built with */
  uint32_t own_size;     /* of its dw_op                     */
  uint32_t seen_size;    /* struct_size after reading        */
  uint32_t given_size;   /* struct_size as the host sent it  */
  uint64_t seq;
  uint64_t priority; /* since 1.1, else 0 */
} echo_answer;

#endif /* DISTWRAP_TESTS_ABI_PLUGINS_ANSWER_H_ */
