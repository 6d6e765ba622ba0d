// What the kernels of x86-64 share.
#pragma once

#include "kernels.h"

namespace pdfseal {

bool hasBmi2();
bool hasSha();

// One stream by integers with BMI2.
void bmi2Sha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks);
void bmi2Sha512(std::uint64_t* chain, const std::uint8_t* data, std::size_t blocks);
void bmi2Both(Chain& chain, const std::uint8_t* data, std::size_t strides);

// One stream with SHA-NI for SHA-256, interleaved with integers for SHA-512.
void shaSha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks);
void shaBoth(Chain& chain, const std::uint8_t* data, std::size_t strides);

}  // namespace pdfseal
