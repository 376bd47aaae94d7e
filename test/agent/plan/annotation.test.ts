// The annotation k8s.ovn.org/secondary-host-egress-ips: ours as they are held, others' as they are, nothing that is over.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../agent/model/build.ts";
import { type IntentRecord, NOTHING_RECORDED } from "../../../agent/model/facts.ts";
import type { GatewayMode } from "../../../agent/model/settings.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { bareHost, egressIP, node, node1, node2, objects, settings } from "../make.ts";

interface Given {
  /** EgressIP addresses to the node they are assigned to. */
  readonly at?: Readonly<Record<string, string>>;
  /** What the Node object says. */
  readonly says?: readonly string[];
  readonly record?: IntentRecord;
  readonly mode?: GatewayMode;
}

function annotation({ at = {}, says = [], record = NOTHING_RECORDED, mode = "local" }: Given) {
  const own = node("node1", { ...node1, secondaryEgressIPs: says });
  const of = { ...settings, gatewayMode: mode };
  const all = objects(own, node2, ...(Object.keys(at).length > 0 ? [egressIP("prod", { at })] : []));
  return createMode(mode).plan(createBuild()(of, all, { ...bareHost, record })).annotation;
}

const recorded = (...addresses: readonly string[]): IntentRecord => ({
  addresses: addresses.map((address) => ({ link: "eth1", address })),
  sysctls: {},
});

const here = { "fd00:10:10::50": "node1", "10.10.10.100": "node1", "10.10.10.50": "node1" };

describe("annotation", () => {
  it.each(["local", "shared"] as const)(
    "lists what is held on another link, sorted, and not the primary ones (%s)",
    (mode) => {
      const given = {
        mode,
        at: { ...here, "172.18.0.50": "node1", "10.10.10.60": "node2", "192.0.2.9": "node1" },
      };
      const listed = ["10.10.10.50", "10.10.10.100", "fd00:10:10::50"];
      expect(annotation(given)).toEqual({ listed, withdrawn: [] });
      // Once it is written, and recorded, it is the same.
      expect(annotation({ ...given, says: listed, record: recorded(...listed) })).toEqual({
        listed,
        withdrawn: [],
      });
    },
  );

  it("says nothing where there is nothing", () => {
    expect(annotation({})).toEqual({ listed: [], withdrawn: [] });
  });

  it("leaves the entries of others, with egress IPs of ours and without", () => {
    const says = ["10.10.10.77", "fd00:10:10::77"];
    expect(annotation({ says })).toEqual({ listed: says, withdrawn: [] });
    expect(annotation({ says, at: here }).listed).toEqual([
      "10.10.10.50",
      "10.10.10.77",
      "10.10.10.100",
      "fd00:10:10::50",
      "fd00:10:10::77",
    ]);
  });

  it("takes out what we put there and hold no longer, until the Node object does not say it any more", () => {
    const says = ["10.10.10.50", "10.10.10.77"];
    const taken = { listed: ["10.10.10.77"], withdrawn: ["10.10.10.50"] };
    expect(annotation({ says, record: recorded("10.10.10.50") })).toEqual(taken);
    // The address is gone, and its record with it.
    expect(
      annotation({ says, record: { ...NOTHING_RECORDED, withdrawnEgressIPs: ["10.10.10.50"] } }),
    ).toEqual(taken);
    expect(
      annotation({
        says: ["10.10.10.77"],
        record: { ...NOTHING_RECORDED, withdrawnEgressIPs: ["10.10.10.50"] },
      }),
    ).toEqual({
      listed: ["10.10.10.77"],
      withdrawn: [],
    });
  });

  it("lists what was taken out when it is held again", () => {
    const record = { ...NOTHING_RECORDED, withdrawnEgressIPs: ["10.10.10.50"] };
    expect(annotation({ says: ["10.10.10.50"], at: { "10.10.10.50": "node1" }, record })).toEqual({
      listed: ["10.10.10.50"],
      withdrawn: [],
    });
  });

  it("takes out an egress IP that is another node's, or primary here, whoever put it there", () => {
    const at = { "10.10.10.50": "node2", "172.18.0.50": "node1" };
    expect(annotation({ says: ["10.10.10.50", "172.18.0.50"], at })).toEqual({
      listed: [],
      withdrawn: ["10.10.10.50"],
    });
  });
});
