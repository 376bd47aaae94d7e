// Kubernetes objects as the one agent that assigns needs them: which kinds, and how. In: parsed JSON or YAML. Out: as model/decode.ts,
// whose rules these are. Pure.
import { type Decoded, decodeAs, type KnownKind } from "../model/decode.ts";
import { decodeDemand } from "./kinds/egressip.ts";
import { decodeIpam, type Ipam } from "./kinds/egressipam.ts";
import { decodeSpace } from "./kinds/namespace.ts";
import { decodeMember } from "./kinds/node.ts";
import type { Demand, Member, Space } from "./objects.ts";

export type AssignObject = Demand | Ipam | Member | Space;

const kinds = new Map<string, KnownKind<AssignObject>>([
  ["EgressIP", { kind: "EgressIP", version: "k8s.ovn.org/v1", decoder: decodeDemand }],
  ["EgressIPAM", { kind: "EgressIPAM", version: "redhatcop.redhat.io/v1alpha1", decoder: decodeIpam }],
  ["Node", { kind: "Node", version: "v1", decoder: decodeMember }],
  ["Namespace", { kind: "Namespace", version: "v1", decoder: decodeSpace }],
]);

export function decodeForAssign(raw: unknown, origin: string): Decoded<AssignObject> {
  return decodeAs(kinds, raw, origin);
}
