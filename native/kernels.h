// The kernels: each computes the compression functions of both hashes with the instructions of one kind of
// processor.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pdfseal {

// SHA-512's block: kernels advance both hashes by this much, two blocks of SHA-256.
inline constexpr std::size_t kStrideBytes = 128;
inline constexpr std::size_t kLanesMax = 16;

// The chaining values of both hashes over the same bytes.
struct Chain {
  std::uint32_t sha256[8];
  std::uint64_t sha512[8];
};

// One stream's part in a call of a lane function: pointers to its chaining values and to its bytes.
struct Lane {
  Chain* chain;
  const std::uint8_t* data;
};

// A function that advances up to `width` streams at once by the same number of strides, at the cost of
// `width`.
struct LaneFunction {
  std::size_t width;
  // From this number of streams on, it is faster than the functions after it in the table.
  std::size_t worthwhile;
  void (*advance)(std::span<const Lane> lanes, std::size_t strides);
};

struct Kernel {
  const char* name;
  bool (*supported)();
  // One stream, both hashes in one pass.
  void (*both)(Chain& chain, const std::uint8_t* data, std::size_t strides);
  // One stream, one hash: for the padded ends, whose lengths differ, and for the rest that lanes leave over.
  void (*sha256)(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks);
  void (*sha512)(std::uint64_t* chain, const std::uint8_t* data, std::size_t blocks);
  // Both hashes, or one of them. Widest first.
  std::span<const LaneFunction> lanesBoth = {};
  std::span<const LaneFunction> lanes256 = {};
  std::span<const LaneFunction> lanes512 = {};
};

// The kernel for each number of streams: one each for 1, 2 or 3, 4 to 7, 8 to 15, and kLanesMax.
class Plan {
 public:
  static constexpr std::size_t kWidths = std::bit_width(kLanesMax);
  using Kernels = std::array<const Kernel*, kWidths>;

  Plan(const Kernels& kernels) : kernels_(kernels) {}
  // Uses the same kernel for all.
  Plan(const Kernel& kernel) { kernels_.fill(&kernel); }

  const Kernel& forStreams(std::size_t count) const { return *kernels_[std::bit_width(count) - 1]; }

 private:
  Kernels kernels_;
};

// Compiled into this build: OpenSSL, the portable kernel, then the others in order of processor requirements.
std::span<const Kernel* const> compiledKernels();

extern const Kernel kOpenSsl;
extern const Kernel kPortable;
#if defined(__x86_64__)
extern const Kernel kAvx2;
extern const Kernel kAvx2Sha;
extern const Kernel kAvx512;
extern const Kernel kAvx512Sha;
#elif defined(__aarch64__)
extern const Kernel kArm64Sha256;
extern const Kernel kArm64Sha512;
#endif

}  // namespace pdfseal
