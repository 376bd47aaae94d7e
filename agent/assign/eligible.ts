// Which nodes may get egress IPs: labelled, Ready, reachable, and neither leaving nor without a pod network of OVN's. Pure.
// In: nodes, and whom the probes do not reach. Out: those nodes by name, in the order of names.
import { byCodeUnit } from "../model/names.ts";
import type { Member } from "./objects.ts";

export function eligibleNodes(
  members: Iterable<Member>,
  unreachable: ReadonlySet<string>,
): ReadonlyMap<string, Member> {
  return new Map(
    [...members]
      .filter((member) => whyNot(member, unreachable) === undefined)
      .sort((a, b) => byCodeUnit(a.name, b.name))
      .map((member) => [member.name, member]),
  );
}

/** Why a node gets nothing, in words; undefined where it may. */
function whyNot({ name, node, ready, labels }: Member, unreachable: ReadonlySet<string>) {
  // Hybrid overlay: OVN-Kubernetes has no pod network there, so nothing is led to it.
  if (labels["kubernetes.io/os"] === "windows") return "it is a Windows node";
  if (!node.assignable) return "it has no label k8s.ovn.org/egress-assignable";
  if (!ready) return "it is not Ready";
  if (node.leaving !== "") return `it is being taken out: ${node.leaving}`;
  if (unreachable.has(name)) return "probes do not reach it";
  if (node.primary.length === 0) return "its primary network is not known";
  return undefined;
}
