// One datagram to the service manager (sd_notify(3)): Node has no datagrams over Unix sockets, and a child that sends
// them would need NotifyAccess=all, which lets every child of the service speak for it.
#include <node_api.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace {

bool textOf(napi_env env, napi_value value, std::string& text) {
  std::size_t length;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) return false;
  text.resize(length + 1);
  if (napi_get_value_string_utf8(env, value, text.data(), text.size(), &length) != napi_ok) return false;
  text.resize(length);
  return true;
}

napi_value fail(napi_env env, const char* code, const char* message) {
  napi_throw_error(env, code, message);
  return nullptr;
}

// 0, or why the datagram was not sent. Never waits: a queue that is full is an error like any other.
int send(const std::string& path, const std::string& message) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract socket
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  const ssize_t sent = sendto(socket, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL, to, bytes);
  const int problem = sent < 0 ? errno : 0;
  close(socket);
  return problem;
}

// notify(socket, message): throws Error with the system's words.
napi_value notify(napi_env env, napi_callback_info info) {
  std::size_t count = 2;
  napi_value arguments[2];
  std::string path;
  std::string message;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count != 2 ||
      !textOf(env, arguments[0], path) || !textOf(env, arguments[1], message)) {
    return fail(env, "ERR_INVALID_ARG_TYPE", "notify takes the path of a socket and a message");
  }
  const int problem = send(path, message);
  return problem == 0 ? nullptr : fail(env, "ERR_NOTIFY", std::strerror(problem));
}

napi_value open(napi_env env, napi_value exports) {
  napi_value function;
  if (napi_create_function(env, "notify", NAPI_AUTO_LENGTH, notify, nullptr, &function) != napi_ok) return nullptr;
  return napi_set_named_property(env, exports, "notify", function) == napi_ok ? exports : nullptr;
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, open)
