/* The limits in force on threads and on memory, as text for errors.
 *
 *   char limits[DW_LIMITS_TEXT];
 *   dw_say_thread_limits(limits, sizeof limits);
 *   // "`ulimit -u` (RLIMIT_NPROC), now 4"
 */
#ifndef DISTWRAP_PLUGINS_SDK_LIMITS_H_
#define DISTWRAP_PLUGINS_SDK_LIMITS_H_

#include "sdk/headroom.h"

#include <sys/resource.h>
#include <unistd.h>

enum { DW_LIMITS_TEXT = 160 };

/* Appends "<name>, now <value>" unless the limit is infinite. `unit` divides
 * the value. */
static inline void dw_say_limit(char* text, size_t size, const char* name,
                                const struct rlimit* limit, rlim_t unit,
                                const char* unit_name) {
  const size_t length = strlen(text);
  if (limit->rlim_cur == RLIM_INFINITY) return;
  snprintf(text + length, size - length, "%s%s, now %llu%s",
           length == 0 ? "" : ", or ", name,
           (unsigned long long)(limit->rlim_cur / unit), unit_name);
}

/* Appends the lowest pids.max of the control groups that hold the process,
 * unless none is set. `groups` and `mount`: as of dw_read_headroom_at. */
static inline void dw_say_pids_limit(char* text, size_t size,
                                     const char* groups, const char* mount) {
  char line[DW_HEADROOM_PATH], root[DW_HEADROOM_PATH];
  uint64_t lowest = 0, limit;
  const size_t length = strlen(text);
  FILE* const file = fopen(groups, "re");
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL) {
    char* group;
    line[strcspn(line, "\n")] = '\0';
    group = strrchr(line, ':');
    if (group == NULL) continue;
    if (strstr(line, "::") == NULL && strstr(line, "pids") == NULL) continue;
    snprintf(root, sizeof root, "%s%s", mount,
             strstr(line, "::") == NULL ? "/pids" : "");
    for (++group;;) {
      char* slash;
      if (dw_headroom_number(root, group, "pids.max", &limit) &&
          (lowest == 0 || limit < lowest))
        lowest = limit;
      slash = strrchr(group, '/');
      if (slash == NULL) break;
      *slash = '\0';
    }
  }
  fclose(file);
  if (lowest != 0)
    snprintf(text + length, size - length,
             "%spids.max of the control group, now %llu",
             length == 0 ? "" : ", or ", (unsigned long long)lowest);
}

/* The limit on the number of threads; empty when none can be read. */
static inline void dw_say_thread_limits(char* text, size_t size) {
  struct rlimit limit;
  text[0] = '\0';
  if (getrlimit(RLIMIT_NPROC, &limit) == 0)
    dw_say_limit(text, size, "`ulimit -u` (RLIMIT_NPROC)", &limit, 1, "");
  dw_say_pids_limit(text, size, "/proc/self/cgroup", "/sys/fs/cgroup");
}

/* The limit on the memory of the process; empty when none can be read. */
static inline void dw_say_memory_limits(char* text, size_t size) {
  const dw_headroom room = dw_read_headroom();
  struct rlimit limit;
  size_t length;
  text[0] = '\0';
  if (getrlimit(RLIMIT_AS, &limit) == 0)
    dw_say_limit(text, size, "`ulimit -v` (RLIMIT_AS)", &limit, 1024, " KiB");
  if (getrlimit(RLIMIT_DATA, &limit) == 0)
    dw_say_limit(text, size, "`ulimit -d` (RLIMIT_DATA)", &limit, 1024, " KiB");
  if (!room.limited) return;
  length = strlen(text);
  snprintf(text + length, size - length,
           "%sthe memory of the control group, now %llu KiB",
           length == 0 ? "" : ", or ", (unsigned long long)(room.limit / 1024));
}

/* Whether RLIMIT_AS leaves no room for `bytes` more. */
static inline int dw_address_space_is_full(uint64_t bytes) {
  struct rlimit limit;
  unsigned long long pages = 0;
  FILE* file;
  int read;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return 0;
  file = fopen("/proc/self/statm", "re");
  if (file == NULL) return 1;
  read = fscanf(file, "%llu", &pages) == 1;
  fclose(file);
  return !read ||
         pages * (uint64_t)sysconf(_SC_PAGESIZE) + bytes > limit.rlim_cur;
}

#endif /* DISTWRAP_PLUGINS_SDK_LIMITS_H_ */
