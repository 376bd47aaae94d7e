// Kubernetes objects as the one agent that assigns needs them. In: parsed JSON or YAML. Out: a frozen object and Problems. Pure.
// Never throws, as model/decode.ts, whose rules these are.
import { type Meta, metaOf } from "../model/kinds/meta.ts";
import type { Problem } from "../model/objects.ts";
import { describe, isObject, type Raw, type Report } from "../model/raw.ts";
import { decodeDemand } from "./kinds/egressip.ts";
import { decodeIpam, type Ipam } from "./kinds/egressipam.ts";
import { decodeSpace } from "./kinds/namespace.ts";
import { decodeMember } from "./kinds/node.ts";
import type { Demand, Member, Space } from "./objects.ts";

export type AssignObject = Demand | Ipam | Member | Space;

type Decoder = (raw: Raw, meta: Meta, report: Report) => AssignObject | undefined;

const kinds: ReadonlyMap<string, { readonly version: string; readonly decoder: Decoder }> = new Map<
  string,
  { readonly version: string; readonly decoder: Decoder }
>([
  ["EgressIP", { version: "k8s.ovn.org/v1", decoder: decodeDemand }],
  ["EgressIPAM", { version: "redhatcop.redhat.io/v1alpha1", decoder: decodeIpam }],
  ["Node", { version: "v1", decoder: decodeMember }],
  ["Namespace", { version: "v1", decoder: decodeSpace }],
]);

export interface AssignDecoded {
  readonly object?: AssignObject;
  readonly problems: readonly Problem[];
}

export function decodeForAssign(raw: unknown, origin: string): AssignDecoded {
  const problems: Problem[] = [];
  let subject = origin;
  const report: Report = (path, text) => problems.push({ object: subject, path, text });
  if (!isObject(raw)) {
    report("", `must be an object, not ${describe(raw)}`);
    return { problems };
  }
  const { kind, apiVersion, metadata } = raw;
  const known = typeof kind === "string" ? kinds.get(kind) : undefined;
  if (known === undefined || known.version !== apiVersion) return { problems };
  const meta = metaOf(metadata, kind as AssignObject["kind"], report);
  if (meta === undefined) return { problems };
  subject = `${String(kind)}/${meta.name}`;
  const object = known.decoder(raw, meta, report);
  return object === undefined ? { problems } : { object: Object.freeze(object), problems };
}
