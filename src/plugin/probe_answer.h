// The last line of the helper program. Any other ending is a crash; exit codes
// do not tell, since sanitizers and plugins choose their own.
#ifndef DISTWRAP_SRC_PLUGIN_PROBE_ANSWER_H_
#define DISTWRAP_SRC_PLUGIN_PROBE_ANSWER_H_

namespace distwrap::plugin {

constexpr char kProbeDone[] = "\nplugin_probe: done\n";
constexpr char kProbeNotLoadable[] = "\nplugin_probe: not loadable\n";

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_PROBE_ANSWER_H_
