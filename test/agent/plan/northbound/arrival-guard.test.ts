// The policy that drops what arrives from other zones and that nobody here gives an egress IP: where it is, and whom it lets pass.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../../agent/model/build.ts";
import type { Settings } from "../../../../agent/model/settings.ts";
import { entriesOf } from "../../../../agent/model/shards.ts";
import { createMode } from "../../../../agent/plan/modes.ts";
import { factsOf, type Layout, labNodes } from "../../../support/northbound-scene.ts";
import { egressIP, namespace, objects, pod, settings } from "../../make.ts";

interface Case {
  readonly layout?: Layout;
  readonly of?: Partial<Settings>;
  /** Where the egress IP is assigned, node1 by default. */
  readonly at?: string;
  readonly address?: string;
  readonly transitPort?: string;
}

function planned({
  layout = "zones",
  of = {},
  at = "node1",
  address = "172.18.0.50",
  transitPort,
}: Case = {}) {
  const all = objects(
    ...labNodes(layout === "central" ? { zone: "global" } : {}),
    namespace("shop"),
    pod("shop/here", ["10.244.1.3"]),
    pod("shop/there", ["10.244.2.3", "fd00:10:244:2::3"], { node: "node2" }),
    egressIP("prod", { at: { [address]: at } }),
  );
  const told = { ...settings, gatewayMode: "shared", ...of } as const;
  const facts = factsOf("node1", layout, transitPort === undefined ? {} : { transitPort });
  const { northbound } = createMode(told.gatewayMode).plan(createBuild()(told, all, facts));
  return {
    guards: northbound.shared
      .filter(
        ({ on, columns }) =>
          on.includes("ovn_cluster_router") && [99, 98].includes(columns["priority"] as number),
      )
      .map(({ columns }) => `${columns["priority"]} ${columns["match"]} ${columns["action"]}`),
    arriving: [...entriesOf(northbound.arriving)].map(([one]) => one),
  };
}

describe("the guard of arrivals", () => {
  it("lets the members of its set pass and drops the rest of each pod network, never by what is not in the set", () => {
    const { guards } = planned();
    expect(guards).toEqual([
      expect.stringMatching(/^99 inport == "rtots-node1" && ip4.src == \$a\d+ allow$/),
      '98 inport == "rtots-node1" && ip4.src == 10.244.0.0/16 drop',
      expect.stringMatching(/^99 inport == "rtots-node1" && ip6.src == \$a\d+ allow$/),
      '98 inport == "rtots-node1" && ip6.src == fd00:10:244::/48 drop',
    ]);
  });

  it("lets those pass that the own gateway router translates: of other zones, and of the egress IP's family", () => {
    expect(planned().arriving).toEqual(["10.244.2.3"]);
  });

  it("lets nobody pass whose egress IP is elsewhere, or leaves through the kernel, to which a policy leads", () => {
    expect(planned({ at: "node2" }).arriving).toEqual([]);
    expect(planned({ address: "10.10.10.50" }).arriving).toEqual([]);
    expect(planned({ of: { gatewayMode: "local" } }).arriving).toEqual([]);
  });

  it("is there in local gateway mode too", () => {
    expect(planned({ of: { gatewayMode: "local" } }).guards).toHaveLength(4);
  });

  it("is not where there is no port to other zones, or pods may leave as their node", () => {
    const none = { guards: [], arriving: [] };
    expect(planned({ layout: "central" }).guards).toEqual([]);
    expect(planned({ transitPort: "" })).toEqual(none);
    expect(planned({ of: { whenUnready: "node-ip" } })).toEqual(none);
  });
});
