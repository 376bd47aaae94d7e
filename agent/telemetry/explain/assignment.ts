// Who is to give a selected pod's address its egress IP: this node, another one, or nobody and why. In: a Snapshot, the EgressIP, the
// pod's address. Out: steps, and reasons with what a person can do. Pure.
import { givingNothing } from "../../model/giving.ts";
import { type Address, familyOf } from "../../model/ip.ts";
import type { Assignment, EgressIP, Pod } from "../../model/objects.ts";
import { getFrom } from "../../model/shards.ts";
import type { Snapshot } from "../../model/snapshot.ts";
import type { Step } from "../../trace-step.ts";
import type { WhyNot } from "./account.ts";
import { podObject } from "./selection.ts";

export interface Given {
  readonly steps: readonly Step[];
  readonly whyNot: readonly WhyNot[];
}

export function givenTo(snapshot: Snapshot, by: EgressIP, pod: Pod, address: Address): Given {
  const family = familyOf(address);
  const first = getFrom(snapshot.served.claims, address)?.[0]?.pod;
  if (first !== undefined && (first.namespace !== pod.namespace || first.name !== pod.name))
    return nothing({
      reason: "address claimed twice",
      object: podObject(pod),
      text: `${address} is also the address of pod ${first.namespace}/${first.name}, which counts`,
      remedy:
        "one of the two is not there any more, or the address was given twice: kubectl get pods -A -o wide",
    });
  if (!by.requested.some((one) => familyOf(one) === family))
    return nothing({
      reason: "no address of this family",
      object: `EgressIP/${by.name}`,
      text: `${by.name} has no IPv${family} address: ${address} leaves as if nothing selected it`,
      remedy: `add an IPv${family} address to spec.egressIPs of ${by.name}`,
    });
  const assigned = by.assignments.filter((one) => one.family === family);
  if (assigned.length === 0)
    return nothing({
      reason: "not assigned",
      object: `EgressIP/${by.name}`,
      text: `no node has an IPv${family} address of ${by.name} (status.items)`,
      remedy: `see why it is not assigned: kubectl describe egressip ${by.name}; nodes need the label k8s.ovn.org/egress-assignable`,
    });
  const looked = assigned.map((assignment) => lookAt(snapshot, by, assignment));
  const steps = looked.map(({ step }) => step);
  const isGiven = looked.some(({ whyNot }) => whyNot === undefined);
  return { steps, whyNot: isGiven ? [] : looked.flatMap(({ whyNot }) => whyNot ?? []) };
}

function nothing(whyNot: WhyNot): Given {
  const { object, text } = whyNot;
  return { steps: [{ step: "assignment", object, found: "nothing", verdict: text }], whyNot: [whyNot] };
}

/** `whyNot` is undefined where this node gives it. */
export function lookAt(
  snapshot: Snapshot,
  by: EgressIP,
  { address, node }: Assignment,
): { readonly step: Step; readonly whyNot: WhyNot | undefined } {
  const { settings, held, unready, nodes } = snapshot;
  const object = `EgressIP/${by.name}`;
  const found = `${address} on ${node}`;
  const step = (verdict: string): Step => ({ step: "assignment", object, found, verdict });
  const here = held.find((entry) => entry.address === address && entry.egressIP.name === by.name);
  if (here !== undefined) return { step: step(`this node gives it, by ${here.link}`), whyNot: undefined };
  const leaves = givingNothing(settings, nodes).get(node);
  if (leaves !== undefined)
    return {
      step: step(`nobody gives it: ${leaves}`),
      whyNot: {
        reason: "node leaves",
        object: `Node/${node}`,
        text: `${address} is assigned to a node that gives nothing: ${leaves}`,
        remedy: "take the sign back, or wait until it is assigned to another node",
      },
    };
  const refused = unready.find((entry) => entry.address === address && entry.egressIP.name === by.name);
  if (refused !== undefined)
    return {
      step: step(`cannot be given: ${refused.reason}`),
      whyNot: {
        reason: "cannot be given",
        object,
        text: `${address} cannot be given here: ${refused.reason}`,
        remedy: refused.contested
          ? `give ${by.name} an address that nobody has`
          : "put right what that says, or assign it to another node",
      },
    };
  const unknown = nodes.has(node) ? "" : ", which is no Node among the objects";
  return {
    step: step(`${node} gives it${unknown}`),
    whyNot: {
      reason: "assigned elsewhere",
      object,
      text: `${address} is for ${node} to give${unknown}; this is ${settings.node}`,
      remedy: `ask there how its packets go on: egressip-agent explain, on ${node}`,
    },
  };
}
