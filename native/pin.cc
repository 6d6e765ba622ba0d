// The PIN is in memory only during the log-in, in a page of its own: JavaScript can neither lock memory nor
// wipe its strings.
#include "pin.h"

#include <pkcs11/pkcs11.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "module.h"
#include "system.h"

// As in <openssl/evp.h>: OpenSSL's own code, from the Node that has loaded the add-on.
extern "C" int EVP_PBE_scrypt(const char* password, std::size_t passwordBytes, const unsigned char* salt,
                              std::size_t saltBytes, std::uint64_t n, std::uint64_t r, std::uint64_t p,
                              std::uint64_t memoryMax, unsigned char* key, std::size_t keyBytes);

namespace {

// Memory that is never in a core or in a child, and is wiped in the end.
class Page {
 public:
  static constexpr std::size_t kBytes = 4096;

  Page() : bytes_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (bytes_ == MAP_FAILED) return;
    // Neither fails for mapped memory.
    madvise(bytes_, kBytes, MADV_DONTDUMP);
    madvise(bytes_, kBytes, MADV_DONTFORK);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() {
    if (bytes_ == MAP_FAILED) return;
    explicit_bzero(bytes_, kBytes);
    munmap(bytes_, kBytes);
  }

  bool isThere() const { return bytes_ != MAP_FAILED; }
  // Prevents swapping from now on. Returns 0, or the error number.
  int lock() { return mlock(bytes_, kBytes) == 0 ? 0 : errno; }
  CK_UTF8CHAR* bytes() { return static_cast<CK_UTF8CHAR*>(bytes_); }

 private:
  void* bytes_;
};

// Reads the rest of the file. Returns the number of bytes; -1 with errno.
ssize_t readAll(int file, Page& page) {
  std::size_t length = 0;
  while (length < Page::kBytes) {
    const ssize_t count = read(file, page.bytes() + length, Page::kBytes - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
  }
  return static_cast<ssize_t>(length);
}

std::size_t withoutLineBreak(const CK_UTF8CHAR* bytes, std::size_t length) {
  if (length == 0 || bytes[length - 1] != '\n') return length;
  return length > 1 && bytes[length - 2] == '\r' ? length - 2 : length - 1;
}

// A PIN has few digits, so each guess must be expensive: 32 MiB and a tenth of a second. Changing the cost
// invalidates all records.
constexpr std::uint64_t kScryptN = 1 << 15;
constexpr std::uint64_t kScryptR = 8;
constexpr std::uint64_t kScryptMemoryMax = 64 << 20;
constexpr std::size_t kDigestBytes = 32;

struct Bytes {
  void* data;
  std::size_t length;
};

bool bytesOf(napi_env env, napi_value value, Bytes& bytes) {
  return napi_get_buffer_info(env, value, &bytes.data, &bytes.length) == napi_ok;
}

// OpenSSL wipes its own copy of the PIN. False if there is not enough memory.
bool digestOf(const CK_UTF8CHAR* pin, std::size_t length, const Bytes& salt, unsigned char* digest) {
  return EVP_PBE_scrypt(reinterpret_cast<const char*>(pin), length, static_cast<const unsigned char*>(salt.data),
                        salt.length, kScryptN, kScryptR, 1, kScryptMemoryMax, digest, kDigestBytes) == 1;
}

bool contains(const Bytes& digests, const unsigned char* digest) {
  const auto* known = static_cast<const unsigned char*>(digests.data);
  for (std::size_t at = 0; at + kDigestBytes <= digests.length; at += kDigestBytes)
    if (std::memcmp(known + at, digest, kDigestBytes) == 0) return true;
  return false;
}

bool sessionsOf(napi_env env, napi_value list, std::vector<CK_SESSION_HANDLE>& sessions) {
  std::uint32_t count;
  if (napi_get_array_length(env, list, &count) != napi_ok) return false;
  sessions.resize(count);
  for (std::uint32_t n = 0; n < count; n++) {
    napi_value element;
    Bytes handle;
    if (napi_get_element(env, list, n, &element) != napi_ok || !bytesOf(env, element, handle) ||
        handle.length != sizeof(CK_SESSION_HANDLE))
      return false;
    std::memcpy(&sessions[n], handle.data, handle.length);
  }
  return count > 0;
}

// Stops at the first refusal: a PIN that was refused once is not presented again. Most modules log in all
// sessions with the first one, and answer that the user is logged in already; so do those that share a
// log-in between programs. `accepted`: whether the token took the PIN for one of the sessions.
CK_RV logInTo(const std::vector<CK_SESSION_HANDLE>& sessions, CK_USER_TYPE user, CK_UTF8CHAR* pin, std::size_t length,
              bool& accepted) {
  for (const CK_SESSION_HANDLE session : sessions) {
    const CK_RV result = moduleFunctions()->C_Login(session, user, pin, length);
    if (result != CKR_OK && result != CKR_USER_ALREADY_LOGGED_IN) return result;
    accepted = accepted || result == CKR_OK;
  }
  return CKR_OK;
}

bool set(napi_env env, napi_value object, const char* name, napi_value value) {
  return napi_set_named_property(env, object, name, value) == napi_ok;
}

bool addDigest(napi_env env, napi_value answer, const unsigned char* digest) {
  napi_value value;
  return napi_create_buffer_copy(env, kDigestBytes, digest, nullptr, &value) == napi_ok &&
         set(env, answer, "digest", value);
}

}  // namespace

napi_value logIn(napi_env env, napi_callback_info info) {
  std::size_t count = 5;
  napi_value arguments[5];
  std::uint32_t user;
  std::vector<CK_SESSION_HANDLE> sessions;
  Bytes salt, refused;
  std::int32_t file;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count != 5 ||
      napi_get_value_uint32(env, arguments[0], &user) != napi_ok || !sessionsOf(env, arguments[1], sessions) ||
      napi_get_value_int32(env, arguments[2], &file) != napi_ok || !bytesOf(env, arguments[3], salt) ||
      !bytesOf(env, arguments[4], refused)) {
    return fail(env, "ERR_INVALID_ARG_TYPE", "logIn takes a user type, sessions, a file descriptor, a salt and digests");
  }
  if (moduleFunctions() == nullptr) return fail(env, "ERR_PIN", "no PKCS#11 module is loaded");

