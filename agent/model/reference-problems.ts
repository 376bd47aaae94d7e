// OVN-Kubernetes and this agent giving the same egress IPs in one kernel, in words for a person. Pure.
// What is in its nft maps is not looked at for this: it has a rule for each pod as well, and those are read anyway.
import { type HostFacts, NO_REFERENCE } from "./facts.ts";
import type { Problem } from "./objects.ts";
import { isPodRule, translationsOf } from "./reference.ts";
import type { Settings } from "./settings.ts";
import type { Held } from "./snapshot.ts";

export function referenceProblems(
  { adopt, clusterNetworks }: Settings,
  held: readonly Held[],
  rules: HostFacts["network"]["rules"],
  iptables: HostFacts["iptables"],
): readonly Problem[] {
  if (adopt || held.length === 0) return [];
  const tables = new Set(held.map(({ table }) => table));
  const given = new Set(held.map(({ address }) => address));
  const leading = rules.filter((rule) => tables.has(rule.table) && isPodRule(rule, clusterNetworks)).length;
  const translating = translationsOf({ iptables, reference: NO_REFERENCE }).filter(({ address }) =>
    given.has(address),
  ).length;
  if (leading + translating === 0) return [];
  const text =
    `OVN-Kubernetes gives egress IPs of this agent too: ${leading} of its rules at priority 6000 lead pods to the same tables, ` +
    `its SNAT rules name ${translating} of the same addresses, and it removes others' rules at that priority; ` +
    "turn egress IPs off there, and start once with --adopt true to take over what it has programmed";
  return [{ object: "host", path: "", text }];
}
