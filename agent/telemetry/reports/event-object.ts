// An event as the API has it. In: whose, on which node, what is said, when. Out: name, body and patch of a core/v1 Event. Pure.
// core/v1, not events.k8s.io/v1: there a series cannot change its words, and here one object for each EgressIP, node and reason is
// patched instead of one more made each time; its count is what `kubectl describe` of every version prints. Both are the same
// objects in the server.
import { createHash } from "node:crypto";
import type { EgressIP } from "../../model/objects.ts";
import type { Reason, Said } from "./events.ts";

/** Of an object without a namespace, events are in this one: the server takes no other. */
export const EVENTS = "/api/v1/namespaces/default/events";

const COMPONENT = "egressip-agent";

/** The same in every process, so that one that starts again goes on with what the last one left. */
export function eventName({ name, uid }: EgressIP, node: string, reason: Reason): string {
  const hash = createHash("sha256").update([name, uid, node, reason].join("\n")).digest("hex").slice(0, 16);
  return `${name.slice(0, 200).replace(/[-.]+$/, "")}.${hash}`;
}

export function eventBody(egressIP: EgressIP, node: string, said: Said, at: Date): object {
  const { name, uid } = egressIP;
  const time = timestamp(at);
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: eventName(egressIP, node, said.reason), namespace: "default" },
    // kubectl describe asks for events by the uid as well.
    involvedObject: { apiVersion: "k8s.ovn.org/v1", kind: "EgressIP", name, ...(uid === "" ? {} : { uid }) },
    reason: said.reason,
    type: said.type,
    message: said.text,
    source: { component: COMPONENT, host: node },
    reportingComponent: COMPONENT,
    reportingInstance: node,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  };
}

export function eventPatch({ type, text }: Said, count: number, at: Date): object {
  return { type, message: text, count, lastTimestamp: timestamp(at) };
}

/** metav1.Time has whole seconds. */
const timestamp = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`;
