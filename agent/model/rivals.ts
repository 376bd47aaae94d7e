// Who else answers for what this node gives: for which addresses to listen, and what is heard as Problems. Pure.

import { linkLocalFromMac } from "../../lib/frames/pure.ts";
import { hasNeighbours } from "./announced.ts";
import type { NetworkFacts, Rival } from "./facts.ts";
import type { Node, Problem } from "./objects.ts";
import { type OnLink, onLink } from "./on-link.ts";
import type { Held } from "./snapshot.ts";

/** An address that this host answers for; also where to ask about it. */
export interface WatchedAddress {
  readonly address: string;
  readonly link: string;
  readonly ifindex: number;
  readonly mac: string;
  /** Link-local address to be answered at. */
  readonly source: string;
}

/** Of what is held, what is there on a link with neighbours. A cloud's network answers for every address itself. */
export function watchedAddresses(
  node: Node | undefined,
  hold: readonly OnLink[],
  network: NetworkFacts,
): readonly WatchedAddress[] {
  if (hold.length === 0 || node?.cloud) return [];
  const links = new Map(network.links.map((link) => [link.name, link]));
  const there = new Set(network.addresses.map(onLink));
  const linkLocals = new Map(
    network.addresses
      .filter(({ family, scope }) => family === 6 && scope === "link")
      .map(({ link, address }) => [link, address]),
  );
  return hold.flatMap(({ address, link: name }) => {
    const link = links.get(name);
    if (!link?.running || !hasNeighbours(link.mac) || !there.has(onLink({ address, link: name }))) return [];
    const { index: ifindex, mac } = link;
    return [{ address, link: name, ifindex, mac, source: linkLocals.get(name) ?? linkLocalFromMac(mac) }];
  });
}

export function rivalProblems(held: readonly Held[], rivals: readonly Rival[]): readonly Problem[] {
  return held.flatMap(({ egressIP, address, link }) =>
    rivals
      .filter((rival) => rival.address === address && rival.link === link)
      .map(({ mac }) => ({
        object: `EgressIP/${egressIP.name}`,
        path: "status.items",
        text: `${address}: is also answered for on ${link} by ${mac}; two hosts have this address - find that host by its MAC, and take the address away there`,
      })),
  );
}
