// What OVN-Kubernetes itself programs in this host's kernel for egress IPs, and how that is told from everything else. Pure.
// Reference D.2 (rules, chain, routes), I.2 (its nft objects) and C.1 (what it adds in local gateway mode).

import type { Route, Rule } from "../../lib/netlink/pure.ts";
import { diffRuleset, type RulesetChange, sameRule } from "../../lib/node-iptables/pure.ts";
import type { HostFacts, Translation } from "./facts.ts";
import { type Cidr, contains, type Family, parseAddress } from "./ip.ts";
import { onLink } from "./on-link.ts";
import { linksByTable, ROUTE_PROTOCOL, RULE_PRIORITY } from "./owner.ts";

const CHAIN = "OVN-KUBE-EGRESS-IP-MULTI-NIC";
/** Its nft table, which is not for egress IPs alone, and what in it is. */
export const NFT_TABLE = "ovn-kubernetes";
export const NFT_CHAINS: readonly string[] = ["egress-ip-connmark", "egress-ip-sec-filter", "egress-ip-snat"];
export const NFT_MAPS: readonly string[] = ["egress-ip-snat-v4", "egress-ip-snat-v6"];

/** The mark of what leaves with the node's address although its pod has an egress IP. */
const POD_TO_NODE = "0x3f0";
const POD_TO_NODE_PRIORITY = 5999;
/** The second is anybody's by its words, and counts beside the first only. */
const SAVES = `-m mark --mark ${POD_TO_NODE} -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff`;
const RESTORES = "-m mark --mark 0x0 -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff";

export interface ReferenceState {
  /** From each pod to its link's table, and the one that sends what is marked for the node's address to main. */
  readonly rules: readonly Rule[];
  /** What it copied into tables of links; in the same tables as ours. */
  readonly routes: readonly Route[];
  /** How its chain, the jump to it and its two rules in mangle are taken away. */
  readonly iptables: { readonly 4: readonly RulesetChange[]; readonly 6: readonly RulesetChange[] };
  readonly translations: readonly Translation[];
}

const FAMILIES = [4, 6] as const;

/** By links of ours that host, which the ports to OVN are not: tables of user-defined networks have the same numbers. */
export function referenceState(
  facts: HostFacts,
  podNetworks: readonly Cidr[],
  managementPort: string,
): ReferenceState {
  const { network, iptables } = facts;
  const tables = linksByTable(
    network.links.filter(({ name }) => name !== managementPort && !name.startsWith("ovn-k8s-mp")),
  );
  const rules = network.rules.filter((rule) => isPodRule(rule, podNetworks) && tables.has(rule.table));
  const translations = translationsOf(facts);
  const links = new Set([
    ...rules.map(({ table }) => tables.get(table)),
    ...translations.map(({ link }) => link),
  ]);
  return {
    rules: [...rules, ...network.rules.filter(isPodToNodeRule)],
    routes: network.routes.filter(
      ({ protocol, table, hops }) =>
        protocol === "boot" &&
        hops.length > 0 &&
        links.has(tables.get(table)) &&
        hops.every(({ link }) => link === tables.get(table)),
    ),
    iptables: { 4: removals(iptables[4]), 6: removals(iptables[6]) },
    translations,
  };
}

/** Whose address a pod of whom leaves with, by its SNAT rules and its nft maps; each once. */
export function translationsOf({
  iptables,
  reference,
}: Pick<HostFacts, "iptables" | "reference">): readonly Translation[] {
  const found = new Map<string, Translation>();
  const note = (translation: Translation) => found.set(onLink(translation), translation);
  for (const family of FAMILIES) {
    for (const rule of iptables[family].get("nat")?.get(CHAIN)?.rules ?? []) {
      const [, link, written = ""] = /^-s \S+ -o (\S+) -j SNAT --to-source (\S+)$/.exec(rule) ?? [];
      const address = parseAddress(written);
      if (link !== undefined && address !== undefined) note({ family, link, address });
    }
  }
  reference.translations.forEach(note);
  return [...found.values()];
}

export function isPodRule({ priority, protocol, selector }: Rule, podNetworks: readonly Cidr[]): boolean {
  if (priority !== RULE_PRIORITY || protocol !== "" || !selector.startsWith("from ")) return false;
  const pod = parseAddress(selector.slice("from ".length));
  return pod !== undefined && podNetworks.some((network) => contains(network, pod));
}

function isPodToNodeRule({ priority, protocol, selector, table }: Rule): boolean {
  return (
    priority === POD_TO_NODE_PRIORITY &&
    protocol === "" &&
    selector === `fwmark ${POD_TO_NODE}` &&
    table === "main"
  );
}

function removals(observed: HostFacts["iptables"][Family]): readonly RulesetChange[] {
  const isTheirs = (table: string, chain: string) => table === "nat" && chain === CHAIN;
  const { retire } = diffRuleset(observed, { chains: [], jumps: [] }, isTheirs);
  const prerouting = observed.get("mangle")?.get("PREROUTING")?.rules ?? [];
  const has = (rule: string) => prerouting.some((candidate) => sameRule(candidate, rule));
  if (!has(SAVES)) return retire;
  const inMangle = [SAVES, RESTORES]
    .filter(has)
    .map((rule) => ({ op: "delete", table: "mangle", chain: "PREROUTING", rule }) as const);
  return [...retire, ...inMangle];
}

/** Routes of ours that its rules need when ours go, in its own name: what was there when it looked it did not add. */
export function routesToLeave(
  { network }: Pick<HostFacts, "network">,
  translations: readonly Translation[],
): readonly Route[] {
  const served = new Set(translations.map(({ link, family }) => `${family} ${link}`));
  const slot = ({ family, table, destination }: Route) => `${family} ${table} ${destination}`;
  const theirs = new Set(network.routes.filter(({ protocol }) => protocol !== ROUTE_PROTOCOL).map(slot));
  const names = linksByTable(network.links);
  return network.routes
    .filter(({ protocol, table, family, hops }) => {
      const link = names.get(table);
      return (
        protocol === ROUTE_PROTOCOL &&
        hops.length > 0 &&
        hops.every((hop) => hop.link === link) &&
        served.has(`${family} ${link}`)
      );
    })
    .filter((route) => !theirs.has(slot(route)))
    .map((route) => ({ ...route, protocol: "boot" }));
}
