#!/bin/sh
# Prometheus' promtool as one file below a folder: `sh get-promtool.sh DIR`. apt downloads the package with a state of its own, from the
# archives that this machine uses already, and dpkg-deb unpacks: nothing is installed, configured or started. The folder appears whole
# or not at all, and is left alone where it is there already; of two runs at once the second waits for the first.
set -eu
[ $# = 1 ] || { echo "usage: get-promtool.sh DIR" >&2; exit 64; }
mkdir -p "$(dirname "$1")"
dir=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")

fail() { echo "get-promtool: $*" >&2; exit 1; }

[ ! -d "$dir" ] || exit 0
for tool in apt-get dpkg-deb flock; do
  command -v "$tool" >/dev/null || fail "there is no $tool"
done

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

apt=$new/.apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
with_own_state() {
  apt-get -qq -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root \
    -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Debug::NoLocking=1 "$@"
}
with_own_state update >&2 || fail "cannot fetch the package lists"
(cd "$apt" && with_own_state download prometheus) >&2 || fail "cannot download prometheus"
dpkg-deb -x "$apt"/prometheus_*.deb "$apt/unpacked"
mkdir "$new/bin"
mv "$apt/unpacked/usr/bin/promtool" "$new/bin/promtool"
rm -rf "$apt"
"$new/bin/promtool" --version >/dev/null 2>&1 || fail "promtool does not run here"

mv -T "$new" "$dir"
trap - EXIT
