// The host path: pods reach the kernel through the management port and leave with their egress IP. Pure.
// One set lookup and one mark rule whatever the number of pods; the README begins with the picture.

import type { Cidr } from "../../model/ip.ts";
import { lastOf } from "../../model/memo.ts";
import { ownPodNetworks } from "../../model/pod-networks.ts";
import { isEmpty } from "../../model/shards.ts";
import type { Held, Snapshot } from "../../model/snapshot.ts";
import { forwardingPath } from "../../model/sysctls.ts";
import { isAlone } from "../../model/zone.ts";
import { nothing, type Plan } from "../plan.ts";
import { adoptFor } from "./adopt.ts";
import { annotationOf } from "./annotation.ts";
import { guardRules } from "./guard.ts";
import { leakGuard } from "./leak-guard.ts";
import { routesOf, rulesOf } from "./link-tables.ts";
import { markRules } from "./mark.ts";
import { exemptSetsOf, servedEntries, withKept } from "./sets.ts";
import { snatRules } from "./snat.ts";

/** What of a Plan is this host's own. */
export type HostPath = Omit<Plan, "northbound">;

/** `through` says which held egress IPs use the host path in this mode. */
export function createHostPath(through: (held: Held) => boolean): (snapshot: Snapshot) => HostPath {
  const heldHere = lastOf((held: readonly Held[]) => Object.freeze(held.filter(through)));
  const entriesOf = servedEntries();
  const keeping = lastOf(withKept);
  const setsOf = lastOf((exempt: Snapshot["exempt"], served: Plan["sets"]["served"]) =>
    Object.freeze({ ...exemptSetsOf(exempt), served }),
  );
  const iptablesOf = lastOf(
    (settings: Snapshot["settings"], held: readonly Held[], layout: Snapshot["layout"]) => {
      const familyOf = (family: 4 | 6) => {
        const parts = [
          guardRules(settings, layout, held, family),
          snatRules(settings, layout, held, family),
          markRules(settings, layout, family),
        ];
        return Object.freeze({
          chains: parts.flatMap(({ below = [], chain }) => [...below, chain]),
          jumps: parts.map(({ jump }) => jump),
        });
      };
      return Object.freeze({ 4: familyOf(4), 6: familyOf(6) });
    },
  );
  const leakGuardOf = lastOf(leakGuard);
  const ownPodsOf = lastOf(ownPodNetworks);
  const routes = lastOf(routesOf);
  const rules = lastOf(rulesOf);
  const marks = lastOf((held: readonly Held[], mask: number) =>
    Object.freeze(held.map(({ family, mark }) => ({ family, mark, mask }))),
  );
  const addresses = lastOf(
    (held: readonly Held[], all: readonly Held[], notHeld: Snapshot["notHeld"], isCloud: boolean) =>
      Object.freeze({
        hold: held.map(({ link, address, family, linkUp }) => ({ link, address, family, addable: linkUp })),
        notHeld,
        inTurn: new Set(all.flatMap((entry) => (held.includes(entry) ? [] : [entry.address]))),
        asks: !isCloud,
      }),
  );
  const annotation = lastOf(annotationOf);
  const sysctls = lastOf(sysctlsOf);
  const reference = lastOf(adoptFor);

  return (snapshot) => {
    const { settings, layout } = snapshot;
    const held = heldHere(snapshot.held);
    const served = keeping(
      settings,
      held,
      layout.mask,
      entriesOf(settings, held, snapshot.served.claims, layout.mask),
      snapshot.kept,
    );
    const node = snapshot.nodes.get(settings.node);
    const always = {
      addresses: addresses(held, snapshot.held, snapshot.notHeld, node?.cloud ?? false),
      annotation: annotation(node, snapshot.held, snapshot.notHeld, snapshot.host.record, settings.adopt),
      reference: reference(settings, held, layout.mask, node),
    };
    const idle = held.length === 0 && isEmpty(served[4]) && isEmpty(served[6]);
    // What OVN's flows still lead here a moment after its rows do not is a selected pod's all the same.
    const { state, topology } = snapshot.host.northbound;
    const isShared = state !== "off" && !isAlone(settings.node, snapshot.nodes, topology);
    const guard = () =>
      leakGuardOf(
        settings,
        held,
        isShared ? ownPodsOf(settings.node, snapshot.nodes, topology) : NO_NETWORKS,
      );
    if (idle) return { ...NOTHING_HERE, ...always, leakGuard: state === "off" ? "" : guard() };
    return {
      sysctls: sysctls(settings, held),
      sets: setsOf(snapshot.exempt, served),
      routes: routes(settings.managementPort, held, snapshot.host.network),
      rules: rules(layout, held, snapshot.host.network),
      leakGuard: guard(),
      iptables: iptablesOf(settings, held, layout),
      marks: marks(held, layout.mask),
      cutUnmarked: settings.existingConnections === "cut",
      ...always,
    };
  };
}

const { northbound: _, ...NOTHING_HERE } = nothing;

const NO_NETWORKS: readonly Cidr[] = Object.freeze([]);

/**
 * Replies come in by a link that is not main's way to the sender. `src_valid_mark` lets the reverse path look-up use the
 * restored mark; loose filtering on the management port is what the reference sets too (section D, H9).
 */
function sysctlsOf(settings: Snapshot["settings"], held: readonly Held[]): Plan["sysctls"] {
  const wanted: Record<string, string> = {};
  if (held.some(({ family }) => family === 4)) {
    wanted["net/ipv4/conf/all/src_valid_mark"] = "1";
    wanted[`net/ipv4/conf/${settings.managementPort}/rp_filter`] = "2";
  }
  if (settings.manageForwarding) {
    // Not for IPv6: there it is one switch for the whole host, which stops listening to router advertisements with it.
    for (const { family, link } of held) if (family === 4) wanted[forwardingPath(4, link)] = "1";
  }
  return Object.freeze(wanted);
}
