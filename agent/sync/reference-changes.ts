// One change of what OVN-Kubernetes has in the kernel: as text, as prediction, as effect. Several tools, in the order given.
import { printTranslated, type TranslatedChange } from "../../lib/conntrack/pure.ts";
import { type LinkAddress, type Route, type Rule, routeWords, ruleWords } from "../../lib/netlink/pure.ts";
import { applyToRuleset, printRestore, type RulesetChange } from "../../lib/node-iptables/pure.ts";
import { type HostFacts, NO_REFERENCE } from "../model/facts.ts";
import { NFT_TABLE } from "../model/reference.ts";
import { addressWords } from "./addresses.ts";
import type { Tools } from "./tools.ts";

export type ReferenceChange =
  | { readonly kind: "flows"; readonly flows: TranslatedChange }
  | { readonly kind: "iptables"; readonly family: 4 | 6; readonly change: RulesetChange }
  | { readonly kind: "nft"; readonly chains: readonly string[]; readonly maps: readonly string[] }
  | { readonly kind: "address"; readonly op: "replace" | "del"; readonly address: LinkAddress }
  /** Taken away, as rules are. */
  | { readonly kind: "route"; readonly route: Route }
  | { readonly kind: "rule"; readonly rule: Rule };

type Of<K extends ReferenceChange["kind"]> = Extract<ReferenceChange, { kind: K }>;

/** Neighbours that one process of one tool carries out. */
type Batch =
  | { readonly tool: "conntrack"; readonly changes: readonly TranslatedChange[] }
  | { readonly tool: "iptables"; readonly family: 4 | 6; readonly text: string }
  | { readonly tool: "nft"; readonly script: string }
  | { readonly tool: "ip"; readonly lines: readonly string[] };

function batchesOf(changes: readonly ReferenceChange[]): readonly Batch[] {
  const batches: Batch[] = [];
  for (let from = 0; from < changes.length; ) {
    const tool = toolOf(changes[from] as ReferenceChange);
    let to = from + 1;
    while (to < changes.length && toolOf(changes[to] as ReferenceChange) === tool) to++;
    batches.push(batchOf(changes.slice(from, to)));
    from = to;
  }
  return batches;
}

function toolOf(change: ReferenceChange): string {
  if (change.kind === "iptables") return `iptables${change.family}`;
  return change.kind === "flows" || change.kind === "nft" ? change.kind : "ip";
}

function batchOf(changes: readonly ReferenceChange[]): Batch {
  const [first] = changes;
  switch (first?.kind) {
    case "flows":
      return { tool: "conntrack", changes: (changes as Of<"flows">[]).map(({ flows }) => flows) };
    case "iptables": {
      const text = printRestore((changes as Of<"iptables">[]).map(({ change }) => change));
      return { tool: "iptables", family: first.family, text };
    }
    case "nft":
      return { tool: "nft", script: script(first) };
    default:
      return { tool: "ip", lines: (changes as Of<"address" | "route" | "rule">[]).map(ipLine) };
  }
}

/** Rules hold chains, and chains hold maps: all of it goes in one transaction, and the table stays. */
function script({ chains, maps }: Of<"nft">): string {
  const lines = [
    ...chains.map((name) => `flush chain inet ${NFT_TABLE} ${name}`),
    ...chains.map((name) => `delete chain inet ${NFT_TABLE} ${name}`),
    ...maps.map((name) => `delete map inet ${NFT_TABLE} ${name}`),
  ];
  return `${lines.join("\n")}\n`;
}

function ipLine(change: Of<"address" | "route" | "rule">): string {
  if (change.kind === "address") return `address ${addressWords(change.op, change.address)}`;
  if (change.kind === "route") return `route del ${routeWords(change.route)}`;
  return `${change.rule.family === 6 ? "-6 " : ""}rule del ${ruleWords(change.rule)}`;
}

function linesOf(batch: Batch): readonly string[] {
  if (batch.tool === "conntrack") return batch.changes.map(printTranslated);
  if (batch.tool === "ip") return batch.lines.map((line) => `ip ${line}`);
  const lines = (batch.tool === "nft" ? batch.script : batch.text).trimEnd().split("\n");
  return batch.tool === "nft"
    ? lines
    : [`# ip${batch.family === 4 ? "" : "6"}tables-restore --noflush`, ...lines];
}

export function printReference(changes: readonly ReferenceChange[]): readonly string[] {
  return batchesOf(changes).flatMap(linesOf);
}

export async function applyReference(
  tools: Pick<Tools, "conntrack" | "iptables" | "netlink" | "nft">,
  changes: readonly ReferenceChange[],
): Promise<void> {
  for (const batch of batchesOf(changes)) {
    if (batch.tool === "conntrack") await tools.conntrack.changeTranslated(batch.changes);
    else if (batch.tool === "iptables") await tools.iptables.restore(batch.family, batch.text);
    else if (batch.tool === "nft") await tools.nft.apply(batch.script);
    else await tools.netlink.batch(batch.lines);
  }
}

export function predictReference(facts: HostFacts, changes: readonly ReferenceChange[]): HostFacts {
  const rulesets = (family: 4 | 6) =>
    changes.flatMap((entry) => (entry.kind === "iptables" && entry.family === family ? [entry.change] : []));
  const gone = new Set<unknown>();
  const replaced = new Set<LinkAddress>();
  for (const change of changes) {
    if (change.kind === "route") gone.add(change.route);
    else if (change.kind === "rule") gone.add(change.rule);
    else if (change.kind === "address") (change.op === "del" ? gone : replaced).add(change.address);
  }
  const { network } = facts;
  return {
    ...facts,
    iptables: {
      4: applyToRuleset(facts.iptables[4], rulesets(4)),
      6: applyToRuleset(facts.iptables[6], rulesets(6)),
    },
    reference: changes.some(({ kind }) => kind === "nft") ? NO_REFERENCE : facts.reference,
    network: {
      ...network,
      rules: network.rules.filter((rule) => !gone.has(rule)),
      routes: network.routes.filter(
        (route) => !gone.has(route) && ![...replaced].some((entry) => hasPrefixRoute([route], entry)),
      ),
      addresses: network.addresses
        .filter((entry) => !gone.has(entry))
        .map((entry) => (replaced.has(entry) ? { ...entry, flags: ["deprecated"] } : entry)),
    },
  };
}

/** The kernel's own route for a single address, which goes with `noprefixroute`. */
export function hasPrefixRoute(routes: readonly Route[], { address, link }: LinkAddress): boolean {
  return routes.some(
    ({ protocol, table, destination, hops }) =>
      protocol === "kernel" && table === "main" && destination === address && hops[0]?.link === link,
  );
}
