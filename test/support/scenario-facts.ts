// Host facts as lines that are equal when the host is: sorted, one spelling, marks called by what they stand for. Pure.
// What it leaves out: empty built-in chains, which listing alone may make, and sizes that the kernel chooses.

import type { HostFacts } from "../../agent/model/facts.ts";
import { layoutOf } from "../../agent/model/marks.ts";
import { programmedMarks } from "../../agent/model/marks-found.ts";
import { byCodeUnit } from "../../agent/model/names.ts";
import { GUARD_CHAIN, SNAT_CHAIN } from "../../agent/model/owner.ts";
import { entriesOf } from "../../agent/model/shards.ts";
import { routeWords, ruleWords } from "../../lib/netlink/pure.ts";
import { canonicalRule } from "../../lib/node-iptables/pure.ts";

const families = [4, 6] as const;

export interface Shown {
  /** Egress IPs keep the mark they have, so after another history marks may be others: then names are compared. */
  readonly marks: "as they are" | "by name";
}

export function factsAsLines(facts: HostFacts, { marks }: Shown): readonly string[] {
  const name = marks === "by name" ? namesOfMarks(facts) : (_family: 4 | 6, text: string) => text;
  const { links, addresses, routes, rules } = facts.network;
  const lines = [
    ...links.map(({ index, name: link, up, mac }) => `link ${index} ${link} ${up} ${mac}`),
    ...addresses.map(
      ({ link, address, length, scope, flags }) =>
        `address ${address}/${length} ${link} ${scope} ${flags.join(" ")}`,
    ),
    ...routes.map((route) => `route ${routeWords(route)}`),
    ...rules.map((rule) => `rule ${rule.family} ${name(rule.family, ruleWords(rule))}`),
    ...Object.entries(facts.sysctls).map(([path, value]) => `sysctl ${path}=${value}`),
    ...[...facts.sets].flatMap(([set, { type, options, members }]) => [
      `set ${set} ${type} ${options.replace(/ hashsize \d+/, "")}`,
      ...[...entriesOf(members)].map(
        ([member, extension]) => `set ${set} ${member} ${name(set.endsWith("6") ? 6 : 4, extension)}`,
      ),
    ]),
    ...facts.record.addresses.map(({ link, address }) => `record ${address} ${link}`),
    ...Object.entries(facts.record.sysctls).map(([path, value]) => `record ${path}=${value}`),
    ...(facts.record.secondaryHostEgressIPs ?? []).map((address) => `annotation ${address}`),
    ...(facts.record.withdrawnEgressIPs ?? []).map((address) => `withdrawn ${address}`),
    ...[...facts.announced].map((token) => `announced ${token}`),
  ];
  return [
    ...lines.sort(byCodeUnit),
    ...families.flatMap((family) => ruleset(facts, family, name)),
    facts.nft,
  ];
}

/** Rules keep their order, but for the two runs of rules that stand in the order of their marks. */
function ruleset(
  facts: HostFacts,
  family: 4 | 6,
  name: (family: 4 | 6, text: string) => string,
): readonly string[] {
  const lines: string[] = [];
  for (const [table, chains] of [...facts.iptables[family]].sort(byKey)) {
    for (const [chain, { policy, rules }] of [...chains].sort(byKey)) {
      if (policy === "ACCEPT" && rules.length === 0) continue;
      const named = rules.map((rule) => name(family, canonicalRule(rule)));
      const byMark = (rule: string) => /^-o \S+ -m (conn)?mark --mark /.test(rule);
      const sorted = named.filter(byMark).sort(byCodeUnit);
      const inOrder =
        chain === SNAT_CHAIN || chain === GUARD_CHAIN
          ? named.map((rule) => (byMark(rule) ? (sorted.shift() ?? rule) : rule))
          : named;
      lines.push(...[`(${policy})`, ...inOrder].map((rule) => `ip${family} ${table} ${chain} ${rule}`));
    }
  }
  return lines;
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return byCodeUnit(a, b);
}

/** `0x10000000/0x7ff00000` becomes `<10.10.10.50 on eth1>`, and its link's bits `<eth1>`. */
function namesOfMarks(facts: HostFacts): (family: 4 | 6, text: string) => string {
  const names = new Map<string, string>();
  for (const { family, link, address, mark, mask } of programmedMarks(facts.iptables)) {
    const linkMask = layoutOf(mask)?.linkMask ?? 0;
    names.set(`${family} 0x${mark.toString(16)}/0x${mask.toString(16)}`, `<${address} on ${link}>`);
    for (const of of families)
      names.set(`${of} 0x${((mark & linkMask) >>> 0).toString(16)}/0x${linkMask.toString(16)}`, `<${link}>`);
  }
  return (family, text) =>
    text.replace(/0x[0-9a-f]+\/0x[0-9a-f]+/g, (mark) => names.get(`${family} ${mark}`) ?? mark);
}
