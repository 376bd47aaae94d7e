// The way of one packet, from the pod's labels to the neighbour that gets it, and the verdict. In: what is known, a packet.
// Out: an Account, and why the pod has no egress IP where it has none. Pure: walks what was found, never what is wanted.
import type { Neighbour } from "../../../lib/netlink/pure.ts";
import type { Round } from "../../loop.ts";
import { type Address, contains } from "../../model/ip.ts";
import type { OthersRows } from "../../model/northbound.ts";
import type { Pod } from "../../model/objects.ts";
import type { Seen } from "../../model/seen.ts";
import { trace } from "../../trace.ts";
import { traceOvn } from "../../trace-ovn.ts";
import type { Step } from "../../trace-step.ts";
import type { Account, WhyNot } from "./account.ts";
import { givenTo } from "./assignment.ts";
import { type Destination, type Protocol, shownDestination } from "./question.ts";
import { podObject, selectionOf } from "./selection.ts";
import { type Chosen, verdictOf } from "./verdict.ts";

/** The last round's objects, and the host as it is now. */
export interface Known {
  readonly round: Round;
  readonly seen: Seen;
  /** Rows of others in the northbound database, by the address that was asked about. */
  readonly others: ReadonlyMap<Address, OthersRows | undefined>;
}

export interface Explained {
  readonly account: Account;
  readonly whyNot: readonly WhyNot[];
  /** Rules on its way that nobody here can judge. */
  readonly unjudged: number;
}

export function explainPacket(
  known: Known,
  pod: Pod | undefined,
  source: Address,
  to: Destination,
  protocol: Protocol,
): Explained {
  const { snapshot } = known.round;
  const { settings, nodes } = snapshot;
  const { facts } = known.seen;
  const chosen = chosenFor(known, pod, source);
  const node = pod?.node ?? nodeOf(known, source);
  const ovn = traceOvn(
    {
      settings,
      northbound: facts.northbound,
      nodes,
      others: known.others.get(source),
      own: new Set(facts.network.addresses.map(({ address }) => address)),
    },
    { source, destination: to.address, protocol, port: to.port, node },
  );
  const steps: Step[] = [...chosen.steps, ...ovn.steps];
  const about = `${source} to ${shownDestination(to)} ${protocol}`;
  if (ovn.end.kind !== "kernel") {
    const verdict = verdictOf(snapshot, chosen, source, to.address, ovn.end, steps);
    return { account: { about, steps, verdict }, whyNot: chosen.whyNot, unjudged: ovn.unjudged };
  }
  const traced = trace(facts, {
    source,
    destination: to.address,
    from: settings.managementPort,
    protocol,
    mark: ovn.end.mark,
    ...(to.port === undefined ? {} : { port: to.port }),
  });
  steps.push(...traced.steps);
  const end = traced.verdict.leaves ? outOfHost(known, traced, steps) : traced.verdict;
  const verdict = verdictOf(snapshot, chosen, source, to.address, { kind: "kernel", end }, steps);
  return {
    account: { about, steps, verdict },
    whyNot: chosen.whyNot,
    unjudged: ovn.unjudged + traced.unjudged,
  };
}

function chosenFor({ round: { snapshot } }: Known, pod: Pod | undefined, source: Address): Chosen {
  if (pod === undefined)
    return {
      by: undefined,
      steps: [
        { step: "selector", object: source, found: "no pod has this address", verdict: "nothing selects it" },
      ],
      whyNot: [],
    };
  const { by, steps, whyNot } = selectionOf(snapshot, pod);
  if (by !== undefined) {
    const given = givenTo(snapshot, by, pod, source);
    return { by, steps: [...steps, ...given.steps], whyNot: given.whyNot };
  }
  const [first] = whyNot;
  const said: Step[] =
    steps.length > 0 || first === undefined
      ? []
      : [
          {
            step: "selector",
            object: podObject(pod),
            found: first.reason,
            verdict: "no EgressIP speaks for it",
          },
        ];
  return { by, steps: [...steps, ...said], whyNot };
}

/** By the networks of nodes' pods; "" where none has it. */
function nodeOf({ round: { snapshot } }: Known, source: Address): string {
  for (const { name, podSubnets } of snapshot.nodes.values())
    if (podSubnets.some((network) => contains(network, source))) return name;
  return "";
}

type Left = Extract<ReturnType<typeof trace>["verdict"], { leaves: true }>;
type Ended = ReturnType<typeof trace>["verdict"];

/** Behind all rules: whether the link can carry it, and whether its next hop is known. */
function outOfHost(
  { seen, round: { snapshot } }: Known,
  traced: ReturnType<typeof trace>,
  steps: Step[],
): Ended {
  const left = traced.verdict as Left;
  if (left.link === snapshot.settings.managementPort) return left;
  if (!isAnsweredFor(seen, snapshot, left.source))
    steps.push({
      step: "address",
      object: `${left.source} on ${left.link}`,
      found: "not there",
      verdict: "this host does not have it: replies come only if neighbours still send them here",
    });
  const link = seen.facts.network.links.find(({ name }) => name === left.link);
  if (link !== undefined) {
    const state = link.running ? "up" : link.up ? "without carrier" : "down";
    const verdict = link.running ? "carries it" : "carries nothing";
    steps.push({ step: "link", object: left.link, found: `${state}, ${link.mac}`, verdict });
    if (!link.running) return { leaves: false, at: "link", why: `link ${left.link} is ${state}` };
  }
  const neighbour = seen.neighbours.find(
    ({ address, link: of }) => address === traced.nextHop && of === left.link,
  );
  steps.push({
    step: "neighbour",
    object: `${traced.nextHop} on ${left.link}`,
    ...sayNeighbour(neighbour),
  });
  return left;
}

/** Of an egress IP: whether this host has the address. What else leaves is the node's own, or a pod's that routes lead to. */
function isAnsweredFor({ facts }: Seen, { egressIPs }: Round["snapshot"], source: Address): boolean {
  if (!egressIPs.some(({ requested }) => requested.includes(source))) return true;
  return facts.network.addresses.some(({ address }) => address === source);
}

function sayNeighbour(neighbour: Neighbour | undefined): Pick<Step, "found" | "verdict"> {
  if (neighbour === undefined) return { found: "not known", verdict: "is asked for with the first packet" };
  const { mac, state } = neighbour;
  if (mac !== "") return { found: `${mac} ${state}`, verdict: "is known" };
  return { found: state, verdict: state === "FAILED" ? "did not answer" : "is being asked for" };
}

export function unjudgedNote(explained: readonly Explained[]): readonly string[] {
  const most = Math.max(0, ...explained.map(({ unjudged }) => unjudged));
  if (most === 0) return [];
  return [
    `${most} rule${most === 1 ? " of somebody else was" : "s of somebody else were"} passed over: whether it decides otherwise is not known here`,
  ];
}
