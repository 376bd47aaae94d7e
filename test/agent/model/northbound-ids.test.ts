// Names and ids of rows: the reference's vectors (B.1, B.2), and what is ours beside them.
import { describe, expect, it } from "vitest";
import {
  addressSet,
  egressServiceSet,
  natIds,
  podRowName,
  policyIds,
  REFERENCE_OWNER,
  routeIds,
} from "../../../agent/model/northbound-ids.ts";
import { locksOf } from "../../../agent/model/northbound-locks.ts";

describe("names of sets", () => {
  it.each([
    [addressSet(REFERENCE_OWNER, "node-ips", 4), "a712973235162149816"],
    [addressSet(REFERENCE_OWNER, "node-ips", 6), "a1091196985512978262"],
    [addressSet(REFERENCE_OWNER, "egressip-served-pods", 4), "a8519615025667110816"],
    [addressSet(REFERENCE_OWNER, "egressip-served-pods", 6), "a3735740021425387998"],
    [egressServiceSet(4), "a13607449821398607916"],
    [egressServiceSet(6), "a13607452020421864338"],
  ])("%j", (set, name) => {
    expect(set.name).toBe(name);
  });

  it("are made from their owner, but for the other feature's", () => {
    expect(addressSet("egressip-agent", "node-ips", 4).name).not.toBe("a712973235162149816");
    expect(addressSet(REFERENCE_OWNER, "node-ips", 4).ids).toEqual({
      "k8s.ovn.org/id": "default-network-controller:EgressIP:node-ips:v4:default",
      "k8s.ovn.org/name": "node-ips",
      "k8s.ovn.org/owner-controller": "default-network-controller",
      "k8s.ovn.org/owner-type": "EgressIP",
      "ip-family": "v4",
      network: "default",
    });
  });
});

describe("ids", () => {
  const name = podRowName("egressip-prod", { namespace: "web", name: "pod-1" });

  it("of a policy hold priority, name, family and network", () => {
    expect(policyIds({ owner: REFERENCE_OWNER, node: "node1" }, 100, name, "ip4")).toEqual({
      "k8s.ovn.org/id": "default-network-controller:EgressIP:100:egressip-prod_web/pod-1:ip4:default",
      "k8s.ovn.org/name": "egressip-prod_web/pod-1",
      "k8s.ovn.org/owner-controller": "default-network-controller",
      "k8s.ovn.org/owner-type": "EgressIP",
      "egressip-agent/node": "node1",
      "ip-family": "ip4",
      network: "default",
      priority: "100",
    });
  });

  it("of a NAT row hold name and family, and no network", () => {
    expect(natIds({ owner: REFERENCE_OWNER }, name, "ip6")).toEqual({
      "k8s.ovn.org/id": "default-network-controller:EgressIP:egressip-prod_web/pod-1:ip6",
      "k8s.ovn.org/name": "egressip-prod_web/pod-1",
      "k8s.ovn.org/owner-controller": "default-network-controller",
      "k8s.ovn.org/owner-type": "EgressIP",
      "ip-family": "ip6",
    });
  });

  it("of a route say whose it is and nothing else", () => {
    expect(routeIds({ owner: "egressip-agent" })).toEqual({
      "k8s.ovn.org/owner-controller": "egressip-agent",
      "k8s.ovn.org/owner-type": "EgressIP",
    });
  });
});

describe("names of locks", () => {
  const names = [
    "node1",
    "node-1",
    "node.1",
    "node_1",
    "node_2d_1",
    "ünode",
    "NODE1",
    "1",
    "node1.example.org",
  ];

  it("are ids of the protocol, whatever a node is called", () => {
    for (const name of names)
      for (const lock of ["egressip-agent", "1team"].flatMap((owner) => Object.values(locksOf(owner, name))))
        expect(lock).toMatch(/^[A-Za-z_][A-Za-z0-9_]*$/);
  });

  it("are different for different nodes and owners, and the zone's is no node's", () => {
    const locks = ["egressip-agent", "egressip_agent", REFERENCE_OWNER].flatMap((owner) =>
      names.flatMap((name) => locksOf(owner, name).node).concat(locksOf(owner, "any").zone),
    );
    expect(new Set(locks).size).toBe(locks.length);
    expect(locksOf("a", "b").zone).toBe(locksOf("a", "c").zone);
  });
});
