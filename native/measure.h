// The speed of a kernel on this processor.
#pragma once

#include "kernels.h"

namespace pdfseal {

// Megabytes per second, of both hashes over as many streams, up to kLanesMax. Measures a short slice of about
// a tenth of a millisecond in processor time, so that other work on the machine has little effect.
double measure(const Kernel& kernel, std::size_t streams);

}  // namespace pdfseal
