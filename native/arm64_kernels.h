// What the kernels of 64-bit ARM share.
#pragma once

#include "kernels.h"

namespace pdfseal {

bool hasArmSha256();
void armSha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks);

}  // namespace pdfseal
