// Connections that are only begun: a SYN each, from a new port, answered or not. In: a namespace, a destination, how many a second.
// What becomes of them is to be captured.
import { spawn } from "node:child_process";
import { once } from "node:events";

export interface Attempts {
  stop(): Promise<void>;
}

/** A socket lives for half a second, before the kernel would ask again. */
const BEGINNING = `
use strict;
use Socket qw(:all);
use Time::HiRes qw(time);
my ($address, $port, $interval) = @ARGV;
my $six = $address =~ /:/;
my $far = $six ? pack_sockaddr_in6($port, inet_pton(AF_INET6, $address)) : pack_sockaddr_in($port, inet_pton(AF_INET, $address));
my ($input, @open) = ("");
vec($input, fileno(STDIN), 1) = 1;
for (my $next = time; ; $next += $interval) {
  my $wait = $next - time;
  last if select(my $ready = $input, undef, undef, $wait > 0 ? $wait : 0);
  socket(my $socket, $six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) or die "socket: $!\n";
  setsockopt($socket, SOL_SOCKET, SO_LINGER, pack("ii", 1, 0));
  connect($socket, $far);
  push @open, [$next + 0.5, $socket];
  close((shift @open)->[1]) while $open[0][0] <= $next;
}
`;

export function beginConnections(
  namespace: string,
  to: { readonly address: string; readonly port: number },
  rate: number,
): Attempts {
  const words = [to.address, String(to.port), String(1 / rate)];
  const child = spawn("ip", ["netns", "exec", namespace, "perl", "-e", BEGINNING, ...words], {
    stdio: ["pipe", "ignore", "inherit"],
  });
  const ended = once(child, "close");
  return {
    stop: async () => {
      child.stdin.end();
      await ended;
    },
  };
}
