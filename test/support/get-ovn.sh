#!/bin/sh
# Another Debian release's Open vSwitch and OVN as plain files below a folder: `sh get-ovn.sh trixie DIR`.
# apt downloads with a state of its own, from the archive that this machine uses already, and dpkg-deb unpacks: nothing is
# installed, configured or started, and the machine's own package lists stay as they are. The folder appears whole or not
# at all, and is left alone where it is there already; of two runs at once the second waits for the first.
set -eu
[ $# = 2 ] || { echo "usage: get-ovn.sh SUITE DIR" >&2; exit 64; }
suite=$1
mkdir -p "$(dirname "$2")"
dir=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")

say() { echo "get-ovn: $*" >&2; }
fail() { say "$*"; exit 1; }

[ ! -d "$dir" ] || exit 0
for tool in apt-get apt-cache dpkg-deb dpkg flock; do
  command -v "$tool" >/dev/null || fail "there is no $tool"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keyring" ] || fail "there is no $keyring: not Debian, or without its debian-archive-keyring"

exec 9>"$dir.lock"
flock 9
# The other run may have made it meanwhile.
[ ! -d "$dir" ] || exit 0
# What a run that was killed has left; with the lock held nobody is at it.
rm -rf "$dir".new.*
new=$(mktemp -d "$dir.new.XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$new"

# Of a fresh image there are no lists yet, and then apt knows the archive, but not whose it is.
archive() {
  apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" "Component: main" "$@" | grep -v security | head -n 1
}
from=$(archive "Origin: Debian")
[ -n "$from" ] || from=$(archive -o APT::Get::IndexTargets::OnlyPresent=false -o APT::Get::IndexTargets::ReleaseInfo=false)
[ -n "$from" ] || fail "apt here has no archive to fetch from"

apt=$new/.apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/etc"
: >"$apt/status"
echo "deb [signed-by=$keyring] $from $suite main" >"$apt/etc/sources.list"
with_own_state() {
  tool=$1
  shift
  "$tool" -o Dir::State="$apt" -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" \
    -o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/etc/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o APT::Default-Release= \
    -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Acquire::Languages=none \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Debug::NoLocking=1 "$@"
}

with_own_state apt-get -qq update >&2 || fail "cannot fetch the package lists of $suite"
# An empty package database would have apt want everything. Fetched are the packages with the programs, and the shared
# libraries that those load: not Python, nor what every program brings along by itself.
programs="openvswitch-switch openvswitch-common ovn-central ovn-common ovn-host"
# shellcheck disable=SC2086 # one word a package
libraries=$(with_own_state apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
  --no-replaces --no-enhances $programs |
  grep -E '^lib[a-z0-9.+-]*$' | grep -Ev '^lib(python|perl|pam|systemd-shared|gcc-s1-|stdc)' | sort -u)
# shellcheck disable=SC2086
(cd "$apt/cache" && with_own_state apt-get -qq download $programs $libraries) >&2 || fail "cannot download from $suite"
for package in "$apt"/cache/*.deb; do dpkg-deb -x "$package" "$new"; done
rm -rf "$apt" "$new"/usr/share/doc "$new"/usr/share/man "$new"/usr/share/locale "$new"/usr/share/lintian \
  "$new"/usr/share/bug "$new"/usr/lib/python3

# ---- programs that start through the folder's own dynamic loader -----------------------------------------------------
# A program of another release finds neither its loader nor its libraries on this machine.
loader=$(find "$new/lib" "$new/lib64" "$new/usr/lib" "$new/usr/lib64" -maxdepth 2 -name 'ld-linux*.so.*' 2>/dev/null | head -n 1)
[ -n "$loader" ] || fail "no dynamic loader in $suite's libc6"
loader=$dir${loader#"$new"}
libs=
for place in $(find "$new/lib" "$new/usr/lib" -maxdepth 2 -type d -name '*-linux-gnu*' 2>/dev/null); do
  libs="$libs:$dir${place#"$new"}"
done
mkdir "$new/bin"
for name in ovs-vsctl ovs-ofctl ovs-appctl ovs-vswitchd ovsdb-server ovsdb-tool ovsdb-client \
  ovn-nbctl ovn-sbctl ovn-northd ovn-controller ovn-appctl ovn-trace; do
  file=
  # usr/sbin/ovs-vswitchd is an alternatives link, and an absolute one: it would lead to this machine's own program.
  for candidate in "usr/lib/openvswitch-switch/$name" "usr/bin/$name" "usr/sbin/$name"; do
    if [ -f "$new/$candidate" ] && [ ! -L "$new/$candidate" ]; then file=$candidate && break; fi
  done
  [ -n "$file" ] || fail "$suite has no $name"
  printf '#!/bin/sh\nexec "%s" --argv0 %s --library-path "%s" "%s" "$@"\n' \
    "$loader" "$name" "${libs#:}" "$dir/$file" >"$new/bin/$name"
  chmod 755 "$new/bin/$name"
done
versions=
for name in ovs-vswitchd ovsdb-server ovn-nbctl ovn-northd ovn-controller; do
  said=$(sed "s|\"$dir|\"$new|g; s|:$dir|:$new|g" "$new/bin/$name" | sh -s -- --version) || fail "$suite's $name does not run here"
  versions="$versions $(echo "$said" | head -n 1)"
done

mv -T "$new" "$dir"
trap - EXIT
say "$suite:$versions, $(du -sh "$dir" | cut -f1)"
