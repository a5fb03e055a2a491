/* A static program, which no loader starts. Waits to be ended. */
#include <unistd.h>

int main(void) {
  for (;;) pause();
}
