// Gives the fuzz target pseudo-random inputs, for compilers without libFuzzer: the argument is how many.
// Every kernel gets its share. Also asks every kernel for the known answers.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../../native/kernels.h"
#include "../../native/self_test.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int, char** arguments) {
  for (const pdfseal::Kernel* kernel : pdfseal::compiledKernels()) {
    if (!kernel->supported()) continue;
    if (!pdfseal::selfTest(*kernel)) {
      std::fprintf(stderr, "kernel %s fails its self-test\n", kernel->name);
      return 1;
    }
    std::printf("%s\n", kernel->name);
  }
  std::mt19937 random(1);
  for (unsigned i = 0, count = std::strtoul(arguments[1], nullptr, 10); i < count; i++) {
    std::vector<std::uint8_t> input(2 + random() % 300);
    for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random());
    input[0] = static_cast<std::uint8_t>(i);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
}
