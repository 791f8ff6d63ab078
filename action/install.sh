#!/bin/sh
# Installs the program of one release: downloads the archive for this platform,
# holds it against its checksum, and only then unpacks the one file that it is
# about, into a new folder in RUNNER_TEMP.
#
# Without a version and a checksum it builds the program from the source that this
# script is part of, with the Go of the runner. The runner has that source at the
# commit that the workflow names, and go.sum has the checksums of the rest.
#
# Exit status: 0 installed; 2 not, and nothing is left behind.
set -eu

home=
end() {
  status=$?
  [ "$status" -ne 0 ] || exit 0
  [ -z "$home" ] || rm -rf "$home"
  exit 2
}
trap end EXIT

fail() { # fail MESSAGE HINT
  printf '::error title=fiador::%s\n' "$(printf '%s' "$1" | tr '\r\n' '  ' | sed 's/%/%25/g')" >&2
  printf 'hint: %s\n' "$2" >&2
  exit 2
}

for name in INPUT_VERSION INPUT_SHA256; do
  eval "[ -n \"\${$name+set}\" ]" || fail "$name is not set" "version and sha256 are both empty to build from source"
done
needed='INPUT_VERSION INPUT_SHA256 INPUT_BASE_URL'
[ -n "$INPUT_VERSION$INPUT_SHA256" ] || needed=
for name in $needed RUNNER_TEMP GITHUB_PATH GITHUB_OUTPUT; do
  eval "[ -n \"\${$name:-}\" ]" || fail "$name is empty or not set" "a release needs the inputs version and sha256; without both the program is built from source"
done

installed() { # installed PROGRAM: says where it is, if it runs
  "$1" version || fail "the program does not run here" "look at what the runner is"
  printf '%s\n' "${1%/*}" >>"$GITHUB_PATH"
  printf 'program=%s\n' "$1" >>"$GITHUB_OUTPUT"
}

if [ -z "$needed" ]; then
  command -v go >/dev/null || fail "go is not installed, and builds the program" "put actions/setup-go before, or name a release in version and sha256"
  source=$(CDPATH='' cd "${0%/*}/.." && pwd)
  home=$(mktemp -d "$RUNNER_TEMP/fiador.XXXXXX")
  mkdir "$home/bin"
  (cd "$source" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off go build -trimpath -buildvcs=false -o "$home/bin/" ./cmd/fiador) ||
    fail "the program could not be built" "the log says why; a release needs no Go: name it in version and sha256"
  for program in "$home"/bin/*; do
    installed "$program"
  done
  exit 0
fi

# The version stands in a URL and in a file name.
printf '%s' "$INPUT_VERSION" | tr '\n' '/' | grep -Eq '^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$' ||
  fail "version \"$INPUT_VERSION\" is not a release" "name one whole version, such as v0.1.0"
case $INPUT_BASE_URL in
  https://* | file://*) ;;
  *) fail "base-url \"$INPUT_BASE_URL\" is neither https:// nor file://" "name the place of a mirror, or leave it out" ;;
esac

program=fiador
case $(uname -s) in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  MINGW* | MSYS* | CYGWIN*) os=windows program=fiador.exe ;;
  *) os= ;;
esac
case $(uname -m) in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) arch= ;;
esac
case ${os}_$arch in
  linux_amd64 | linux_arm64 | darwin_amd64 | darwin_arm64 | windows_amd64) ;;
  *) fail "there is no release for $(uname -s) $(uname -m)" "there are linux and darwin on amd64 and arm64, and windows on amd64" ;;
esac
archive=fiador_${INPUT_VERSION#v}_${os}_$arch.tar.gz

# The checksum: the only one, or the one that is named for the archive.
want='' lines=0 nameless=0
while read -r sum name more; do
  [ -n "$sum" ] || continue
  lines=$((lines + 1))
  sum=$(printf '%s' "$sum" | tr 'A-F' 'a-f')
  case $sum in
    *[!0-9a-f]*) sum=malformed ;;
  esac
  if [ "${#sum}" -ne 64 ] || [ -n "$more" ]; then
    fail "line $lines of sha256 is not a checksum" "a line is 64 hexadecimal digits, two spaces and the name of an archive"
  fi
  if [ -z "$name" ]; then
    nameless=1
  elif [ "${name#\*}" != "$archive" ]; then
    continue
  fi
  if [ -n "$want" ] && [ "$want" != "$sum" ]; then
    fail "sha256 has two checksums for $archive" "keep the one of the release's checksums.txt"
  fi
  want=$sum
done <<END
$(printf '%s' "$INPUT_SHA256" | tr -d '\r')
END
if [ "$nameless" -eq 1 ] && [ "$lines" -ne 1 ]; then
  fail "sha256 has a checksum without a name among several" "a checksum without a name must be the only one"
fi
[ -n "$want" ] || fail "sha256 has no checksum for $archive" "take the line from the release's checksums.txt"

command -v curl >/dev/null || fail "curl is not installed" "install it in an earlier step"
if command -v sha256sum >/dev/null; then
  digest() { sha256sum; }
elif command -v shasum >/dev/null; then
  digest() { shasum -a 256; }
else
  fail "neither sha256sum nor shasum is installed" "install one in an earlier step"
fi

home=$(mktemp -d "$RUNNER_TEMP/fiador.XXXXXX")
cd "$home"
curl --fail --silent --show-error --location --globoff --proto '=https,file' \
  --connect-timeout 30 --max-time 600 --retry 3 \
  --output archive.tar.gz --url "${INPUT_BASE_URL%/}/$INPUT_VERSION/$archive" ||
  fail "$archive could not be downloaded" "the archive is looked for at base-url/$INPUT_VERSION/$archive"

got=$(digest <archive.tar.gz)
got=${got%% *}
[ "$got" = "$want" ] ||
  fail "$archive has the checksum $got, and not $want" "nothing of it was unpacked; find out which of the two is right"

# Written from a stream: no name, link or permission of the archive takes effect.
list=$(tar -tzf archive.tar.gz) || fail "$archive cannot be read" "it is damaged, and was when its checksum was made"
[ "$(printf '%s\n' "$list" | grep -cFx "$program")" = 1 ] ||
  fail "$archive does not hold the file $program once" "it is not an archive of a release"
mkdir bin
tar -xzOf archive.tar.gz "$program" >"bin/$program" || fail "$archive cannot be unpacked" "it is damaged, and was when its checksum was made"
[ -s "bin/$program" ] || fail "$program in $archive is not a file" "it is not an archive of a release"
chmod 755 "bin/$program"
rm archive.tar.gz
installed "$home/bin/$program"
