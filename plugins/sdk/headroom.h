/* The memory that the control groups of this process leave free. The kernel
 * kills a process that goes beyond it, and no error can be handled. Code that
 * reserves memory therefore checks the headroom first.
 *
 *   dw_headroom room = dw_read_headroom();
 *   if (!dw_headroom_holds(&room, bytes)) return refuse(...); */
#ifndef DISTWRAP_PLUGINS_SDK_HEADROOM_H_
#define DISTWRAP_PLUGINS_SDK_HEADROOM_H_

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The values of the tightest control group of this process, in bytes. */
typedef struct dw_headroom {
  int limited; /* 0: no limit, as far as it can be read */
  uint64_t left, limit;
} dw_headroom;

/* The file names of one hierarchy, which has version 2 or 1. */
typedef struct dw_memory_files {
  const char *root, *limit, *used, *reclaimable;
} dw_memory_files;

enum {
  DW_HEADROOM_PATH = 4096,
  /* This much stays free for memory that the group is charged for as well:
   * page tables, pages that processors cache, and the pages behind the files
   * that are read here. */
  DW_HEADROOM_SPARE = 64 << 10
};

static inline int dw_headroom_holds(const dw_headroom* room, uint64_t bytes) {
  return !room->limited || (room->left >= DW_HEADROOM_SPARE &&
                            bytes <= room->left - DW_HEADROOM_SPARE);
}

/* Reads the first word of a file. A word that is no number, such as "max",
 * means that there is no limit. */
static inline int dw_headroom_number(const char* root, const char* group,
                                     const char* name, uint64_t* value) {
  char path[DW_HEADROOM_PATH];
  unsigned long long number = 0;
  FILE* file;
  int read;
  const int length = snprintf(path, sizeof path, "%s%s/%s", root, group, name);
  if (length < 0 || (size_t)length >= sizeof path) return 0;
  file = fopen(path, "re");
  if (file == NULL) return 0;
  read = fscanf(file, "%llu", &number) == 1;
  fclose(file);
  *value = number;
  return read;
}

/* Pages of files that the kernel takes back under memory pressure. They count
 * as used, but leave room. */
static inline uint64_t dw_headroom_reclaimable(const char* root,
                                               const char* group,
                                               const char* key) {
  char path[DW_HEADROOM_PATH], name[64];
  unsigned long long number = 0;
  uint64_t found = 0;
  FILE* file;
  const int length =
      snprintf(path, sizeof path, "%s%s/memory.stat", root, group);
  if (length < 0 || (size_t)length >= sizeof path) return 0;
  file = fopen(path, "re");
  if (file == NULL) return 0;
  while (found == 0 && fscanf(file, "%63s %llu", name, &number) == 2)
    if (strcmp(name, key) == 0) found = number;
  fclose(file);
  return found;
}

/* Applies the limits of a group and of the groups that contain it. The
 * function shortens `group`. */
static inline void dw_headroom_of(const dw_memory_files* files, char* group,
                                  dw_headroom* room) {
  for (;;) {
    uint64_t limit, used, back, left;
    char* slash;
    /* Version 1 expresses "no limit" by a number beyond all memory. */
    if (dw_headroom_number(files->root, group, files->limit, &limit) &&
        limit < (uint64_t)1 << 60 &&
        dw_headroom_number(files->root, group, files->used, &used)) {
      back = dw_headroom_reclaimable(files->root, group, files->reclaimable);
      used -= back < used ? back : used;
      left = limit > used ? limit - used : 0;
      if (!room->limited || left < room->left) {
        room->limited = 1;
        room->left = left;
        room->limit = limit;
      }
    }
    slash = strrchr(group, '/');
    if (slash == NULL) return;
    *slash = '\0';
  }
}

/* `groups` is a file in the format of /proc/self/cgroup; the hierarchies are
 * mounted under `mount`. */
static inline dw_headroom dw_read_headroom_at(const char* groups,
                                              const char* mount) {
  char line[DW_HEADROOM_PATH], controllers[256], old_root[DW_HEADROOM_PATH];
  const dw_memory_files now = {mount, "memory.max", "memory.current",
                               "inactive_file"};
  const dw_memory_files old = {old_root, "memory.limit_in_bytes",
                               "memory.usage_in_bytes", "total_inactive_file"};
  dw_headroom room = {0, 0, 0};
  FILE* const file = fopen(groups, "re");
  const int length = snprintf(old_root, sizeof old_root, "%s/memory", mount);
  if (file == NULL) return room;
  /* The format of a line is number:controllers:path. */
  while (fgets(line, sizeof line, file) != NULL) {
    char *first, *second;
    size_t end = strcspn(line, "\n");
    line[end] = '\0';
    while (end > 0 && line[end - 1] == '/') line[--end] = '\0';
    first = strchr(line, ':');
    second = first == NULL ? NULL : strchr(first + 1, ':');
    if (second == NULL) continue;
    *second = '\0';
    snprintf(controllers, sizeof controllers, ",%.250s,", first + 1);
    if (first[1] == '\0')
      dw_headroom_of(&now, second + 1, &room);
    else if (strstr(controllers, ",memory,") != NULL && length > 0 &&
             (size_t)length < sizeof old_root)
      dw_headroom_of(&old, second + 1, &room);
  }
  fclose(file);
  return room;
}

static inline dw_headroom dw_read_headroom(void) {
  return dw_read_headroom_at("/proc/self/cgroup", "/sys/fs/cgroup");
}

#endif /* DISTWRAP_PLUGINS_SDK_HEADROOM_H_ */
