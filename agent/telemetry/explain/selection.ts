// Which EgressIP speaks for a pod and by which labels, which others lose, and where none does, why not. In: a Snapshot and a pod.
// Out: steps and reasons, each with what a person can do. Pure. One pod is looked at, when it is asked about: nothing is kept of it.
import { compareAddresses } from "../../model/ip.ts";
import type { EgressIP, Namespace, Pod } from "../../model/objects.ts";
import { matches, selectorText, type Unmet, unmet } from "../../model/select.ts";
import type { Snapshot } from "../../model/snapshot.ts";
import type { Step } from "../../trace-step.ts";
import type { WhyNot } from "./account.ts";

export interface Selection {
  /** The EgressIP that counts. */
  readonly by: EgressIP | undefined;
  readonly steps: readonly Step[];
  readonly whyNot: readonly WhyNot[];
}

export function selectionOf(snapshot: Snapshot, pod: Pod): Selection {
  const unfit = unfitness(snapshot, pod);
  if (unfit !== undefined) return { by: undefined, steps: [], whyNot: [unfit] };
  const namespace = snapshot.namespaces.get(pod.namespace);
  if (namespace === undefined) return { by: undefined, steps: [], whyNot: [unknownNamespace(pod)] };
  const selecting = snapshot.egressIPs.filter(
    ({ namespaceSelector, podSelector }) =>
      matches(namespaceSelector, namespace.labels) && matches(podSelector, pod.labels),
  );
  const [by, ...losing] = selecting;
  if (by === undefined) return notSelected(snapshot, pod, namespace);
  const step = (egressIP: EgressIP, verdict: string): Step => ({
    step: "selector",
    object: `EgressIP/${egressIP.name}`,
    found: `namespaces ${selectorText(egressIP.namespaceSelector)}; pods ${selectorText(egressIP.podSelector)}`,
    verdict,
  });
  return {
    by,
    steps: [
      step(by, losing.length === 0 ? "selects it" : "selects it, and comes first"),
      ...losing.map((other) => step(other, `selects it too, and loses: ${by.name} ${precedence(by, other)}`)),
    ],
    whyNot: [],
  };
}

/** By what one comes before the other (model/selection.ts, inOrder). */
function precedence(first: EgressIP, second: EgressIP): string {
  if (first.created !== second.created) return `is older (${first.created || "no creation time"})`;
  return first.uid === second.uid
    ? "has the name that comes first"
    : "is as old and has the UID that comes first";
}

/** What a pod is that no EgressIP can speak for. */
function unfitness(snapshot: Snapshot, pod: Pod): WhyNot | undefined {
  const object = podObject(pod);
  if (pod.hostNetwork)
    return {
      reason: "host network",
      object,
      text: "it is on the host's network: its packets are the node's own",
      remedy: "take spec.hostNetwork off the pod, if it is to have an egress IP",
    };
  if (pod.finished)
    return {
      reason: "finished",
      object,
      text: "it has ended: it has no address any more",
      remedy: "ask about a pod that runs",
    };
  if (pod.addresses.length === 0)
    return {
      reason: "no address",
      object,
      text: pod.running
        ? "it runs, and its status does not say its address for the moment: entries of addresses that nobody has stay as they are"
        : `it has no address yet${pod.node === "" ? ", and no node" : ""}`,
      remedy: `wait for status.podIPs: kubectl get pod -n ${pod.namespace} ${pod.name} -o wide`,
    };
  const taken = pod.addresses.find((address) => nodeOfAddress(snapshot, address) !== undefined);
  if (taken === undefined) return undefined;
  return {
    reason: "node's address",
    object,
    text: `${taken} is also an address of node ${nodeOfAddress(snapshot, taken)}, whose own packets must not be moved`,
    remedy: "it is on the host's network, or the address was given twice",
  };
}

export function nodeOfAddress({ nodes }: Pick<Snapshot, "nodes">, address: string): string | undefined {
  for (const { name, internalAddresses, hostCidrs } of nodes.values())
    if (internalAddresses.includes(address) || hostCidrs.some((cidr) => cidr.address === address))
      return name;
  return undefined;
}

