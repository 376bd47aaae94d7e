// Asks who has an address. In: addresses, and the links on which to ask. Out: who answered within the time given.
// One process for all of them; what is an answer is decided in claims.ts.
import type { Run } from "../exec/index.ts";
import { type Answer, answersIn } from "./claims.ts";
import { failuresIn, sendError, unsent } from "./failures.ts";
import { DONE, LISTENING, listenLines } from "./perl.ts";
import { arpProbe, solicitation } from "./questions.ts";

export interface ProbeTarget {
  readonly ifindex: number;
  /** The link's own MAC: asks, and is no answer. */
  readonly mac: string;
  readonly address: string;
  /**
   * IPv6: link-local address to be answered at. To be given while the address is this host's, for without it the answer
   * goes to all nodes and takes their neighbour entries with it.
   */
  readonly source?: string;
}

export interface Prober {
  /**
   * Who has these addresses: listens from before the first frame until `waitMs` after the last. No targets, no spawn.
   * Throws SendError when a link could not be asked; its `answers` are those of the others.
   */
  probe(targets: readonly ProbeTarget[], waitMs: number): Promise<readonly Answer[]>;
}

// Waiting is counted by what select(2) leaves of its time, which no clock that somebody sets can change. Each look counts as
// a tenth of a millisecond, so that a storm of claims cannot keep it here.
const SCRIPT = `${LISTENING}
sub most { 4096 }
my ($left, @frames) = (0);
while (my $line = <STDIN>) {
  if ($line =~ /^listen ([0-9]+) ([0-9]+) ([0-9, ]+)$/) { listen_on($1, $2, split / /, $3) }
  elsif ($line =~ /^send ([0-9]+) ([0-9a-f]+)$/) { push @frames, [$1, pack("H*", $2)] }
  elsif ($line =~ /^wait ([0-9]+)$/) { $left = $1 / 1000 }
  else { die "unreadable line $.\\n" }
}
socket(my $out, 17, 3, 0) or die "AF_PACKET socket: $!\\n";
for my $frame (@frames) {
  my ($ifindex, $bytes) = @$frame;
  my $to = pack("S a2 i S C C a8", 17, substr($bytes, 12, 2), $ifindex, 0, 0, 0, "");
  my $sent = send($out, $bytes, 0, $to);
  failed($ifindex, "$!") if !defined $sent;
  take($_) for keys %sockets;
}
while (%sockets && $left > 0) {
  my $ready = waiting();
  (my $found, $left) = select($ready, undef, undef, $left);
  next if $found < 1;
  $left -= 0.0001;
  for my $fd (keys %sockets) { take($fd) if vec($ready, $fd, 1) }
}
take($_) for keys %sockets;
print "${DONE}";
close STDOUT;
`;

export function createProber(run: Run): Prober {
  return {
    probe: async (targets, waitMs) => {
      if (targets.length === 0) return [];
      const input = [...listenLines(targets), `wait ${Math.ceil(waitMs)}`, ...targets.map(sendLine)];
      const { stdout } = await run("perl", ["-e", SCRIPT], {
        input: `${input.join("\n")}\n`,
        timeoutMs: waitMs + 30_000,
        until: DONE,
      }).catch((error: unknown) => {
        throw unsent(error);
      });
      const lines = stdout.split("\n");
      const own = new Set(targets.map(({ ifindex, mac }) => `${ifindex} ${mac.toLowerCase()}`));
      const answers = answersIn(lines, targets).filter(({ ifindex, mac }) => !own.has(`${ifindex} ${mac}`));
      const failures = failuresIn(lines);
      if (failures.length > 0) throw sendError(failures, undefined, answers);
      return answers;
    },
  };
}

function sendLine({ ifindex, mac, address, source }: ProbeTarget): string {
  const frame = address.includes(":") ? solicitation(mac, source, address) : arpProbe(mac, address);
  return `send ${ifindex} ${Buffer.from(frame).toString("hex")}`;
}
