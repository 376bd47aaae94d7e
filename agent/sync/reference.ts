// What OVN-Kubernetes itself has in the kernel for egress IPs: taken over (`--adopt`), or given back (`--hand-back`).
// In: plan, facts. Out: lines of `ip -batch`, iptables-restore, nft and conntrack.
// Its connections get our marks when everything that acts on those is there, and it goes when all backends have established.
// Given back are they when nothing is steered to us any more, so that no new one is ours.

import { isSingle } from "../model/destination.ts";
import type { HostFacts } from "../model/facts.ts";
import { onLink } from "../model/on-link.ts";
import { type ReferenceState, referenceState } from "../model/reference.ts";
import type { PlannedReference } from "../plan/plan.ts";
import type { Backend } from "./backend.ts";
import {
  applyReference,
  hasPrefixRoute,
  predictReference,
  printReference,
  type ReferenceChange,
} from "./reference-changes.ts";
import type { Tools } from "./tools.ts";

type Adopt = Extract<PlannedReference, { kind: "adopt" }>;

export function reference(
  tools: Pick<Tools, "conntrack" | "iptables" | "netlink" | "nft">,
): Backend<ReferenceChange> {
  return {
    name: "reference",
    reads: { plan: ["reference"], facts: ["network", "iptables", "reference", "record"] },
    // A mark that nothing acts on yet would lead its connection astray.
    needs: ["sets", "routing", "leak-guard", "iptables"],
    verifies: "network",
    diff: ({ reference: wanted }, facts) => {
      if (wanted.kind === "hand-back")
        return { establish: [], retire: wanted.flows.map((flows) => ({ kind: "flows", flows })) };
      if (wanted.kind === "leave") return { establish: [], retire: [] };
      const state = referenceState(facts, wanted.podNetworks, wanted.managementPort);
      return {
        establish: isThere(state, facts) ? taken(wanted, facts) : [],
        retire: removed(wanted, state, facts),
      };
    },
    print: printReference,
    predict: predictReference,
    apply: (changes) => applyReference(tools, changes),
  };
}

function isThere({ rules, iptables }: ReferenceState, { reference: { chains, maps } }: HostFacts): boolean {
  return [rules, iptables[4], iptables[6], chains, maps].some(({ length }) => length > 0);
}

/** Connections by the address they leave with: it has marked none, and the rules that lead them will be gone. */
function taken({ held }: Adopt, { network }: HostFacts): readonly ReferenceChange[] {
  const ours = new Set(held.map(onLink));
  return [
    ...held.map(({ family, address, mark, mask }): ReferenceChange => {
      return { kind: "flows", flows: { family, translatedTo: address, mark, mask } };
    }),
    // The node's own traffic must not pick it as its source, nor its prefix stand in main.
    ...network.addresses
      .filter((entry) => entry.family === 6 && isSingle(entry) && ours.has(onLink(entry)))
      .filter((entry) => !entry.flags.includes("deprecated") || hasPrefixRoute(network.routes, entry))
      .map((address): ReferenceChange => ({ kind: "address", op: "replace", address })),
  ];
}

/**
 * What translates first and its rules last: while one of those is left it is known which tables were its. The connections of
 * an address that nobody gives here any more end, or they would go on by another link.
 */
function removed(
  { held, listed }: Adopt,
  { rules, routes, iptables, translations }: ReferenceState,
  { network, record, reference: { chains, maps } }: HostFacts,
): readonly ReferenceChange[] {
  const ours = new Set([...held, ...record.addresses].map(onLink));
  const given = new Set(held.map(({ address }) => address));
  const theirs = new Set(translations.map(onLink));
  const loopbacks = new Set(
    network.links.filter(({ mac }) => mac === "00:00:00:00:00:00").map(({ name }) => name),
  );
  const addresses = network.addresses.filter(
    (entry) =>
      isSingle(entry) &&
      entry.scope === "global" &&
      !loopbacks.has(entry.link) &&
      !ours.has(onLink(entry)) &&
      (listed.has(entry.address) || theirs.has(onLink(entry))),
  );
  const ended = new Map(
    [...translations, ...addresses]
      .filter(({ address }) => !given.has(address))
      .map(({ family, address }) => [address, { family, translatedTo: address, ends: true } as const]),
  );
  return [
    ...([4, 6] as const).flatMap((family) =>
      iptables[family].map((change): ReferenceChange => ({ kind: "iptables", family, change })),
    ),
    ...(chains.length + maps.length > 0 ? [{ kind: "nft", chains, maps } as const] : []),
    ...routes.map((route): ReferenceChange => ({ kind: "route", route })),
    ...[...ended.values()].map((flows): ReferenceChange => ({ kind: "flows", flows })),
    ...addresses.map((address): ReferenceChange => ({ kind: "address", op: "del", address })),
    ...rules.map((rule): ReferenceChange => ({ kind: "rule", rule })),
  ];
}
