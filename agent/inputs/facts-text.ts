// Host facts as one JSON text and back: what `facts` prints and `plan --host-facts` reads. Pure.

import { parseSave, type Ruleset } from "../../lib/node-iptables/pure.ts";
import { type HostFacts, NO_REFERENCE, NO_RIVALS, type SetFacts } from "../model/facts.ts";
import { byCodeUnit } from "../model/names.ts";
import { NORTHBOUND_OFF } from "../model/northbound.ts";
import { entriesOf, shardsFrom } from "../model/shards.ts";
import { parseNorthbound, printNorthbound, type WrittenNorthbound } from "./northbound-text.ts";

const FACTS_VERSION = 1;

export function printFacts(facts: HostFacts): string {
  const sets = [...facts.sets]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { type, options, members }]) => ({
      name,
      type,
      options,
      members: Object.fromEntries([...entriesOf(members)].sort(([a], [b]) => (a < b ? -1 : 1))),
    }));
  const value = {
    version: FACTS_VERSION,
    network: facts.network,
    sysctls: facts.sysctls,
    iptables: { 4: linesOf(facts.iptables[4]), 6: linesOf(facts.iptables[6]) },
    sets,
    nft: facts.nft.split("\n"),
    record: facts.record,
    ...(facts.reference === NO_REFERENCE ? {} : { reference: facts.reference }),
    announced: [...facts.announced].sort(byCodeUnit),
    ...(facts.rivals.length === 0 ? {} : { rivals: facts.rivals }),
    ...(facts.northbound.state === "off" ? {} : { northbound: printNorthbound(facts.northbound) }),
  };
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

const PARTS = ["network", "sysctls", "iptables", "sets", "nft", "record", "announced"] as const;

interface WrittenFacts {
  readonly version: number;
  readonly network: HostFacts["network"];
  readonly sysctls: HostFacts["sysctls"];
  readonly iptables: { readonly 4: readonly string[]; readonly 6: readonly string[] };
  readonly sets: readonly {
    readonly name: string;
    readonly type: string;
    readonly options: string;
    readonly members: Readonly<Record<string, string>>;
  }[];
  readonly nft: readonly string[];
  readonly record: HostFacts["record"];
  /** Missing where there is nothing of it, or nobody looked. */
  readonly reference?: HostFacts["reference"];
  readonly announced: readonly string[];
  /** Missing where nobody else answers. */
  readonly rivals?: HostFacts["rivals"];
  /** Missing where no database was given. */
  readonly northbound?: WrittenNorthbound;
}

/** Throws an Error that says what is missing. */
export function parseFacts(text: string): HostFacts {
  const { version, ...parts } = (JSON.parse(text) ?? {}) as Partial<WrittenFacts>;
  if (version !== FACTS_VERSION) {
    throw new Error(`host facts: version ${FACTS_VERSION} expected, found ${String(version)}`);
  }
  const missing = PARTS.find((key) => parts[key] === undefined);
  if (missing !== undefined) throw new Error(`host facts: ${missing} is missing`);
  const value = parts as WrittenFacts;
  const sets = new Map<string, SetFacts>(
    value.sets.map(({ name, type, options, members }) => [
      name,
      { type, options, members: shardsFrom(Object.entries(members)) },
    ]),
  );
  return Object.freeze({
    network: value.network,
    sysctls: value.sysctls,
    iptables: { 4: parseSave(value.iptables[4].join("\n")), 6: parseSave(value.iptables[6].join("\n")) },
    sets,
    nft: value.nft.join("\n"),
    record: value.record,
    reference: value.reference ?? NO_REFERENCE,
    announced: new Set(value.announced),
    rivals: value.rivals ?? NO_RIVALS,
    northbound: value.northbound === undefined ? NORTHBOUND_OFF : parseNorthbound(value.northbound),
  });
}

/** As iptables-save would print it: readable, and read back by the same parser. */
function linesOf(ruleset: Ruleset): readonly string[] {
  const out: string[] = [];
  for (const [table, chains] of [...ruleset].sort(([a], [b]) => (a < b ? -1 : 1))) {
    out.push(`*${table}`);
    const sorted = [...chains].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [name, { policy }] of sorted) out.push(`:${name} ${policy} [0:0]`);
    for (const [name, { rules }] of sorted) for (const rule of rules) out.push(`-A ${name} ${rule}`);
    out.push("COMMIT");
  }
  return out;
}
