// The guarded functions themselves. Each keeps all registers that may carry
// arguments and jumps: to the library's own function while the door is open,
// else to what target() in door.h decides.
#include "guard/door.h"

#if !defined(__x86_64__)
#error "the door is written for x86-64"
#endif

// A call passes while the door is open, for the caller that was last found to
// be exempt, and in a scope of the thread. r11 is free to use: calls may change
// it. The library's function is the first member of Row, and that caller the
// second.
#define DW_GUARDED(symbol, library, instead)                \
  asm(".text\n"                                             \
      ".p2align 4\n"                                        \
      ".globl " #symbol                                     \
      "\n"                                                  \
      ".type " #symbol ", @function\n" #symbol              \
      ":\n"                                                 \
      "  .cfi_startproc\n"                                  \
      "  endbr64\n"                                         \
      "  cmpl $0, distwrap_guard_mode(%rip)\n"              \
      "  jne 2f\n"                                          \
      "1:\n"                                                \
      "  movq distwrap_guarded_" #symbol                    \
      "(%rip), %r11\n"                                      \
      "  testq %r11, %r11\n"                                \
      "  je 3f\n"                                           \
      "  jmp *%r11\n"                                       \
      "2:\n"                                                \
      "  movq (%rsp), %r11\n"                               \
      "  cmpq distwrap_guarded_" #symbol                    \
      "+8(%rip), %r11\n"                                    \
      "  je 1b\n"                                           \
      "  movq distwrap_guard_scopes@gottpoff(%rip), %r11\n" \
      "  cmpl $0, %fs:(%r11)\n"                             \
      "  jne 1b\n"                                          \
      "3:\n"                                                \
      "  leaq distwrap_guarded_" #symbol                    \
      "(%rip), %r11\n"                                      \
      "  jmp distwrap_guard_slow\n"                         \
      "  .cfi_endproc\n"                                    \
      ".size " #symbol ", .-" #symbol "\n");
#include "guard/guarded_calls.def"

// r11: the row of the function. On the stack: the address to return to, which
// tells who calls. Saves what may carry arguments, asks, restores, jumps.
asm(R"(
.text
.p2align 4
.type distwrap_guard_slow, @function
distwrap_guard_slow:
  .cfi_startproc
  endbr64
  pushq %rax
  .cfi_adjust_cfa_offset 8
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  pushq %r9
  .cfi_adjust_cfa_offset 8
  pushq %r10
  .cfi_adjust_cfa_offset 8
  subq $136, %rsp
  .cfi_adjust_cfa_offset 136
  movups %xmm0, 0(%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  movq %r11, %rdi
  movq 200(%rsp), %rsi
  call distwrap_guard_target
  movq %rax, %r11
  movups 0(%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  addq $136, %rsp
  .cfi_adjust_cfa_offset -136
  popq %r10
  .cfi_adjust_cfa_offset -8
  popq %r9
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  popq %rax
  .cfi_adjust_cfa_offset -8
  jmp *%r11
  .cfi_endproc
.size distwrap_guard_slow, .-distwrap_guard_slow
)");
