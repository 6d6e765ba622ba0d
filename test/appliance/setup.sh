#!/bin/sh
# What booting a Debian takes: root, debootstrap and systemd-nspawn; and lintian, which looks at the package.
set -eu
if [ "$(id -u)" -ne 0 ]; then
  echo "test:appliance boots a machine with systemd-nspawn: run it as root" >&2
  exit 1
fi
missing=
for pair in debootstrap:debootstrap systemd-nspawn:systemd-container lintian:lintian ip:iproute2; do
  command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
apt-get update -qq >&2
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
