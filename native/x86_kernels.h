// Declarations shared by the kernels of x86-64.
#pragma once

#include "kernels.h"

namespace pdfseal {

bool hasAvx512();
bool hasBmi2();
bool hasSha();

// SHA-512 of four streams with AVX2.
void avx2FourSha512(std::span<const Lane> lanes, std::size_t strides);

// One stream by integers with BMI2.
void bmi2Sha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks);
void bmi2Sha512(std::uint64_t* chain, const std::uint8_t* data, std::size_t blocks);
void bmi2Both(Chain& chain, const std::uint8_t* data, std::size_t strides);

// One stream of SHA-256 with SHA-NI.
void shaSha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks);

}  // namespace pdfseal
