#!/bin/sh
# Installs what only `npm run test:cluster` uses: PostgreSQL under Patroni, and etcd. Their services are not started.
set -eu
missing=
for pair in patroni:patroni etcd:etcd-server ip:iproute2 nft:nftables pkill:procps strace:strace; do
  command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
echo "setup: installing Debian packages:$missing" >&2
if [ ! -e /usr/sbin/policy-rc.d ]; then
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
apt-get update -qq >&2
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql $missing >&2
