// Who answers for an address on a network, as everybody there sees it: asks without end, as a host that is not there, so that nobody's
// neighbour entries follow the answers; and captures each answer and each announcement. In: a lab, addresses. Out: claims in order.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { run } from "../../lib/exec/index.ts";
import { arpProbe, solicitation } from "../../lib/frames/pure.ts";
import type { captureFrames } from "../lab/capture.ts";
import type { Family } from "../lab/topology.ts";

const nobody = { mac: "02:00:00:00:00:98", linkLocal: "fe80::98" };

/** Frames that said whose the address is, one after the other by the same MAC. */
export interface Claims {
  readonly mac: string;
  /** To a question; else unasked. */
  readonly answers: number;
  readonly announcements: number;
}

export interface Watch {
  /** Ends asking; what was claimed for each address meanwhile, in the order in which it was on the wire. */
  stop(): Promise<Readonly<Record<Family, readonly Claims[]>>>;
}

/** Sends all that it was given every 5 ms, until its standard input ends; says so when it has begun. */
const ASKING = `
use strict;
my @frames;
while (my $line = <STDIN>) {
  last if $line eq "go\\n";
  my ($ifindex, $hex) = split " ", $line;
  my $frame = pack("H*", $hex);
  push @frames, [$frame, pack("S a2 i S C C a8", 17, substr($frame, 12, 2), $ifindex, 0, 0, 0, "")];
}
socket(my $socket, 17, 3, 0) or die "AF_PACKET socket: $!\\n";
my $input = "";
vec($input, fileno(STDIN), 1) = 1;
$| = 1;
for (my $times = 0; !select(my $ready = $input, undef, undef, 0.005); $times++) {
  send($socket, $_->[0], 0, $_->[1]) for @frames;
  print "asking\n" if $times == 1;
}
`;

/** Of a lab, with or without OVN. */
interface Outside {
  namespace(place: "ext" | "sec"): string;
  captureFrames(place: "ext" | "sec", device: string, filter: string): ReturnType<typeof captureFrames>;
}

/** On the network of one of the lab's servers, of the second one unless said. */
export async function watchClaims(
  lab: Outside,
  addresses: Readonly<Record<Family, string>>,
  place: "ext" | "sec" = "sec",
): Promise<Watch> {
  const target = addresses[6];
  const filter = [
    `arp and arp[14:4] == 0x${hexOf(addresses[4])}`,
    `icmp6 and ip6[40] == 136 and ip6[48:4] == 0x${hexOf(target).slice(0, 8)} and ip6[60:4] == 0x${hexOf(target).slice(24)}`,
    `icmp6 and ip6[40] == 135 and src host ${target}`,
  ];
  const capture = await lab.captureFrames(place, "lan", filter.map((part) => `(${part})`).join(" or "));
  const { stdout } = await run("ip", ["-n", lab.namespace(place), "-json", "link", "show", "lan"]);
  const [{ ifindex }] = JSON.parse(stdout) as [{ ifindex: number }];
  const questions = [arpProbe(nobody.mac, addresses[4]), solicitation(nobody.mac, nobody.linkLocal, target)];
  const asker = spawn("ip", ["netns", "exec", lab.namespace(place), "perl", "-e", ASKING], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(asker, "close");
  asker.stdin.write(
    `${questions.map((frame) => `${ifindex} ${Buffer.from(frame).toString("hex")}\n`).join("")}go\n`,
  );
  await Promise.race([
    once(asker.stdout, "data"),
    ended.then(() => Promise.reject(new Error("nobody asks"))),
  ]);
  return {
    stop: async () => {
      asker.stdin.end();
      await ended;
      const frames = (await capture.stop()).map((frame) => Buffer.from(frame));
      return { 4: claimsOf(frames, 4), 6: claimsOf(frames, 6) };
    },
  };
}

function claimsOf(frames: readonly Buffer[], family: Family): readonly Claims[] {
  const claims: Claims[] = [];
  for (const frame of frames) {
    if ((frame.readUInt16BE(12) === 0x0806 ? 4 : 6) !== family) continue;
    // ARP: a reply. IPv6: an advertisement with the flag "solicited".
    const isAnswer = family === 4 ? frame[21] === 2 : frame[54] === 136 && ((frame[58] ?? 0) & 0x40) !== 0;
    const mac = [...frame.subarray(6, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
    const last = claims.at(-1);
    const before = last?.mac === mac ? last : { mac, answers: 0, announcements: 0 };
    if (last?.mac === mac) claims.pop();
    claims.push({
      mac,
      answers: before.answers + (isAnswer ? 1 : 0),
      announcements: before.announcements + (isAnswer ? 0 : 1),
    });
  }
  return claims;
}

/** An address as hex digits: of IPv6 those that the lab uses, with one `::`. */
function hexOf(address: string): string {
  if (!address.includes(":")) return Buffer.from(address.split(".").map(Number)).toString("hex");
  const [head = [], tail = []] = address.split("::").map((part) => part.split(":").filter(Boolean));
  const zeros = Array<string>(8 - head.length - tail.length).fill("0");
  return [...head, ...zeros, ...tail].map((group) => group.padStart(4, "0")).join("");
}
