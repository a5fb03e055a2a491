// Marks what libdistwrap.so exports; everything else is hidden.
#ifndef DISTWRAP_EXPORT_H_
#define DISTWRAP_EXPORT_H_

#define DISTWRAP_EXPORT __attribute__((visibility("default")))

#endif  // DISTWRAP_EXPORT_H_
