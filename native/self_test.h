// Known answers, checked at every start: a kernel that gives wrong results on this processor, hypervisor or
// compiler must not be used.
#pragma once

#include "kernels.h"

namespace pdfseal {

bool selfTest(const Kernel& kernel);

}  // namespace pdfseal
