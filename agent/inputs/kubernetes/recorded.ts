// Objects as a folder that `--manifests` reads: an incident becomes a test. In: raw objects. Out: YAML as kubectl prints it, with the
// fields that the agent reads, wrong ones as they are, and none of the others. Pure.
import { stringify } from "yaml";
import {
  CLOUD_KEY,
  HOST_CIDRS_KEY,
  PRIMARY_KEY,
  SECONDARY_KEY,
  SUBNETS_KEY,
  TRANSIT_KEY,
  ZONE_KEY,
} from "../../model/kinds/node.ts";
import { POD_NETWORKS_KEY } from "../../model/kinds/pod.ts";
import { byCodeUnit } from "../../model/names.ts";
import { isObject, type Raw } from "../../model/raw.ts";
import { type Kind, named, RESOURCES } from "./kinds.ts";

interface Fields {
  readonly annotations?: readonly string[];
  readonly spec?: readonly string[];
  readonly status?: readonly string[];
}

const FIELDS: Readonly<Record<Kind, Fields>> = {
  EgressIP: { spec: ["egressIPs", "namespaceSelector", "podSelector", "trafficSelector"], status: ["items"] },
  Node: {
    annotations: [
      ...[HOST_CIDRS_KEY, SECONDARY_KEY, PRIMARY_KEY, ZONE_KEY, TRANSIT_KEY],
      ...[SUBNETS_KEY, CLOUD_KEY],
    ],
    spec: ["taints"],
    status: ["addresses"],
  },
  Namespace: {},
  Pod: {
    annotations: [POD_NETWORKS_KEY],
    spec: ["nodeName", "hostNetwork"],
    status: ["phase", "podIPs", "podIP"],
  },
};

const METADATA = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "labels"];

/** What the agent reads of it; nothing else leaves the cluster. */
export function cutDown(kind: Kind, raw: Raw): Raw {
  const { apiVersion, metadata, spec, status } = named(kind, raw);
  const fields = FIELDS[kind];
  const annotations = picked(isObject(metadata) ? metadata["annotations"] : undefined, fields.annotations);
  return {
    apiVersion,
    kind,
    metadata: { ...(picked(metadata, METADATA) as Raw | undefined), ...when("annotations", annotations) },
    ...when("spec", picked(spec, fields.spec)),
    ...when("status", picked(status, fields.status)),
  };
}

function picked(value: unknown, keys: readonly string[] = []): unknown {
  if (!isObject(value)) return keys.length === 0 ? undefined : value;
  const found = keys.filter((key) => value[key] !== undefined).map((key) => [key, value[key]]);
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

function when(key: string, value: unknown): Raw {
  return value === undefined ? {} : { [key]: value };
}

/** A file for each kind, as `kubectl get PLURAL -A -o yaml` prints it; by key, so that the same objects are the same text. */
export function filesOf(objects: ReadonlyMap<Kind, ReadonlyMap<string, Raw>>): ReadonlyMap<string, string> {
  return new Map(
    [...objects].map(([kind, byKey]) => {
      const items = [...byKey].sort(([a], [b]) => byCodeUnit(a, b)).map(([, raw]) => raw);
      const list = { apiVersion: "v1", items, kind: "List", metadata: { resourceVersion: "" } };
      return [`${RESOURCES[kind].plural}.yaml`, printed(list)];
    }),
  );
}

function printed(value: unknown): string {
  return stringify(value, {
    sortMapEntries: true,
    indentSeq: false,
    lineWidth: 0,
    aliasDuplicateObjects: false,
    // kubectl's printer quotes what YAML 1.1 would not read as text.
    compat: "yaml-1.1",
  });
}
