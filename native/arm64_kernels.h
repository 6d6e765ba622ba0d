// Declarations shared by the kernels of 64-bit ARM.
#pragma once

#include "kernels.h"

namespace pdfseal {

bool hasArmSha256();
void armSha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks);

}  // namespace pdfseal
