// Names and addresses that no pod is known by: what they are all the same, and the way of a packet from there. In: what is known. Out: an
// Answer. Pure.
import { parseDestination } from "../../model/destination.ts";
import { type Address, contains, familyOf, formatPrefix } from "../../model/ip.ts";
import type { Snapshot } from "../../model/snapshot.ts";
import type { Answer } from "./account.ts";
import { explainPacket, type Known, unjudgedNote } from "./packet.ts";
import type { Destination, Protocol } from "./question.ts";
import { nodeOfAddress } from "./selection.ts";

export function unknownPod(name: string, { round }: Known): Answer {
  const problems = round.objects.problems.filter(({ object }) => object === `Pod/${name}`);
  const text =
    problems.length === 0
      ? "no pod of this name is among the objects; of other nodes' pods those are followed alone that this node may have to do with"
      : problems.map((problem) => `it was left out: ${problem.path} ${problem.text}`).join("; ");
  return {
    summary: `pod ${name} is not known here`,
    whyNot: [
      {
        reason: "unknown pod",
        object: `Pod/${name}`,
        text,
        remedy: "names are NAMESPACE/NAME; ask on the pod's node",
      },
    ],
    accounts: [],
    notes: [],
  };
}

/** An address that no pod has: its packet is walked all the same, if it is not a node's. */
export function ofStranger(from: Address, to: Destination, protocol: Protocol, known: Known): Answer {
  const node = nodeOfAddress(known.round.snapshot, from);
  if (node !== undefined)
    return {
      summary: `${from} is an address of node ${node}`,
      whyNot: [],
      accounts: [],
      notes: ["what a node sends itself is not forwarded, and nothing here changes it"],
    };
  if (familyOf(from) !== familyOf(to.address))
    return { summary: `${from} and ${to.address} are of two families`, whyNot: [], accounts: [], notes: [] };
  const explained = explainPacket(known, undefined, from, to, protocol);
  return {
    summary: `no pod has ${from}: what comes in with it by ${known.round.snapshot.settings.managementPort}`,
    whyNot: [],
    accounts: [explained.account],
    notes: unjudgedNote([explained]),
  };
}

export function whatItIs(snapshot: Snapshot, address: Address): string {
  const { settings, exempt } = snapshot;
  const node = nodeOfAddress(snapshot, address);
  const keeps = "what pods send there keeps its usual source";
  if (node !== undefined) return `an address of node ${node}: ${keeps}`;
  const own = snapshot.host.network.addresses.find((entry) => entry.address === address);
  if (own !== undefined) return `an address of this host, on ${own.link}: ${keeps}`;
  const [pods, services] = [settings.clusterNetworks, settings.serviceNetworks].map((networks) =>
    networks.find((network) => contains(network, address)),
  );
  if (pods !== undefined)
    return `in the pods' network ${formatPrefix(pods)}, and no pod that is known here has it`;
  if (services !== undefined) return `in the services' network ${formatPrefix(services)}: ${keeps}`;
  const listed = exempt[familyOf(address)].find((member) => {
    const network = parseDestination(member);
    return network !== undefined && contains(network, address);
  });
  if (listed !== undefined) return `in ${listed}, which is exempt: ${keeps}`;
  return "an address outside: selected pods reach it with their egress IP";
}
