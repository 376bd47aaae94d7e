// What perl does for us, since Node has no AF_PACKET and we compile nothing: perl-base is Essential on Debian, and has few
// modules, so everything is packed by hand. packet(7), filter.rst of Linux.
import { hostBytes } from "./bytes.ts";
import { type Answer, claimFilter } from "./claims.ts";
import { checkedIndex } from "./failures.ts";

/** Said when all is sent and heard: closing a packet socket waits for all processors (an RCU grace period), which nobody else need. */
export const DONE = "done\n";

/**
 * Subs of the scripts that listen. `listen IFINDEX PROTOCOL INSTRUCTION…` opens a socket for one link and one EtherType: a
 * socket for all of them would have the kernel copy every packet that leaves this host, and would hear us as well. Its
 * protocol is 0 until the filter is in place, so that nothing else gets in before. `take` prints what has arrived, each
 * sender and address once for as long as `%seen` remembers it.
 */
export const LISTENING = String.raw`
use strict;
my (%sockets, %seen, %told);
sub failed { my ($ifindex, $why) = @_; print "failed $ifindex $why\n" unless $told{"$ifindex $why"}++ }
sub listen_on {
  my ($ifindex, $protocol, @instructions) = @_;
  socket(my $socket, 17, 3, 0) or die "AF_PACKET socket: $!\n";
  my $program = join "", map { pack("S C C L", split /,/) } @instructions;
  # SOL_SOCKET, SO_ATTACH_FILTER, struct sock_fprog.
  setsockopt($socket, 1, 26, pack("S x!8 P", scalar @instructions, $program)) or die "filter: $!\n";
  my $here = pack("S n i S C C a8", 17, $protocol, $ifindex, 0, 0, 0, "");
  if (bind($socket, $here)) { $sockets{fileno $socket} = [$ifindex, $socket] } else { failed($ifindex, "$!") }
}
sub take {
  my ($fd) = @_;
  my ($ifindex, $socket) = @{$sockets{$fd}};
  for (1 .. 256) {
    # MSG_DONTWAIT
    my $from = recv($socket, my $frame, 2048, 64);
    if (!defined $from) {
      return if $!{EAGAIN} || $!{EINTR};
      # Told once; when the link comes up again, so does the socket.
      failed($ifindex, "$!");
      return;
    }
    # ARP: sender MAC and IP. Else who sent the advertisement, and its target.
    my $who = substr($frame, 12, 2) eq "\x08\x06" ? substr($frame, 22, 10) : substr($frame, 6, 6) . substr($frame, 62, 16);
    next if $seen{"$ifindex $who"} || keys %seen >= most();
    $seen{"$ifindex $who"} = 1;
    print "seen $ifindex ", unpack("H*", substr($frame, 0, 256)), "\n";
  }
}
sub waiting {
  my $bits = "";
  vec($bits, $_, 1) = 1 for keys %sockets;
  return $bits;
}
`;

const ARP = 0x0806;
const IPV6 = 0x86dd;

/** A line for each link and family: `listen IFINDEX ETHERTYPE INSTRUCTION…`. */
export function listenLines(targets: readonly Pick<Answer, "ifindex" | "address">[]): readonly string[] {
  const byLink = new Map<string, string[]>();
  for (const { ifindex, address } of targets) {
    const place = `${checkedIndex(ifindex)} ${hostBytes(address).length === 4 ? ARP : IPV6}`;
    byLink.set(place, [...(byLink.get(place) ?? []), address]);
  }
  return [...byLink].map(([place, addresses]) => {
    const family = place.endsWith(` ${ARP}`) ? 4 : 6;
    return `listen ${place} ${claimFilter(family, addresses).map(String).join(" ")}`;
  });
}
