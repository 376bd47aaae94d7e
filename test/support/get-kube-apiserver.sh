#!/bin/sh
# A real Kubernetes API server and its etcd as two files in a folder: `sh get-kube-apiserver.sh DIR`.
# Nobody's archive has kube-apiserver as a package, but Debian's bookworm has its source (v1.20.2), a Go that builds it, and
# trixie a current etcd. apt downloads with a state of its own, nothing is installed, root is not needed. It takes about four
# minutes of two cores and 2.5 GB of disk meanwhile, once for each machine. The folder appears whole or not at all, and is left
# alone where it is there already; of two runs at once the second waits for the first.
set -eu
[ $# = 1 ] || { echo "usage: get-kube-apiserver.sh DIR" >&2; exit 64; }
mkdir -p "$(dirname "$1")"
dir=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")

say() { echo "get-kube-apiserver: $*" >&2; }
# What failed just now fails again: every test file would wait for it anew.
fail() { say "$*"; echo "$*" >"$dir.failed"; exit 1; }
give_up_early() {
  [ -n "$(find "$dir.failed" -mmin -15 2>/dev/null)" ] || return 0
  say "$(cat "$dir.failed") (tried less than 15 minutes ago; without $dir.failed it is tried again)"
  exit 1
}

[ ! -d "$dir" ] || exit 0
for tool in apt-get dpkg-deb flock tar sed; do
  command -v "$tool" >/dev/null || { say "there is no $tool"; exit 1; }
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keyring" ] || { say "there is no $keyring: not Debian, or without its debian-archive-keyring"; exit 1; }

exec 9>"$dir.lock"
flock 9
# The other run may have made it meanwhile, or have failed to.
[ ! -d "$dir" ] || exit 0
give_up_early
# What a run that was killed has left; with the lock held nobody is at it.
chmod -R u+w "$dir".new.* 2>/dev/null || true
rm -rf "$dir".new.* "$dir.failed"
new=$(mktemp -d "$dir.new.XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT TERM HUP
free=$(df -Pk "$new" | awk 'NR == 2 { print int($4 / 1024) }')
[ "$free" -ge 3000 ] || fail "building needs 3000 MB below $(dirname "$dir"), and $free are free"

# ---- what it is made of ----------------------------------------------------------------------------------------------
# Of a fresh image there are no lists yet, and then apt knows the archive, but not whose it is.
archive() {
  apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" "Component: main" "$@" | grep -v security | head -n 1
}
from=$(archive "Origin: Debian")
[ -n "$from" ] || from=$(archive -o APT::Get::IndexTargets::OnlyPresent=false -o APT::Get::IndexTargets::ReleaseInfo=false)
[ -n "$from" ] || fail "apt here has no archive to fetch from"

apt=$new/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$new/debs" "$new/root" "$new/etcd" "$new/out"
: >"$apt/status"
for line in "deb $from bookworm" "deb-src $from bookworm" "deb $from trixie"; do
  echo "$line" | sed "s|^\([a-z-]*\) \(.*\)|\1 [signed-by=$keyring] \2 main|"
done >"$apt/sources.list"
apt_get() {
  apt-get -qq -o Dir::State="$apt" -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" \
    -o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o APT::Default-Release= \
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=20 \
    -o Debug::NoLocking=1 "$@"
}
cd "$new/debs"
apt_get update >&2 || fail "cannot fetch the package lists of bookworm and trixie, sources among them"
apt_get source --download-only kubernetes >&2 || fail "the archive has no source of kubernetes in bookworm"
# As 1.20.5+really1.20.2-1.1+deb12u1: bookworm's updates may change what comes after 1.20.2.
debian=$(sed -n 's/^Version: //p' kubernetes_*.dsc | head -n 1)
case "$debian" in *really1.20.2-*) ;; *) fail "bookworm's kubernetes is $debian, not 1.20.2" ;; esac
# xz and patch are for the source: not every machine has them.
apt_get download golang-1.19-go/bookworm golang-1.19-src/bookworm golang-github-modern-go-reflect2-dev/bookworm \
  patch/bookworm xz-utils/bookworm >&2 || fail "cannot download Go from bookworm"
for package in *.deb; do dpkg-deb -x "$package" "$new/root"; done
rm -f ./*.deb
apt_get download etcd-server/trixie >&2 || fail "cannot download etcd from trixie"
dpkg-deb -x etcd-server_*.deb "$new/etcd"

# ---- the source tree, as dpkg-source would leave it ------------------------------------------------------------------
export PATH="$new/root/usr/bin:$PATH"
source=$new/gopath/src/k8s.io/kubernetes
mkdir -p "$source"
tar -xf kubernetes_*.orig.tar.* -C "$source" --strip-components=1
tar -xf kubernetes_*.debian.tar.* -C "$source"
cd "$source"
sed 's/[[:space:]]*#.*//; /^[[:space:]]*$/d' debian/patches/series | while read -r name _; do
  patch -s -p1 <"debian/patches/$name" >&2 || exit 1
done || fail "Debian's patches do not apply to kubernetes $debian"
# The reflect2 in vendor/ walks maps as before Go 1.18: the server would build, start, and die at the first custom resource.
# bookworm's own is the one with the fix.
rm -f vendor/github.com/modern-go/reflect2/*.go vendor/github.com/modern-go/reflect2/*.s
cp "$new"/root/usr/share/gocode/src/github.com/modern-go/reflect2/*.go \
  "$new"/root/usr/share/gocode/src/github.com/modern-go/reflect2/*.s vendor/github.com/modern-go/reflect2/

# ---- building --------------------------------------------------------------------------------------------------------
# Not by modules: go.mod and vendor/ of the tarball do not agree.
export GOROOT="$new/root/usr/lib/go-1.19" GOPATH="$new/gopath" GOCACHE="$new/gocache" GOTMPDIR="$new" \
  GO111MODULE=off GOFLAGS='' GOPROXY=off GOENV=off CGO_ENABLED=0
export PATH="$GOROOT/bin:$PATH"
# pkg/generated/openapi is not in the tarball, and made of all packages that say so.
go build -o "$new/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen >&2 || fail "Go cannot build openapi-gen"
packages=$(grep -RlE --include='*.go' '\+k8s:openapi-gen=' pkg cmd plugin vendor/k8s.io/*/ |
  grep -vE 'vendor/k8s.io/(code-generator|sample-apiserver|kube-openapi|gengo)/|_test\.go|zz_generated' |
  sed 's|/[^/]*$||; s|^|k8s.io/kubernetes/|' | LC_ALL=C sort -u | tr '\n' ',' | sed 's/,$//')
"$new/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
  -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$new/violations" >&2 || fail "openapi-gen failed"
flags='-s -w'
for package in k8s.io/kubernetes/vendor/k8s.io/component-base/version k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version; do
  flags="$flags -X $package.gitVersion=v1.20.2 -X $package.gitMajor=1 -X $package.gitMinor=20 -X $package.gitCommit=debian-$debian"
  flags="$flags -X $package.gitTreeState=clean -X $package.buildDate=2021-01-13T00:00:00Z"
done
go build -trimpath -ldflags "$flags" -o "$new/out/kube-apiserver" ./cmd/kube-apiserver >&2 || fail "Go cannot build kube-apiserver"
cp "$new/etcd/usr/bin/etcd" "$new/out/etcd"
cd /
"$new/out/kube-apiserver" --version >&2 || fail "the kube-apiserver that was built does not run here"
"$new/out/etcd" --version >&2 || fail "trixie's etcd does not run here"

mv -T "$new/out" "$dir"
