// Sends whole Ethernet frames. In: frames and the links they leave through. Out: nothing, or a SendError.
// Node has no AF_PACKET and we compile nothing, so perl (perl-base is Essential on Debian) holds the socket.
import { type Run, ToolError } from "../exec/index.ts";
import { checkedIndex, failuresIn, sendError, unsent } from "./failures.ts";
import { DONE } from "./perl.ts";

export type { Answer } from "./claims.ts";
export { SendError, type SendFailure } from "./errors.ts";
export { createListener, type Heard, type Listener } from "./listener.ts";
export { createProber, type Prober, type ProbeTarget } from "./prober.ts";

export interface OutgoingFrame {
  readonly ifindex: number;
  /** From the destination MAC on, without the frame check sequence. */
  readonly frame: Uint8Array;
}

export interface Sender {
  /** Sends in the order given, with one spawn; no frames, no spawn. Throws SendError, after trying every frame. */
  send(frames: readonly OutgoingFrame[]): Promise<void>;
}

// packet(7). The socket's protocol is 0, so that it receives nothing. The address is a sockaddr_ll packed by hand:
// family AF_PACKET = 17, protocol, ifindex, and fields that sending does not use. Its protocol is the frame's own
// EtherType: with 0 there, older kernels pass an unclassified packet on to tc and the driver. One link that is down
// must not keep the frames of another one from leaving, hence the failures at the end. No module: perl-base has few.
const SCRIPT = `
use strict;
my (%seen, @failed);
socket(my $socket, 17, 3, 0) or die "AF_PACKET socket: $!\\n";
while (my $line = <STDIN>) {
  my ($ifindex, $hex) = $line =~ /^([0-9]+) ([0-9a-f]+)$/ or die "unreadable line $.\\n";
  my $frame = pack("H*", $hex);
  my $to = pack("S a2 i S C C a8", 17, substr($frame, 12, 2), $ifindex, 0, 0, 0, "");
  my $sent = send($socket, $frame, 0, $to);
  next if defined $sent and $sent == length($frame);
  my $why = defined $sent ? "only $sent bytes sent" : "$!";
  push @failed, "failed $ifindex $why\\n" unless $seen{"$ifindex $why"}++;
}
die @failed if @failed;
print "${DONE}";
close STDOUT;
`;

export function createSender(run: Run): Sender {
  return {
    send: async (frames) => {
      if (frames.length === 0) return;
      const input = frames.map(
        ({ ifindex, frame }) => `${checkedIndex(ifindex)} ${Buffer.from(frame).toString("hex")}\n`,
      );
      try {
        await run("perl", ["-e", SCRIPT], { input: input.join(""), until: DONE });
      } catch (error) {
        const failures = error instanceof ToolError ? failuresIn(error.stderr.split("\n")) : [];
        throw failures.length > 0 ? sendError(failures, error) : unsent(error);
      }
    },
  };
}
