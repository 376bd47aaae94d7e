// What our one nft table does with a packet: its conditions, read from its text. In: facts, the packet as it stands. Out: whether it
// is dropped. Pure.
import type { HostFacts } from "./model/facts.ts";
import { sourcesOf } from "./plan/parts/leak-guard.ts";
import { within } from "./trace-rule.ts";

interface Subject {
  readonly facts: Pick<HostFacts, "nft">;
  readonly family: 4 | 6;
  readonly mark: number;
  readonly link: string;
  readonly source: string;
  readonly destination: string;
  readonly packet: { readonly from: string };
}

const UNMARKED = /^meta mark & (0x[0-9a-f]+) == 0x0+ /m;
const FROM_PODS = /^iifname "([^"]+)" jump arrived$/m;
const TO_PODS = /^oifname "([^"]+)" accept$/m;

/** Behind NAT: marked, and its source is none that is let out. */
export function isLeak({ facts, family, mark, link, source }: Subject): boolean {
  const mask = UNMARKED.exec(facts.nft)?.[1];
  if (mask === undefined || (mark & Number(mask)) === 0 || link === TO_PODS.exec(facts.nft)?.[1])
    return false;
  const field = family === 4 ? "ip" : "ip6";
  return !facts.nft
    .split("\n")
    .map(sourcesOf)
    .some((letOut) => letOut?.field === field && letOut.addresses.includes(source));
}

/** Behind NAT: another node's pod, come in by the management port, and with its own address all the same. */
export function isUnclaimed(subject: Subject): boolean {
  const { nft } = subject.facts;
  if (subject.packet.from !== FROM_PODS.exec(nft)?.[1]) return false;
  const [, chain = ""] = /^chain arrived \{\n([^}]*)^\}$/m.exec(nft) ?? [];
  for (const line of chain.split("\n")) {
    const verdict = / (return|drop)(?: comment "[^"]*")?$/.exec(line)?.[1];
    if (verdict !== undefined && meets(line, subject)) return verdict === "drop";
  }
  return false;
}

/** A line's one condition; `counter` is none. A first packet is no reply. */
function meets(line: string, { family, link, source, destination }: Subject): boolean {
  if (line.startsWith("oifname ")) return link === /"([^"]*)"/.exec(line)?.[1];
  const [, field, way, network = ""] = /^(ip6?) ([sd])addr (\S+) /.exec(line) ?? [];
  return field === (family === 4 ? "ip" : "ip6") && within(network, way === "s" ? source : destination);
}
