/* A process with two versions of the library is told so, with both files.
 *
 *   two_versions OTHER_LIBRARY */
#include "distwrap/c.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  const distwrap_init_options alone = {.struct_size = sizeof alone,
                                       .has_rank = 1,
                                       .world_size = 1,
                                       .backend = "loopback"};
  distwrap_session session;
  distwrap_error error;
  if (argc != 2) return 2;
  if (distwrap_session_create(&alone, &session, &error) != DW_OK) return 3;
  distwrap_session_close(session, DW_FOREVER, NULL);
  distwrap_session_free(session);
  if (dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) == NULL) return 4;
  if (distwrap_session_create(&alone, &session, &error) != DW_UNIMPLEMENTED)
    return 5;
  const char* const text = distwrap_error_text(error);
  printf("%s\n", text);
  const int named = strstr(text, "9.9.9") != NULL &&
                    strstr(text, argv[1]) != NULL &&
                    strstr(text, "libdistwrap.so") != NULL;
  distwrap_error_free(error);
  return named ? 0 : 6;
}
