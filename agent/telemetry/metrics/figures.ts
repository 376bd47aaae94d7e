// How things are at this moment, as series: made anew for each scrape, so what is gone is gone. In: the last round, and what the parts
// say of themselves. Out: samples. Pure. What is not known is missing, never 0.
import type { KubernetesTold } from "../../assemble-kubernetes.ts";
import type { NorthboundTold } from "../../assemble-northbound.ts";
import type { Round } from "../../loop.ts";
import type { HostFacts } from "../../model/facts.ts";
import { isOurChain, isOurSet, ROUTE_PROTOCOL } from "../../model/owner.ts";
import { sizeOf } from "../../model/shards.ts";
import type { Contention } from "../../sync/contention.ts";
import type { Counters } from "../counters.ts";
import { METRICS, type Sample, sample, seriesOf } from "./definitions.ts";
import { problemKind, problemReason } from "./problem-reasons.ts";

export interface Moment {
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly ready: boolean;
  readonly round: Round | undefined;
  readonly contention: ReturnType<Contention["list"]>;
  readonly northbound: NorthboundTold | undefined;
  readonly kubernetes: KubernetesTold | undefined;
  /** What the kernel has counted; undefined where that could not be read. */
  readonly counters: Pick<Counters, "dropped" | "connections"> | undefined;
  readonly duplicateClaims: Counters["duplicateClaims"];
  /** Processes started so far, by tool. */
  readonly tools: Readonly<Record<string, number>>;
}

export function figuresOf(moment: Moment): readonly Sample[] {
  const { round, contention, tools } = moment;
  return [
    sample("egressip_agent_ready", Number(moment.ready), {}),
    ...(round === undefined ? [] : ofRound(round)),
    ...tallied(
      "egressip_agent_contention",
      contention.map(({ backend }) => ({ backend })),
    ),
    ...(moment.kubernetes === undefined ? [] : ofKubernetes(moment.kubernetes, moment.now)),
    ...(moment.northbound === undefined ? [] : ofNorthbound(moment.northbound, moment.now)),
    ...ofCounters(moment.counters),
    ...byEgressIP("egressip_agent_duplicate_claims_total", moment.duplicateClaims),
    ...Object.entries(tools).map(([tool, started]) =>
      sample("egressip_agent_tools_started_total", started, { tool }),
    ),
  ];
}

function ofRound({ snapshot, outcome }: Round): readonly Sample[] {
  const { held, unready, served, problems } = snapshot;
  const each = new Map<string, Sample>();
  const note = (serving: number, address: string, object: string) =>
    each.set(
      `${address} ${object}`,
      sample("egressip_agent_egress_ip_serving", serving, { egress_ip: address, object }),
    );
  for (const { address, egressIP } of unready) note(0, address, egressIP.name);
  for (const { address, egressIP } of held) note(1, address, egressIP.name);
  return [
    sample("egressip_agent_egress_ips", held.length, { state: "serving" }),
    sample("egressip_agent_egress_ips", unready.length, { state: "unready" }),
    ...each.values(),
    sample("egressip_agent_selected_addresses", sizeOf(served.claims), {}),
    sample("egressip_agent_rivals", outcome.facts.rivals.length, {}),
    ...ownedObjects(outcome.facts),
    ...tallied(
      "egressip_agent_problems",
      problems.map((problem) => ({ kind: problemKind(problem), reason: problemReason(problem, snapshot) })),
    ),
  ];
}

function ownedObjects({ record, sets, network, iptables, nft }: HostFacts): readonly Sample[] {
  const chains = [iptables[4], iptables[6]].flatMap((ruleset) =>
    [...ruleset].flatMap(([table, found]) => [...found].filter(([chain]) => isOurChain(table, chain))),
  );
  const total = (sizes: readonly number[]) => sizes.reduce((sum, size) => sum + size, 0);
  const ours = ({ protocol }: { readonly protocol: string }) => protocol === ROUTE_PROTOCOL;
  const entries = [...sets].filter(([name]) => isOurSet(name)).map(([, { members }]) => sizeOf(members));
  const counted = {
    address: record.addresses.length,
    set_entry: total(entries),
    route: network.routes.filter(ours).length,
    rule: network.rules.filter(ours).length,
    iptables_rule: total(chains.map(([, { rules }]) => rules.length)),
    nft_table: nft === "" ? 0 : 1,
    sysctl: Object.keys(record.sysctls).length,
  } as const;
  return Object.entries(counted).map(([kind, size]) =>
    sample("egressip_agent_owned_objects", size, { kind: kind as keyof typeof counted }),
  );
}

function ofKubernetes({ kinds, unconfirmed }: KubernetesTold, now: number): readonly Sample[] {
  return [
    ...kinds.flatMap(({ kind, state, silentSeconds }) => [
      ...METRICS.egressip_agent_kubernetes_state.labels.state.map((one) =>
        sample("egressip_agent_kubernetes_state", Number(one === state), { kind, state: one }),
      ),
      ...(silentSeconds === null
        ? []
        : [sample("egressip_agent_kubernetes_silent_seconds", silentSeconds, { kind })]),
    ]),
    sample("egressip_agent_kubernetes_unconfirmed_seconds", secondsSince(unconfirmed?.since, now), {}),
  ];
}

function ofNorthbound({ state, since, rows }: NorthboundTold, now: number): readonly Sample[] {
  return [
    // Of a database that is not followed it is not known what is there.
    ...(state === "stale" ? [] : [sample("egressip_agent_owned_objects", rows, { kind: "northbound_row" })]),
    ...METRICS.egressip_agent_northbound_state.labels.state.map((one) =>
      sample("egressip_agent_northbound_state", Number(one === state), { state: one }),
    ),
    sample(
      "egressip_agent_northbound_stale_seconds",
      secondsSince(state === "current" ? undefined : since, now),
      {},
    ),
  ];
}

function ofCounters(counters: Moment["counters"]): readonly Sample[] {
  const readable = sample("egressip_agent_counters_readable", Number(counters !== undefined), {});
  if (counters === undefined) return [readable];
  const { otherLink, unready, untranslated, unclaimed } = counters.dropped;
  const dropped = { other_link: otherLink, unready, untranslated, unclaimed } as const;
  return [
    readable,
    ...Object.entries(dropped).map(([guard, packets]) =>
      sample("egressip_agent_guard_dropped_packets_total", packets, { guard: guard as keyof typeof dropped }),
    ),
    ...byEgressIP("egressip_agent_connections_total", counters.connections),
  ];
}

function byEgressIP(
  name: "egressip_agent_connections_total" | "egressip_agent_duplicate_claims_total",
  counted: Readonly<Record<string, number>>,
): readonly Sample[] {
  return Object.entries(counted).map(([address, times]) => sample(name, times, { egress_ip: address }));
}

/** How often each combination is there, also where it is not. */
function tallied(
  name: "egressip_agent_contention" | "egressip_agent_problems",
  found: readonly Readonly<Record<string, string>>[],
): readonly Sample[] {
  return seriesOf(name).map((labels) => ({
    name,
    labels,
    value: found.filter((of) => Object.keys(labels).every((label) => of[label] === labels[label])).length,
  }));
}

function secondsSince(since: string | undefined, now: number): number {
  return since === undefined ? 0 : Math.max(0, (now - Date.parse(since)) / 1000);
}
