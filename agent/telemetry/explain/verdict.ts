// From where a packet ended to a verdict that a person can act on. In: a Snapshot, who selects the pod, the end. Out: a Verdict. Pure.
import type { Address } from "../../model/ip.ts";
import type { EgressIP } from "../../model/objects.ts";
import type { Snapshot } from "../../model/snapshot.ts";
import type { Verdict as Ended } from "../../trace.ts";
import type { OvnEnd } from "../../trace-ovn.ts";
import type { Step, StepName } from "../../trace-step.ts";
import type { Verdict, WhyNot } from "./account.ts";
import { nodeOfAddress } from "./selection.ts";

/** Who speaks for a pod, as steps, and why nobody does. */
export interface Chosen {
  readonly by: EgressIP | undefined;
  readonly steps: readonly Step[];
  readonly whyNot: readonly WhyNot[];
}

type End = Exclude<OvnEnd, { kind: "kernel" }> | { readonly kind: "kernel"; readonly end: Ended };

export function verdictOf(
  snapshot: Snapshot,
  chosen: Chosen,
  source: Address,
  destination: Address,
  end: End,
  steps: readonly Step[],
): Verdict {
  switch (end.kind) {
    case "node":
      return { outcome: "goes to another node", nodes: end.nodes, ...towards(snapshot, end.nodes) };
    case "unknown":
      return { outcome: "unknown", why: end.why };
    case "stays":
      return { outcome: "stays", source, destination, why: end.why };
    case "dropped":
      return heldBack(chosen, end.at, end.why);
    case "leaves":
      return left(snapshot, chosen, source, { link: end.router, source: end.source, destination }, steps);
    case "kernel":
      return inKernel(snapshot, chosen, source, end.end, steps, destination);
  }
}

function inKernel(
  snapshot: Snapshot,
  chosen: Chosen,
  source: Address,
  end: Ended,
  steps: readonly Step[],
  destination: Address,
): Verdict {
  if (end.leaves) {
    if (end.link !== snapshot.settings.managementPort)
      return ifAnswered(ifReplied(left(snapshot, chosen, source, end, steps), chosen, steps), steps.at(-1));
    const { link, source: seen, destination: to } = end;
    const kept = seen === source ? "with its own source" : `as ${seen}`;
    return { outcome: "stays", link, source: seen, destination: to, why: `goes back to the pods ${kept}` };
  }
  if (end.at !== "local") return heldBack(chosen, end.at, end.why);
  return { outcome: "stays", source, destination, why: "is for this node itself, and keeps its source" };
}

/** It leaves, and is seen with that source; what comes back goes to whoever answers for the address. */
function ifReplied(verdict: Verdict, { whyNot }: Chosen, steps: readonly Step[]): Verdict {
  if (!steps.some(({ step }) => step === "address")) return verdict;
  return {
    ...verdict,
    at: "address",
    why: `${verdict.why}, but this host does not have ${verdict.source}: replies come only if neighbours still send them here`,
    remedy:
      whyNot[0]?.remedy ??
      "egressip-agent plan shows whether the address is to be added; status says why it is not (kubernetes, failures, contention)",
  };
}

/** The kernel asks again with the next packet, so that nobody answered before says nothing for certain. */
function ifAnswered(verdict: Verdict, last: Step | undefined): Verdict {
  if (last?.step !== "neighbour" || last.found !== "FAILED") return verdict;
  return {
    ...verdict,
    outcome: "unknown",
    at: "neighbour",
    why: `leaves by ${verdict.link} as ${verdict.source}, ${verdict.why}, if ${last.object} answers, which it did not when it was last asked`,
    remedy: "see whether the next hop is there, and asks for us: ip neigh, tcpdump -ni LINK arp or icmp6",
  };
}

interface Left {
  readonly link: string;
  readonly source: Address;
  readonly destination: Address;
}

function left(
  snapshot: Snapshot,
  { by, whyNot }: Chosen,
  own: Address,
  { link, source, destination }: Left,
  steps: readonly Step[],
): Verdict {
  const outcome = { outcome: "leaves", link, source, destination } as const;
  // One that asks for a node's own address is refused, and what leaves with that is the node's.
  const asking = snapshot.egressIPs.filter(({ requested }) => requested.includes(source));
  const given = nodeOfAddress(snapshot, source) === undefined ? asking[0] : undefined;
  if (given !== undefined)
    return { ...outcome, egressIP: given.name, why: `with the egress IP of ${given.name}` };
  const as = source === own ? "with the pod's own address" : `as ${whoHas(snapshot, source)}`;
  const exempt = steps.find(
    ({ step, verdict }) => step === "exempt" || verdict.startsWith("is not rerouted"),
  );
  const [first] = whyNot;
  if (exempt !== undefined)
    return { ...outcome, why: `${as}: ${destination} is a destination that sees no egress IP` };
  if (by === undefined)
    return {
      ...outcome,
      why: `${as}: ${first?.text ?? "nothing selects it"}`,
      ...(first === undefined ? {} : { remedy: first.remedy }),
    };
  if (
    first !== undefined &&
    (snapshot.settings.whenUnready === "node-ip" || first.reason === "no address of this family")
  )
    return { ...outcome, why: `${as}: ${first.text}`, remedy: first.remedy };
  return {
    ...outcome,
    why: `${as}, although ${by.name} selects it: what gives it the egress IP is missing, and what holds it back too`,
    remedy: "egressip-agent plan shows what is missing; status says whether it is being put back",
  };
}

function whoHas(snapshot: Snapshot, source: Address): string {
  const node = nodeOfAddress(snapshot, source);
  return node === snapshot.settings.node ? "this node" : (node ?? source);
}

/** Where the pod waits for an egress IP that is why; else the step that dropped it is. */
function heldBack({ by, whyNot }: Chosen, at: StepName, why: string): Verdict {
  const [first] = whyNot;
  const waits =
    by !== undefined && first !== undefined && (at === "guard" || at === "ovn-policy" || at === "ovn-acl");
  if (waits) return { outcome: "held back", at, why: `${why}; ${first.text}`, remedy: first.remedy };
  return { outcome: "held back", at, why, remedy: remedyAt(at) };
}

function remedyAt(at: StepName): string {
  switch (at) {
    case "guard":
      return "it was led to another link than its mark is for, or has no mark: egressip-agent plan shows which rule, route or entry is missing";
    case "leak-guard":
    case "ovn-acl":
      return "nothing gives it an egress IP at the last moment: egressip-agent plan shows which rule or row is missing, status why";
    case "rule":
    case "route":
      return "see the link, and what leads by it: ip address, ip rule, ip route show table all";
    case "forwarding":
    case "reverse-path":
      return "set it as that says, where it is set for good: sysctl.d of this host";
    case "link":
      return "see the link: ip link";
    case "ovn-policy":
      return "see who wrote the policy: ovn-nbctl lr-policy-list";
    default:
      return "it is somebody else's rule: see who wrote it, and whether it is meant for this packet";
  }
}

function towards({ settings }: Snapshot, nodes: readonly string[]): Pick<Verdict, "why" | "remedy"> {
  const [first = ""] = nodes;
  if (nodes.length > 1)
    return {
      why: `each connection goes to one of ${nodes.join(", ")}`,
      remedy: `ask the agents there too, how it goes on${nodes.includes(settings.node) ? "; here it is one of several" : ""}`,
    };
  return { why: `OVN sends it to ${first}`, remedy: `ask the agent of ${first} how it goes on` };
}
