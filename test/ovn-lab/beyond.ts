// A server beyond the second network, on a way with a smaller MTU in its middle: `sec`, a link of 1300, `ext` as the next router,
// and behind that the server, whose own link and MSS know nothing of it. In: a lab and who is to be answered. Out: its address, and
// a transfer in both directions as a pod sees it.
import { run } from "../../lib/exec/index.ts";
import { address, bits, subnet } from "../lab/lines.ts";
import type { Addresses, Family } from "../lab/topology.ts";
import { ipBatch, setSysctls } from "../lab/up.ts";
import type { OvnLab } from "./lab.ts";

export const beyond: Addresses = { 4: "203.0.113.80", 6: "2001:db8:52::80" };
export const middleMtu = 1_300;
const port = 8090;

/** `answered`: addresses that the server has to find its way back to, on the second network. */
export async function addBeyond(lab: OvnLab, answered: Addresses): Promise<void> {
  const server = `${lab.prefix}-beyond`;
  const [sec, ext] = [lab.namespace("sec"), lab.namespace("ext")];
  // The lab takes down whatever has its prefix.
  await ipBatch([], [`netns add ${server}`]);
  await ipBatch(
    ["-n", sec],
    [
      `link add middle mtu ${middleMtu} type veth peer name middle mtu ${middleMtu} netns ${ext}`,
      ...address({ 4: "192.0.2.1", 6: "2001:db8:53::1" }, subnet, "middle"),
      "link set middle up",
      "route add 203.0.113.0/24 via 192.0.2.2",
      "route add 2001:db8:52::/64 via 2001:db8:53::2",
    ],
  );
  await ipBatch(
    ["-n", ext],
    [
      `link add beyond type veth peer name eth0 netns ${server}`,
      ...address({ 4: "192.0.2.2", 6: "2001:db8:53::2" }, subnet, "middle"),
      ...address({ 4: "203.0.113.1", 6: "2001:db8:52::1" }, subnet, "beyond"),
      "link set middle up",
      "link set beyond up",
      `route add ${answered[4]}/${bits[4]} via 192.0.2.1`,
      `route add ${answered[6]}/${bits[6]} via 2001:db8:53::1`,
    ],
  );
  await ipBatch(
    ["-n", server],
    [
      "link set lo up",
      ...address(beyond, subnet, "eth0"),
      "link set eth0 up",
      "route add default via 203.0.113.1",
      "route add default via 2001:db8:52::1",
    ],
  );
  for (const router of [sec, ext])
    await setSysctls(router, [
      ["net.ipv4.ip_forward", 1],
      ["net.ipv6.conf.all.forwarding", 1],
    ]);
  await run("ip", ["netns", "exec", server, "perl", "-e", serverScript, String(port)]);
}

/** So many bytes up and then down again: `BYTES there and back, seen as ADDRESS`. */
export async function transfer(lab: OvnLab, pod: string, family: Family, bytes: number): Promise<string> {
  // What the server has found out it tells the next one who asks, by its MSS.
  await run("ip", ["-n", `${lab.prefix}-beyond`, `-${family}`, "route", "flush", "cache"]);
  const words = [beyond[family], String(port), String(bytes)];
  return (await lab.exec(pod, "perl", ["-e", clientScript, ...words], { timeoutMs: 20_000 })).stdout;
}

/** Listens, and goes on in the background. A child for each connection. */
const serverScript = `
use strict; use Socket qw(:all);
$SIG{CHLD} = 'IGNORE';
socket(my $listener, AF_INET6, SOCK_STREAM, 0) or die "socket: $!";
setsockopt($listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, 1);
bind($listener, pack_sockaddr_in6($ARGV[0], inet_pton(AF_INET6, '::'))) or die "bind: $!";
listen($listener, 64) or die "listen: $!";
exit 0 if fork;
open $_, '+>', '/dev/null' for *STDIN, *STDOUT, *STDERR;
while (my $peer = accept(my $client, $listener)) {
  next if fork;
  my (undef, $packed) = unpack_sockaddr_in6($peer);
  my $address = inet_ntop(AF_INET6, $packed) =~ s/^::ffff://r;
  my $received = '';
  1 while $received !~ /\\n/ && sysread($client, $received, 65536, length $received);
  my ($bytes) = $received =~ /^(\\d+)\\n/ or exit 1;
  my $left = $bytes - length($received) + length("$bytes\\n");
  while ($left > 0) { my $got = sysread($client, my $more, 65536) or exit 1; $left -= $got }
  my $answer = "$address\\n" . "x" x $bytes;
  while (length $answer) { substr($answer, 0, syswrite($client, $answer) // exit 1) = "" }
  exit 0;
}
`;

const clientScript = `
use strict; use Socket qw(:all);
my ($address, $port, $bytes) = @ARGV;
my $family = $address =~ /:/ ? AF_INET6 : AF_INET;
my $packed = inet_pton($family, $address);
my $far = $family == AF_INET ? pack_sockaddr_in($port, $packed) : pack_sockaddr_in6($port, $packed);
socket(my $socket, $family, SOCK_STREAM, 0) or die "socket: $!";
connect($socket, $far) or die "connect: $!";
my $left = "$bytes\\n" . "x" x $bytes;
while (length $left) { substr($left, 0, syswrite($socket, $left) // die "write: $!") = "" }
my $received = '';
while (sysread($socket, $received, 65536, length $received)) {}
my ($seen, $back) = split /\\n/, $received;
print length($back) == $bytes ? "$bytes there and back, seen as $seen" : "only " . length($back) . " came back";
`;
