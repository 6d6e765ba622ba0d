// A libFuzzer target for the lane scheduler and all kernels: the input says how documents are cut into pieces
// and which pieces meet in one call; every digest must be the reference's.
//
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined native/{kernels,…}.cc
//   test/native/lanes_fuzz.cc
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../../native/stream.h"
#include "reference.h"

namespace {

using namespace pdfseal;

constexpr std::size_t kDocumentsMax = 40;

// Reads the input as numbers; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint8_t byte() {
    if (size_ == 0) return 0;
    size_--;
    return *data_++;
  }
  // Mostly small, sometimes some thousands.
  std::size_t length() {
    const std::size_t kind = byte(), low = byte();
    return kind < 128 ? low : kind < 224 ? low * 8 + kind % 8 : low * 64 + kind % 64;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

struct Document {
  std::vector<std::uint8_t> bytes;
  State state = State::initial();
  bool done = false;
};

// A chunk whose bytes end where their memory ends, so that a kernel that reads on is found out.
struct Cut {
  std::unique_ptr<std::uint8_t[]> bytes;
  std::size_t size;
};

Cut cut(Input& input, Document& document) {
  Cut chunk = {nullptr, input.length()};
  const std::uint8_t seed = input.byte();
  chunk.bytes = std::make_unique<std::uint8_t[]>(chunk.size);
  for (std::size_t i = 0; i < chunk.size; i++)
    chunk.bytes[i] = static_cast<std::uint8_t>(seed + i * (2 * seed + 1));
  document.bytes.insert(document.bytes.end(), chunk.bytes.get(), chunk.bytes.get() + chunk.size);
  return chunk;
}

void check(bool good, const Kernel& kernel, std::size_t bytes) {
  if (good) return;
  std::fprintf(stderr, "kernel %s is wrong about a document of %zu bytes\n", kernel.name, bytes);
  std::abort();
}

void checkDigests(const Kernel& kernel, const Document& document, const Digests& digests) {
  const auto sha256 = reference::digest<std::uint32_t>(document.bytes);
  const auto sha512 = reference::digest<std::uint64_t>(document.bytes);
  check(std::equal(sha256.begin(), sha256.end(), digests.sha256), kernel, document.bytes.size());
  check(std::equal(sha512.begin(), sha512.end(), digests.sha512), kernel, document.bytes.size());
}

// One call: some of the documents go on, some end.
void call(const Kernel& kernel, Input& input, std::span<Document> documents, bool lastCall) {
  std::vector<Cut> cuts;
  std::vector<Document*> going;
  std::vector<Piece> pieces;
  for (Document& document : documents) {
    if (document.done || (!lastCall && input.byte() % 4 == 0)) continue;
    going.push_back(&document);
    Piece& piece = pieces.emplace_back(Piece{document.state, {}, false, {}});
    for (int chunks = input.byte() % 4; chunks > 0; chunks--) {
      const Cut& chunk = cuts.emplace_back(cut(input, document));
      piece.chunks.emplace_back(chunk.bytes.get(), chunk.size);
    }
    piece.last = document.done = lastCall || input.byte() % 8 == 0;
  }
  hashPieces(kernel, pieces);
  for (std::size_t i = 0; i < pieces.size(); i++) {
    if (pieces[i].last)
      checkDigests(kernel, *going[i], pieces[i].digests);
    else
      going[i]->state = pieces[i].state;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const auto kernels = compiledKernels();
  const Kernel& kernel = *kernels[input.byte() % kernels.size()];
  if (!kernel.supported()) return 0;
  std::vector<Document> documents(1 + input.byte() % kDocumentsMax);
  auto open = [&] {
    return std::any_of(documents.begin(), documents.end(), [](const Document& d) { return !d.done; });
  };
  while (!input.empty() && open()) call(kernel, input, documents, false);
  call(kernel, input, documents, true);
  return 0;
}
