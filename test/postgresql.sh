#!/bin/sh
# `sh test/postgresql.sh FOLDER [SUITE]`: fetches the PostgreSQL of another Debian (default: trixie, with PostgreSQL 17) into a new folder, with the
# libraries that it needs, and prints what PDFSEALD_POSTGRESQL must be to test with it. Nothing else of this machine changes.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
suite=${2:-trixie}
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/root"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$folder/sources.list"
: >"$folder/status"
set -- -qq -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/lists" \
  -o "Dir::State::status=$folder/status" -o "Dir::Cache=$folder/cache" -o APT::Install-Recommends=0 -o Debug::NoLocking=1
apt-get "$@" update >&2
apt-get "$@" -y --download-only install postgresql >&2
for package in "$folder"/cache/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done

# Each program runs with the loader and the libraries it was built for. What it finds by its own address, it finds.
bin=$(echo "$folder"/root/usr/lib/postgresql/*/bin)
libraries=$(echo "$folder"/root/usr/lib/*-linux-gnu*)
loader=$(echo "$libraries"/ld-linux*.so.*)
mv "$bin" "$bin.own"
mkdir "$bin"
for program in "$bin.own"/*; do
  name=${program##*/}
  printf '#!/bin/sh\nexec %s --library-path %s --argv0 %s %s "$@"\n' "$loader" "$libraries" "$bin/$name" "$program" >"$bin/$name"
  chmod +x "$bin/$name"
done
chmod -R a+rX "$folder"
"$bin/postgres" --version >&2
echo "$bin"
