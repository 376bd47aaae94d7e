// What our one nft table does with a packet behind NAT: its chains, walked line by line as its text has them. In: facts, the packet
// as it stands. Out: the line that decided, and whether it drops. Pure.
import type { HostFacts } from "./model/facts.ts";
import { LEAK_TABLE } from "./model/owner.ts";
import { ARRIVED_COUNTER } from "./plan/parts/leak-guard.ts";
import { within } from "./trace-rule.ts";

interface Subject {
  readonly facts: Pick<HostFacts, "nft">;
  readonly family: 4 | 6;
  readonly mark: number;
  readonly link: string;
  readonly source: string;
  readonly destination: string;
  readonly dnat: boolean;
  readonly packet: { readonly from: string };
}

export interface Looked {
  readonly line: string;
  readonly why: "passes" | "unclaimed" | "leak";
}

export const LEAK_OBJECT = `nft inet ${LEAK_TABLE}`;

/** Undefined where there is no such table, or no line of it says anything of this packet. */
export function lastLook(subject: Subject): Looked | undefined {
  return walk("leak", subject, 0);
}

const VERDICT = /(?:^| )(accept|drop|return|jump (\S+))(?: comment "([^"]*)")?$/;

function walk(chain: string, subject: Subject, depth: number): Looked | undefined {
  for (const line of linesOf(subject.facts.nft, chain)) {
    const found = VERDICT.exec(line);
    if (found === null || !meets(line.slice(0, found.index), subject)) continue;
    const [, verdict, below, comment] = found;
    if (verdict === "return") return undefined;
    if (verdict === "accept") return { line, why: "passes" };
    if (verdict === "drop") return { line, why: comment === ARRIVED_COUNTER ? "unclaimed" : "leak" };
    const inner = below === undefined || depth > 2 ? undefined : walk(below, subject, depth + 1);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

function linesOf(table: string, chain: string): readonly string[] {
  const lines = table.split("\n");
  const start = lines.indexOf(`chain ${chain} {`);
  return start < 0 ? [] : lines.slice(start + 1, lines.indexOf("}", start));
}

type Test = (words: readonly string[], subject: Subject) => boolean;

const TESTS: readonly (readonly [RegExp, Test])[] = [
  [/^meta mark & (\S+) == (\S+)/, ([, mask, bits], { mark }) => (mark & Number(mask)) >>> 0 === Number(bits)],
  [/^meta mark != (\S+)/, ([, value], { mark }) => mark !== Number(value)],
  [/^meta mark (0x\S+)/, ([, value], { mark }) => mark === Number(value)],
  [/^iifname "([^"]+)"/, ([, name], { packet }) => packet.from === name],
  [/^oifname "([^"]+)"/, ([, name], { link }) => link === name],
  [
    /^(ip6?) ([sd])addr (?:\{ ([^}]+) \}|(\S+))/,
    ([, field, way, several, one = ""], { family, source, destination }) =>
      field === (family === 4 ? "ip" : "ip6") &&
      (several ?? one).split(", ").some((network) => within(network, way === "s" ? source : destination)),
  ],
  [/^ct status dnat/, (_, { dnat }) => dnat],
  // A first packet is neither.
  [/^ct (?:direction reply|state established,related)/, () => false],
];

/** One condition after the other; a line that says something else is not ours to judge, and is not met. */
function meets(conditions: string, subject: Subject): boolean {
  let rest = conditions.replace(/(^| )counter$/, "").trim();
  while (rest !== "") {
    let match: RegExpExecArray | null = null;
    for (const [form, holds] of TESTS) {
      match = form.exec(rest);
      if (match === null) continue;
      if (!holds(match, subject)) return false;
      break;
    }
    if (match === null) return false;
    rest = rest.slice(match[0].length).trim();
  }
  return true;
}