function unknownNamespace({ namespace, ...pod }: Pod): WhyNot {
  return {
    reason: "namespace unknown",
    object: `Namespace/${namespace}`,
    text: `there is no Namespace ${namespace} among the objects, so nothing can be said of its labels`,
    remedy: `see that the source has the Namespace of ${namespace}/${pod.name}, and status says nothing against it`,
  };
}

/** An EgressIP that does not select the pod, and by what it misses it. */
interface Missed {
  readonly egressIP: EgressIP;
  readonly ofNamespace: readonly Unmet[];
  readonly ofPod: readonly Unmet[];
}

function notSelected(snapshot: Snapshot, pod: Pod, namespace: Namespace): Selection {
  const refused = refusedObjects(snapshot);
  const missed = snapshot.egressIPs
    .map((egressIP): Missed => {
      const ofNamespace = unmet(egressIP.namespaceSelector, namespace.labels);
      return { egressIP, ofNamespace, ofPod: unmet(egressIP.podSelector, pod.labels) };
    })
    .sort((a, b) => distance(a) - distance(b));
  const [nearest] = missed;
  if (nearest === undefined) {
    const none: WhyNot = {
      reason: "no EgressIP",
      object: podObject(pod),
      text: refused.length === 0 ? "there is no EgressIP at all" : "there is no EgressIP that could be read",
      remedy: "kubectl get egressips",
    };
    return { by: undefined, steps: [], whyNot: [none, ...refused] };
  }
  const { egressIP, ofNamespace, ofPod } = nearest;
  const object = `EgressIP/${egressIP.name}`;
  const whyNot: WhyNot = {
    reason: ofNamespace.length > 0 ? "namespace not selected" : "pod not selected",
    object,
    text: `no EgressIP selects it; nearest is ${egressIP.name}: ${[
      ...ofNamespace.map(
        (each) => `it asks for namespaces with ${each.asked}, ${namespace.name} has ${each.found}`,
      ),
      ...ofPod.map((each) => `it asks for pods with ${each.asked}, this one has ${each.found}`),
    ].join("; ")}`,
    remedy: [
      ...ofNamespace.map((each) => labelling(`namespace ${namespace.name}`, egressIP.name, each)),
      ...ofPod.map((each) => labelling(`pod -n ${pod.namespace} ${pod.name}`, egressIP.name, each)),
    ].join("; "),
  };
  const step: Step = {
    step: "selector",
    object,
    found: `namespaces ${selectorText(egressIP.namespaceSelector)}; pods ${selectorText(egressIP.podSelector)}`,
    verdict: "does not select it, and comes nearest",
  };
  return { by: undefined, steps: [step], whyNot: [whyNot, ...refused] };
}

/** A namespace that is not meant is further away than a pod that is not: it keeps out all that is in it. */
function distance({ ofNamespace, ofPod }: Missed): number {
  return ofNamespace.length * 1000 + ofPod.length;
}

function labelling(what: string, egressIP: string, { label }: Unmet): string {
  if (label !== undefined) return `kubectl label ${what} ${label}, if it is meant`;
  return `change the labels of ${what}, or the selector of ${egressIP}`;
}

/** EgressIPs that were left out as a whole: one of them may be the one that was to select it. */
function refusedObjects({ problems, egressIPs }: Snapshot): readonly WhyNot[] {
  const known = new Set(egressIPs.map(({ name }) => `EgressIP/${name}`));
  return problems
    .filter(({ object }) => object.startsWith("EgressIP/") && !known.has(object))
    .map(({ object, path, text }) => ({
      reason: "refused object",
      object,
      text: `${object.slice("EgressIP/".length)} was left out, whatever it selects: ${path === "" ? "" : `${path} `}${text}`,
      remedy: `put ${path === "" ? "it" : path} right: kubectl edit egressip ${object.slice("EgressIP/".length)}`,
    }));
}

export function podObject({ namespace, name }: Pick<Pod, "namespace" | "name">): string {
  return `Pod/${namespace}/${name}`;
}

/** In a line: where it is and what addresses it has. */
export function shownPod(pod: Pod): string {
  const addresses = [...pod.addresses].sort(compareAddresses);
  return `pod ${pod.namespace}/${pod.name} on ${pod.node || "no node yet"}${addresses.length === 0 ? "" : `, ${addresses.join(", ")}`}`;
}
