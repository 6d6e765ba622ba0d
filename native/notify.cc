// Datagrams to the service manager (sd_notify(3)) and its journal (systemd's "Native Journal Protocol"): Node
// lacks datagrams over Unix sockets, and sending them from a child would need NotifyAccess=all, which lets
// every child of the service speak for it. Also other requests to the kernel that Node does not offer.
#include <fcntl.h>
#include <node_api.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "lifeline.h"
#include "module.h"
#include "pin.h"
#include "system.h"

namespace {

constexpr std::size_t kAtOnceMax = 256;
constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

// The destination of datagrams.
struct Receiver {
  sockaddr_un address{};
  socklen_t bytes = 0;

  // False for an invalid path.
  bool set(const std::string& path) {
    if (path.empty() || path.size() >= sizeof address.sun_path) return false;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract socket
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    return true;
  }
};

// A message too large for a datagram is sent as a sealed memory file, as the journal requires. Returns 0, or
// the error number.
int sendAsFile(int socket, Receiver& to, const iovec& message) {
  const int file = memfd_create("pdfseald", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return errno;
  int problem = 0;
  if (write(file, message.iov_base, message.iov_len) != static_cast<ssize_t>(message.iov_len))
    problem = errno ? errno : EIO;
  if (!problem && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
    problem = errno;
  if (!problem) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
    msghdr header{};
    header.msg_name = &to.address;
    header.msg_namelen = to.bytes;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(rights), &file, sizeof file);
    if (sendmsg(socket, &header, kFlags) < 0) problem = errno;
  }
  close(file);
  return problem;
}

// Returns how many of the messages were sent; `problem` is the reason if any are left. Never waits: a full
// queue is an error like any other.
std::size_t send(const std::string& path, std::vector<iovec>& messages, int& problem) {
  problem = ENAMETOOLONG;
  Receiver to;
  if (!to.set(path)) return 0;
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  problem = socket < 0 ? errno : 0;
  std::size_t sent = 0;
  while (!problem && sent < messages.size()) {
    mmsghdr headers[kAtOnceMax] = {};
    const std::size_t count = std::min(kAtOnceMax, messages.size() - sent);
    for (std::size_t n = 0; n < count; ++n) {
      headers[n].msg_hdr.msg_name = &to.address;
      headers[n].msg_hdr.msg_namelen = to.bytes;
      headers[n].msg_hdr.msg_iov = &messages[sent + n];
      headers[n].msg_hdr.msg_iovlen = 1;
    }
    const int taken = sendmmsg(socket, headers, static_cast<unsigned>(count), kFlags);
    if (taken > 0) {
      sent += static_cast<std::size_t>(taken);
    } else if (errno == EMSGSIZE || errno == ENOBUFS) {
      problem = sendAsFile(socket, to, messages[sent]);
      if (!problem) ++sent;
    } else if (errno != EINTR) {
      problem = errno;
    }
  }
  if (socket >= 0) close(socket);
  return sent;
}

// The short name of the error, as far as callers distinguish it.
const char* codeOf(int problem) {
  switch (problem) {
    case EAGAIN:
      return "EAGAIN";
    case ECONNREFUSED:
      return "ECONNREFUSED";
    case ENOENT:
      return "ENOENT";
    default:
      return "ERR_NOTIFY";
  }
}

// notify(socket, message): throws Error with the system's message.
napi_value notify(napi_env env, napi_callback_info info) {
  std::size_t count = 2;
  napi_value arguments[2];
  std::string path;
  std::string message;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count != 2 ||
      !textOf(env, arguments[0], path) || !textOf(env, arguments[1], message)) {
    return fail(env, "ERR_INVALID_ARG_TYPE", "notify takes the path of a socket and a message");
  }
  std::vector<iovec> messages{{message.data(), message.size()}};
  int problem;
  send(path, messages, problem);
  return problem == 0 ? nullptr : fail(env, codeOf(problem), std::strerror(problem));
}

