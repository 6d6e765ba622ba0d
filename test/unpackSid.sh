#!/bin/sh
# Unpacks amd64 packages of Debian that run on its newer and older releases from where they are: a folder, and of each its name, its
# path in the archive, SHA-256. Once the archive lacks that version, or on another architecture, what sid has is taken: by its lists,
# which Debian must have signed.
set -eu
mirror=${PDFSEALD_DEBIAN_MIRROR-http://deb.debian.org/debian}
keyring=${PDFSEALD_DEBIAN_KEYRING-/usr/share/keyrings/debian-archive-keyring.gpg}
arch=$(dpkg --print-architecture)
folder=$1
shift

get() {
  curl -fsSL --connect-timeout 20 --max-time 600 -o "$folder/$1" "$mirror/$2"
}

refuse() {
  echo "setup: $1" >&2
  rm -rf "$folder"
  exit 1
}

# The connection proves nothing: neither the lists nor their mirror are believed without the signature.
get_lists() {
  list=main/binary-$arch/Packages.xz
  get InRelease dists/sid/InRelease
  gpgv --quiet --keyring "$keyring" --output "$folder/Release" "$folder/InRelease" 2>"$folder/gpgv" ||
    refuse "the lists of $mirror are not signed by a key in $keyring: $(tail -n 1 "$folder/gpgv")"
  sum=$(awk -v list="$list" '/^[^ ]/ { ours = ($1 == "SHA256:") } ours && $3 == list { print $1 }' "$folder/Release")
  get Packages.xz "dists/sid/$list"
  echo "$sum  $folder/Packages.xz" | sha256sum --check --strict --quiet >&2 ||
    refuse "$list of $mirror is not the one that was signed"
}

rm -rf "$folder"
mkdir -p "$folder"
while [ $# -gt 0 ]; do
  path=$2
  sum=$3
  if [ "$arch" != amd64 ] || ! get package.deb "$path"; then
    [ -e "$folder/Packages.xz" ] || get_lists
    found=$(python3 -c 'import lzma, sys
for entry in lzma.open(sys.argv[1], "rt", encoding="utf-8").read().split("\n\n"):
    fields = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line and not line.startswith(" "))
    if fields.get("Package") == sys.argv[2]: print(fields["Filename"], fields["SHA256"])' "$folder/Packages.xz" "$1")
    path=${found% *}
    sum=${found#* }
    get package.deb "$path"
  fi
  echo "$sum  $folder/package.deb" | sha256sum --check --strict --quiet >&2 || refuse "$path of $mirror is not the package that is expected"
  dpkg -x "$folder/package.deb" "$folder"
  shift 3
done
rm -f "$folder/package.deb" "$folder/Packages.xz" "$folder/Release" "$folder/InRelease" "$folder/gpgv"
touch "$folder/.unpacked"
