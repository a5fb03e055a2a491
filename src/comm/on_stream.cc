#include "comm/on_stream.h"

namespace distwrap::comm {

template class CallForms<OnStream>;

}  // namespace distwrap::comm
