// Tells the neighbours where an egress IP lives now. In: plan, facts. Out: gratuitous ARP and unsolicited NA frames.
// Announced when an address was gained, when its link came back, and when the objects could be read again after they could not;
// never what was found at start, before the objects say whose it is (known-faults BL-39).

import { linkLocalFromMac } from "../../lib/frames/pure.ts";
import { announcedToken, hasNeighbours } from "../model/announced.ts";
import type { HostFacts } from "../model/facts.ts";
import { byCodeUnit } from "../model/names.ts";
import { onLink } from "../model/on-link.ts";
import type { Plan } from "../plan/plan.ts";
import type { Backend } from "./backend.ts";
import { leavesFirst } from "./leaving.ts";
import type { Tools } from "./tools.ts";

export interface AnnounceChange {
  readonly op: "announce" | "stop";
  readonly token: string;
  readonly address: string;
  readonly link: string;
  readonly ifindex: number;
  readonly mac: string;
  /** Link-local source of the neighbour advertisement. */
  readonly source: string;
}

export function announce(tools: Pick<Tools, "announcer">): Backend<AnnounceChange> {
  return {
    name: "announce",
    reads: { plan: ["addresses"], facts: ["announced", "network"] },
    verifies: undefined,
    diff,
    withdraw: (plan, _, { retire }) => retire.filter(leavesFirst(plan)),
    waits: () => true,
    print: (changes) =>
      changes.map(
        ({ op, address, link, mac }) => `${op} ${address} on ${link}${op === "stop" ? "" : ` at ${mac}`}`,
      ),
    predict: (facts, changes) => {
      const announced = new Set(facts.announced);
      for (const { op, token } of changes) {
        if (op === "announce") announced.add(token);
        else announced.delete(token);
      }
      return changes.length === 0 ? facts : { ...facts, announced };
    },
    apply: async (changes) => {
      await tools.announcer.stop(changes.filter(({ op }) => op === "stop"));
      await tools.announcer.start(changes.filter(({ op }) => op === "announce"));
    },
  };
}

/**
 * The facts when nobody could say for a while whose the addresses are: one may have been another node's meanwhile, so what is held
 * now is announced anew (known-faults BL-35). What leaves stays known, or nobody would stop announcing it.
 */
export function toConfirm(plan: Plan, facts: HostFacts): HostFacts {
  const held = new Set(plan.addresses.hold.map(onLink));
  const others = [...facts.announced].filter((token) => !held.has(token.slice(0, token.lastIndexOf(" "))));
  return { ...facts, announced: new Set(others) };
}

function diff(
  plan: Plan,
  facts: HostFacts,
): { establish: readonly AnnounceChange[]; retire: readonly AnnounceChange[] } {
  const links = new Map(facts.network.links.map((link) => [link.name, link]));
  const wanted = new Set<string>();
  const establish: AnnounceChange[] = [];
  for (const { address, link: name } of plan.addresses.hold) {
    const link = links.get(name);
    if (link === undefined || !link.running || !hasNeighbours(link.mac)) continue;
    const token = announcedToken(address, name, link.mac);
    wanted.add(token);
    if (facts.announced.has(token)) continue;
    const own = facts.network.addresses.find(
      (entry) => entry.link === name && entry.family === 6 && entry.scope === "link",
    );
    const source = own?.address ?? linkLocalFromMac(link.mac);
    establish.push({
      op: "announce",
      token,
      address,
      link: name,
      ifindex: link.index,
      mac: link.mac,
      source,
    });
  }
  const retire = [...facts.announced]
    .filter((token) => !wanted.has(token))
    .sort(byCodeUnit)
    .map((token): AnnounceChange => {
      const [address = "", link = "", mac = ""] = token.split(" ");
      return { op: "stop", token, address, link, ifindex: 0, mac, source: "" };
    });
  return { establish, retire };
}
