// A cluster of any size for the northbound part of the bench: as objects in memory, for what is measured is the database's side.
// In: a number of pods, each with one NAT and one policy row. Out: objects of one node's agent.
import type { Objects } from "../../agent/model/build.ts";
import type { Pod } from "../../agent/model/objects.ts";
import { keyOf } from "../../agent/model/objects.ts";
import { withEntries } from "../../agent/model/shards.ts";
import { egressIP, namespace, node1, objects, pod } from "../agent/make.ts";

const TEAMS = 64;

/** Egress IPs of the node's primary network, one a team; pods of 10.244.0.0/16. */
export function cluster(pods: number): Objects {
  const teams = Array.from({ length: TEAMS }, (_, team) => team);
  return objects(
    { ...node1, zone: "node1" },
    ...teams.map((team) => namespace(`team-${team}`, { team: `t${team}` })),
    ...teams.map((team) =>
      egressIP(`team-${team}`, {
        at: { [`172.18.0.${50 + team}`]: "node1" },
        namespaceSelector: [{ key: "team", operator: "In", values: [`t${team}`] }],
      }),
    ),
    ...Array.from({ length: pods }, (_, index) => podOf(index)),
  );
}

export function withPod(objectsBefore: Objects, index: number): Objects {
  const more = podOf(index);
  return { ...objectsBefore, pods: withEntries(objectsBefore.pods, [[keyOf(more), more]]) };
}

function podOf(index: number): Pod {
  const address = `10.244.${2 + Math.floor(index / 250)}.${2 + (index % 250)}`;
  return pod(`team-${index % TEAMS}/pod-${index}`, [address]);
}
