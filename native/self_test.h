// Known answers, asked at every start: a kernel that this processor, hypervisor or compiler breaks must not
// be used.
#pragma once

#include "kernels.h"

namespace pdfseal {

bool selfTest(const Kernel& kernel);

}  // namespace pdfseal