  napi_value answer, value;
  if (napi_create_object(env, &answer) != napi_ok) return nullptr;
  Page page;
  if (!page.isThere()) return fail(env, "ERR_PIN", std::strerror(errno));
  if (const int problem = page.lock(); problem != 0) {
    if (napi_create_string_utf8(env, std::strerror(problem), NAPI_AUTO_LENGTH, &value) != napi_ok ||
        !set(env, answer, "unlocked", value))
      return nullptr;
  }
  const ssize_t length = readAll(file, page);
  if (length < 0) return fail(env, "ERR_PIN", std::strerror(errno));
  const std::size_t pinBytes = withoutLineBreak(page.bytes(), static_cast<std::size_t>(length));
  const bool hasLines = std::memchr(page.bytes(), '\n', pinBytes) != nullptr ||
                        std::memchr(page.bytes(), '\r', pinBytes) != nullptr;
  if (pinBytes == 0 || hasLines) {
    const char* unfit = hasLines ? "has more than one line" : "is empty";
    return napi_create_string_utf8(env, unfit, NAPI_AUTO_LENGTH, &value) == napi_ok && set(env, answer, "unfit", value)
               ? answer
               : nullptr;
  }
  unsigned char digest[kDigestBytes];
  if (refused.length > 0) {
    if (!digestOf(page.bytes(), pinBytes, salt, digest))
      return fail(env, "ERR_PIN", "there is no memory to compare the PIN with those that were refused");
    if (contains(refused, digest)) return addDigest(env, answer, digest) ? answer : nullptr;
  }
  bool accepted = false;
  const CK_RV result = logInTo(sessions, user, page.bytes(), pinBytes, accepted);
  if (napi_create_double(env, static_cast<double>(result), &value) != napi_ok || !set(env, answer, "result", value) ||
      napi_get_boolean(env, accepted, &value) != napi_ok || !set(env, answer, "accepted", value))
    return nullptr;
  if (result == CKR_OK) return answer;
  // Without a digest the caller cannot remember the PIN, and reports that.
  if (refused.length == 0 && !digestOf(page.bytes(), pinBytes, salt, digest)) return answer;
  return addDigest(env, answer, digest) ? answer : nullptr;
}
