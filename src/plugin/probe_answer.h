/* What the helper program says last when a trial went well. */
#ifndef DISTWRAP_SRC_PLUGIN_PROBE_ANSWER_H_
#define DISTWRAP_SRC_PLUGIN_PROBE_ANSWER_H_

#define DW_PROBE_DONE "\nplugin_probe: done\n"

#endif /* DISTWRAP_SRC_PLUGIN_PROBE_ANSWER_H_ */
