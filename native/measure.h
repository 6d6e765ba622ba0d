// How fast a kernel is on this processor.
#pragma once

#include "kernels.h"

namespace pdfseal {

// Megabytes per second, of both hashes over as many streams, up to kLanesMax. A short slice, a tenth of a
// millisecond or so, in processor time: what else the machine does meanwhile hardly shows.
double measure(const Kernel& kernel, std::size_t streams);

}  // namespace pdfseal
