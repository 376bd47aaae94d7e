// From assignments to what this node holds: nothing where it gives nothing; refuses clashes, finds the link, gives the mark. Pure.

import type { Link } from "../../lib/netlink/pure.ts";
import { isSingle } from "./destination.ts";
import type { HostFacts, IntentRecord, NetworkFacts } from "./facts.ts";
import { givingNothing } from "./giving.ts";
import { candidatesOf, type Hosting, hostingOf } from "./hosting.ts";
import { type Address, compareAddresses } from "./ip.ts";
import { linkProblems, promotionProblem, switchedOff } from "./link-problems.ts";
import { allocateMarks, type MarkLayout, type ProgrammedMark, type Traces } from "./marks.ts";
import { steeredLinks } from "./marks-found.ts";
import type { EgressIP, Node, Problem } from "./objects.ts";
import { onLink } from "./on-link.ts";
import { linkTable } from "./owner.ts";
import { inOrder } from "./selection.ts";
import type { Settings } from "./settings.ts";
import type { Held, Unready } from "./snapshot.ts";

export interface HeldResult {
  /** Marks were given out anew: what the entries of the sets say would have mattered. */
  readonly fresh: boolean;
  readonly held: readonly Held[];
  readonly unready: readonly Unready[];
  readonly problems: readonly Problem[];
}

interface Placed {
  readonly egressIP: EgressIP;
  readonly address: Address;
  readonly family: 4 | 6;
  readonly link: Link;
  readonly primary: boolean;
}

export function holdFor(
  settings: Settings,
  layout: MarkLayout,
  egressIPs: readonly EgressIP[],
  nodes: ReadonlyMap<string, Node>,
  network: NetworkFacts,
  sysctls: HostFacts["sysctls"],
  record: IntentRecord,
  programmed: readonly ProgrammedMark[],
  entries: Traces["entries"] = new Map(),
): HeldResult {
  const unready: Unready[] = [];
  const problems: Problem[] = [];
  const placed: Placed[] = [];
  const host = { network, sysctls, record };
  const report = (egressIP: EgressIP, address: Address, text: string) =>
    problems.push({
      object: `EgressIP/${egressIP.name}`,
      path: "status.items",
      text: `${address}: ${text}`,
    });
  const refuse = (egressIP: EgressIP, address: Address, reason: string, contested = false) => {
    unready.push({ egressIP, address, reason, contested });
    report(egressIP, address, reason);
  };
  const node = nodes.get(settings.node);
  const candidates = candidatesOf(network, settings.managementPort);
  const links = new Map(network.links.map((link) => [link.name, link]));
  const ownerOfAddress = new Map<Address, EgressIP>();
  const nodeAddresses = addressesOfNodes(nodes, network, record);
  const nothing = givingNothing(settings, nodes).get(settings.node);
  for (const egressIP of [...egressIPs].sort(inOrder)) {
    for (const { address, family, node: assigned } of egressIP.assignments) {
      if (assigned !== settings.node) continue;
      const danger = promotionProblem(address, host);
      if (danger !== undefined) report(egressIP, address, danger);
      const owner = ownerOfAddress.get(address);
      const taken = nodeAddresses.get(address);
      if (nothing !== undefined) {
        refuse(egressIP, address, `${nothing}, so nothing is given here`);
      } else if (owner !== undefined) {
        refuse(egressIP, address, `already given by EgressIP ${owner.name}, which is older`, true);
      } else if (taken !== undefined) {
        refuse(egressIP, address, `is an address of ${taken}; an egress IP must be an unused address`, true);
      } else {
        ownerOfAddress.set(address, egressIP);
        const hosting = hostingOf(address, node, candidates);
        const place = placeOn(hosting, links);
        if (typeof place === "string") refuse(egressIP, address, `${place}${switchedOff(family, host)}`);
        else placed.push({ egressIP, address, family, ...place });
      }
    }
  }
  placed.sort((a, b) => compareAddresses(a.address, b.address));
  const requests = placed.map(({ egressIP, family, address, link }) => ({
    family,
    address,
    link: link.name,
    of: egressIP.name,
  }));
  const marks = allocateMarks(layout, programmed, requests, {
    links: steeredLinks(layout, network),
    entries,
  });
  const held: Held[] = [];
  for (const { egressIP, address, family, link, primary } of placed) {
    const mark = marks.byAddress.get(onLink({ address, link: link.name }));
    if (mark === undefined) {
      refuse(
        egressIP,
        address,
        `no packet mark left: mask 0x${layout.mask.toString(16)} has ${layout.links} blocks of ${layout.addresses}, each for one link, and all are taken; see --mark-mask`,
      );
      continue;
    }
    const table = linkTable(link);
    held.push(
      Object.freeze({
        egressIP,
        address,
        family,
        primary,
        link: link.name,
        table,
        mark,
        linkUp: link.running,
      }),
    );
    const byKernel = !primary || settings.gatewayMode === "local";
    for (const text of linkProblems({ address, family, link, byKernel }, host, settings))
      report(egressIP, address, text);
  }
  return { fresh: marks.fresh, held: Object.freeze(held), unready: Object.freeze(unready), problems };
}

function placeOn(
  hosting: Hosting,
  links: ReadonlyMap<string, Link>,
): string | { readonly link: Link; readonly primary: boolean } {
  if (hosting.kind === "nowhere") return hosting.reason;
  const link = links.get(hosting.link);
  return link === undefined ? `link ${hosting.link} is gone` : { link, primary: hosting.kind === "primary" };
}

/** Address to the words that say whose it is. Addresses that we put on a link ourselves are nobody's. */
function addressesOfNodes(
  nodes: ReadonlyMap<string, Node>,
  network: NetworkFacts,
  record: IntentRecord,
): ReadonlyMap<Address, string> {
  const ours = new Set(record.addresses.map(({ address }) => address));
  const owners = new Map<Address, string>();
  for (const node of nodes.values()) {
    for (const { address } of node.hostCidrs)
      if (!ours.has(address)) owners.set(address, `node ${node.name}`);
    for (const address of node.internalAddresses) owners.set(address, `node ${node.name}`);
  }
  for (const entry of network.addresses) {
    if (!isSingle(entry) && !ours.has(entry.address))
      owners.set(entry.address, `this host, on ${entry.link}`);
  }
  return owners;
}
