// Where pods' packets leave a host, by the tracer, and which exits break the promise. In: facts. Out: exits; broken ones as text.

import type { Round } from "../../agent/loop.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import { entriesOf, getFrom } from "../../agent/model/shards.ts";
import { trace } from "../../agent/trace.ts";
import { destinations, nodes } from "../lab/topology.ts";
import type { Played } from "./scenario-run.ts";

const outsideOf = ["internet", "sec"] as const;

/** Where the first packet of each pod to each place outside goes: `LINK SOURCE`, or why not. */
type Exits = ReadonlyMap<string, string>;

let lastExits:
  | { readonly facts: HostFacts; readonly addresses: readonly string[]; readonly exits: Exits }
  | undefined;

export function exits(facts: HostFacts, addresses: readonly string[]): Exits {
  // Most changes of a round are to what no packet looks at.
  const looked = ["network", "sysctls", "iptables", "sets", "nft"] as const;
  if (
    lastExits?.addresses === addresses &&
    looked.every((domain) => lastExits?.facts[domain] === facts[domain])
  )
    return lastExits.exits;
  const found = new Map<string, string>();
  for (const source of addresses) {
    for (const to of outsideOf) {
      const destination = destinations[to][source.includes(":") ? 6 : 4];
      const { port } = destinations[to];
      const { verdict, unjudged } = trace(facts, {
        source,
        destination,
        from: "ovn-k8s-mp0",
        protocol: "tcp",
        port,
      });
      if (unjudged > 0) throw new Error(`the tracer does not understand this host: ${source} to ${to}`);
      found.set(`${source} ${to}`, verdict.leaves ? `${verdict.link} ${verdict.source}` : "dropped");
    }
  }
  lastExits = { facts, addresses, exits: found };
  return found;
}

export function podAddresses(...played: readonly Played[]): readonly string[] {
  const addresses = played.flatMap(({ objects }) =>
    [...entriesOf(objects.pods)].flatMap(([, pod]) => (pod.hostNetwork ? [] : pod.addresses)),
  );
  return [...new Set(addresses)].filter((address) => !nodeAddresses.has(address));
}

const nodeAddresses: ReadonlySet<string> = new Set(
  Object.values(nodes).flatMap(({ eth0, eth1 }) => [eth0[4], eth0[6], eth1[4], eth1[6]]),
);

export function isSelected(round: Round | undefined, address: string): boolean {
  return round !== undefined && getFrom(round.snapshot.served.claims, address) !== undefined;
}

/** Exits that break the promise at one moment, given those that were and will be. */
export function broken(
  now: Exits,
  allowed: readonly Exits[],
  alwaysSelected: (address: string) => boolean,
): readonly string[] {
  return [...now].flatMap(([probe, exit]) => {
    const [source = "", to] = probe.split(" ");
    const [, seen = ""] = exit.split(" ");
    if (exit === "dropped") return [];
    if (seen === source) return [`${probe}: leaves with the pod's address: ${exit}`];
    // What is on the links may become exempt (a node's address moves); the internet never is.
    if (to === "internet" && alwaysSelected(source) && nodeAddresses.has(seen))
      return [`${probe}: leaves as the node: ${exit}`];
    if (!allowed.some((known) => known.get(probe) === exit))
      return [`${probe}: neither old nor new: ${exit}`];
    return [];
  });
}
