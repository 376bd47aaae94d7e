// Which marks a host has already: those that SNAT rules carry, and what else tells of them. In: facts. Out: what allocation (marks.ts)
// goes by. Pure.
import type { Ruleset } from "../../lib/node-iptables/pure.ts";
import type { Claims } from "./address-index.ts";
import type { HostFacts, NetworkFacts } from "./facts.ts";
import type { MarkLayout, ProgrammedMark, Traces } from "./marks.ts";
import { perObject } from "./memo.ts";
import { isSnatChain, linksByTable, ROUTE_PROTOCOL, servedSet } from "./owner.ts";
import type { Shard, Shards } from "./shards.ts";

/** Reads the SNAT rules of ours, whatever mask they were made with. */
export function programmedMarks(iptables: {
  readonly 4: Ruleset;
  readonly 6: Ruleset;
}): readonly ProgrammedMark[] {
  const found: ProgrammedMark[] = [];
  for (const family of [4, 6] as const) {
    const chains = [...(iptables[family].get("nat") ?? [])].filter(([name]) => isSnatChain(name));
    for (const rule of chains.flatMap(([, { rules }]) => rules)) {
      const parts =
        /^-o (\S+) -m mark --mark 0x([0-9a-f]+)\/0x([0-9a-f]+) -j SNAT --to-source ([0-9a-f.:]+)/.exec(rule);
      if (parts === null) continue;
      found.push({
        family,
        link: parts[1] as string,
        mark: Number.parseInt(parts[2] as string, 16),
        mask: Number.parseInt(parts[3] as string, 16),
        address: parts[4] as string,
      });
    }
  }
  return found;
}

/** Links by the bits that steer to them, from our routing rules. */
export function steeredLinks(layout: MarkLayout, { links, rules }: NetworkFacts): Traces["links"] {
  const byTable = linksByTable(links);
  const found = rules.flatMap(({ protocol, table, selector }) => {
    const link = byTable.get(table);
    const [, bits, mask] = /^fwmark 0x([0-9a-f]+)\/0x([0-9a-f]+)$/.exec(selector) ?? [];
    const ours = protocol === ROUTE_PROTOCOL && Number.parseInt(mask ?? "0", 16) === layout.linkMask;
    return link === undefined || bits === undefined || !ours
      ? []
      : [{ link, bits: Number.parseInt(bits, 16) }];
  });
  return found.sort((a, b) => a.bits - b.bits);
}

const marksOfShard = perObject((entries: Shard<string>) =>
  perObject((claims: Shard<Claims>) => {
    const marks = new Map<number, Set<string>>();
    for (const [address, entry] of entries) {
      const mark = /^skbmark 0x([0-9a-f]+)/.exec(entry)?.[1];
      if (mark !== undefined)
        carriedBy(marks, Number.parseInt(mark, 16)).add(claims.get(address)?.[0]?.by.name ?? "");
    }
    return marks;
  }),
);

function carriedBy<K>(marks: Map<K, Set<string>>, mark: K): Set<string> {
  const known = marks.get(mark);
  if (known !== undefined) return known;
  const made = new Set<string>();
  marks.set(mark, made);
  return made;
}

export function enteredMarks(sets: HostFacts["sets"], claims: Shards<Claims>): Traces["entries"] {
  const found = new Map<string, Set<string>>();
  for (const family of [4, 6] as const) {
    for (const [index, shard] of (sets.get(servedSet(family))?.members.shards ?? []).entries()) {
      if (shard.size === 0) continue;
      // Both are cut by address, so what an entry says and who selects its pod are in shards of one index.
      for (const [mark, names] of marksOfShard(shard)(claims.shards[index] as Shard<Claims>))
        for (const name of names) carriedBy(found, `${family} ${mark}`).add(name);
    }
  }
  return found;
}
