// What somebody else does to a host of ours: a reload, a tuning service, an operator. In: facts. Out: damaged facts by name. Pure.
import type { HostFacts } from "../../agent/model/facts.ts";
import { isOurChain, ROUTE_PROTOCOL } from "../../agent/model/owner.ts";
import { emptyShards } from "../../agent/model/shards.ts";

/** Only these can let a served pod leave as the node until they are mended: who is selected, and who is held back. */
export const opening: ReadonlySet<string> = new Set(["filter 4", "filter 6", "sets"]);

/** Each kind of thing that is ours taken away, and two at a time where one is the other's second line. */
export function damaged(facts: HostFacts): readonly (readonly [string, HostFacts])[] {
  const { network, iptables: both } = facts;
  const withoutOurs = (table: string, family: 4 | 6): HostFacts => {
    const tables = new Map(both[family]);
    const kept = [...(tables.get(table) ?? [])]
      .filter(([chain]) => !isOurChain(table, chain))
      .map(([chain, { policy, rules }]) => {
        const others = rules.filter((rule) => !/-j EGRESSIP-(MARK|SNAT|GUARD)$/.test(rule));
        return [chain, { policy, rules: others }] as const;
      });
    tables.set(table, new Map(kept));
    return { ...facts, iptables: { ...both, [family]: tables } };
  };
  const held = new Set(facts.record.addresses.map(({ address }) => address));
  const theirs = ({ protocol }: { readonly protocol: string }) => protocol !== ROUTE_PROTOCOL;
  const emptied = [...facts.sets].map(
    ([name, set]) => [name, { ...set, members: emptyShards<string>() }] as const,
  );
  return [
    ...["mangle", "nat", "filter"].flatMap((table) =>
      ([4, 6] as const).map((family) => [`${table} ${family}`, withoutOurs(table, family)] as const),
    ),
    ["rules", { ...facts, network: { ...network, rules: network.rules.filter(theirs) } }],
    ["routes", { ...facts, network: { ...network, routes: network.routes.filter(theirs) } }],
    [
      "addresses",
      {
        ...facts,
        network: { ...network, addresses: network.addresses.filter(({ address }) => !held.has(address)) },
      },
    ],
    ["leak guard", { ...facts, nft: "" }],
    // Two at a time: what one lets by the other holds.
    [
      "rules and leak guard",
      { ...facts, nft: "", network: { ...network, rules: network.rules.filter(theirs) } },
    ],
    [
      "routes and leak guard",
      { ...facts, nft: "", network: { ...network, routes: network.routes.filter(theirs) } },
    ],
    ["sysctls", { ...facts, sysctls: { ...facts.sysctls, ...facts.record.sysctls } }],
    ["sets", { ...facts, sets: new Map(emptied) }],
  ];
}