// send(socket, buffers): sends in order and returns how many were sent; throws Error with the system's code
// and message if none was.
napi_value sendAll(napi_env env, napi_callback_info info) {
  std::size_t count = 2;
  napi_value arguments[2];
  std::string path;
  std::uint32_t length;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count != 2 ||
      !textOf(env, arguments[0], path) || napi_get_array_length(env, arguments[1], &length) != napi_ok) {
    return fail(env, "ERR_INVALID_ARG_TYPE", "send takes the path of a socket and an array of buffers");
  }
  std::vector<iovec> messages(length);
  for (std::uint32_t n = 0; n < length; ++n) {
    napi_value buffer;
    if (napi_get_element(env, arguments[1], n, &buffer) != napi_ok ||
        napi_get_buffer_info(env, buffer, &messages[n].iov_base, &messages[n].iov_len) != napi_ok) {
      return fail(env, "ERR_INVALID_ARG_TYPE", "send takes buffers");
    }
  }
  int problem;
  const std::size_t sent = send(path, messages, problem);
  if (sent == 0 && problem != 0) return fail(env, codeOf(problem), std::strerror(problem));
  napi_value result;
  return napi_create_uint32(env, static_cast<std::uint32_t>(sent), &result) == napi_ok ? result : nullptr;
}

// peer(fd): {pid?, uid} of the process at the other end of a Unix socket when it connected, or of the one
// that listens (unix(7), SO_PEERCRED); undefined for any other socket. A process hidden by another PID
// namespace has no pid here.
napi_value peer(napi_env env, napi_callback_info info) {
  std::size_t count = 1;
  napi_value argument;
  int32_t fd;
  if (napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr) != napi_ok || count != 1 ||
      napi_get_value_int32(env, argument, &fd) != napi_ok) {
    return fail(env, "ERR_INVALID_ARG_TYPE", "peer takes a file descriptor");
  }
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  // Sockets other than Unix sockets have invalid credentials.
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0 || credentials.uid == static_cast<uid_t>(-1))
    return nullptr;
  napi_value result;
  napi_value pid;
  napi_value uid;
  const bool made = napi_create_object(env, &result) == napi_ok &&
                    napi_create_uint32(env, credentials.uid, &uid) == napi_ok &&
                    napi_set_named_property(env, result, "uid", uid) == napi_ok &&
                    (credentials.pid == 0 || (napi_create_int32(env, credentials.pid, &pid) == napi_ok &&
                                              napi_set_named_property(env, result, "pid", pid) == napi_ok));
  return made ? result : nullptr;
}

// conceal(): from now on, other processes of the user cannot read the memory of this one, and no core is
// written (PR_SET_DUMPABLE, prctl(2)). Throws Error with the system's code.
napi_value conceal(napi_env env, napi_callback_info) {
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0) return nullptr;
  return fail(env, codeOf(errno), std::strerror(errno));
}

// flock(fd, kind): returns whether the open file now has the lock, or, with "unlock", has none (flock(2)).
// Never waits. Throws Error with the system's message.
napi_value lock(napi_env env, napi_callback_info info) {
  std::size_t count = 2;
  napi_value arguments[2];
  int32_t fd;
  std::string kind;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count != 2 ||
      napi_get_value_int32(env, arguments[0], &fd) != napi_ok || !textOf(env, arguments[1], kind)) {
    return fail(env, "ERR_INVALID_ARG_TYPE", "flock takes a file descriptor and a kind");
  }
  const int operation = kind == "unlock" ? LOCK_UN : kind == "shared" ? LOCK_SH : LOCK_EX;
  int result;
  do result = flock(fd, operation | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EWOULDBLOCK) return fail(env, codeOf(errno), std::strerror(errno));
  napi_value locked;
  return napi_get_boolean(env, result == 0, &locked) == napi_ok ? locked : nullptr;
}

napi_value open(napi_env env, napi_value exports) {
  const napi_property_descriptor functions[] = {
      {"flock", nullptr, lock, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"endAt", nullptr, endAt, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"watch", nullptr, watch, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"conceal", nullptr, conceal, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"loadModule", nullptr, loadModule, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"initialize", nullptr, initialize, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"logIn", nullptr, logIn, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"peer", nullptr, peer, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"notify", nullptr, notify, nullptr, nullptr, nullptr, napi_default, nullptr},
      {"send", nullptr, sendAll, nullptr, nullptr, nullptr, napi_default, nullptr},
  };
  return napi_define_properties(env, exports, std::size(functions), functions) == napi_ok ? exports : nullptr;
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, open)
