// For each alert what makes it fire, and what nearly does: series as promtool's rule tests take them, one value a minute.
// `nearly` has everything but what the alert is about.
export interface AlertCase {
  readonly fires: Readonly<Record<string, string>>;
  readonly nearly: Readonly<Record<string, string>>;
  /** Minutes after which it is looked at. */
  readonly at: number;
}

const node = 'job="egressip-agent",instance="node1"';
const other = 'job="egressip-agent",instance="node2"';
const of = (metric: string, labels = "", by = node) =>
  `egressip_agent_${metric}{${by}${labels === "" ? "" : `,${labels}`}}`;
const served = (by: string) => of("egress_ip_serving", 'egress_ip="10.10.10.50",object="web"', by);
const dropped = (guard: string) => of("guard_dropped_packets_total", `guard="${guard}"`);
/** Goes on for two hours; and for a while, then never again. */
const rising = "0+3x120";
const once = "0+3x3 9x117";

export const ALERT_CASES: Readonly<Record<string, AlertCase>> = {
  EgressIPOnTwoNodes: {
    fires: { [served(node)]: "1x5", [served(other)]: "1x5" },
    // One that cannot give it waits for the one that does.
    nearly: { [served(node)]: "1x5", [served(other)]: "0x2 _x3" },
    at: 3,
  },
  EgressIPAnsweredForByOthers: {
    fires: { [of("rivals")]: "1x5" },
    nearly: { [of("rivals")]: "0 1 0 1 0 1" },
    at: 4,
  },
  EgressIPLeakStopped: {
    fires: { [dropped("unclaimed")]: rising },
    nearly: { [dropped("untranslated")]: once },
    at: 20,
  },
  EgressIPPodsHeldBack: {
    fires: { [dropped("unready")]: rising },
    nearly: { [dropped("unready")]: once },
    at: 20,
  },
  EgressIPUnservable: {
    fires: { [served(node)]: "0x10" },
    nearly: { [served(node)]: "0 0 0 1 0 0 0" },
    at: 6,
  },
  EgressIPAgentDown: {
    fires: { [`up{${node}}`]: "0x10" },
    nearly: { [`up{job="other",instance="node1"}`]: "0x10" },
    at: 6,
  },
  EgressIPAgentNotReady: {
    fires: { [of("ready")]: "0x20" },
    nearly: { [of("ready")]: "0x8 1 0x8" },
    at: 12,
  },
  EgressIPAgentStalled: {
    fires: { [of("last_success_timestamp_seconds")]: "60x30" },
    nearly: { [of("last_success_timestamp_seconds")]: "0+60x30" },
    at: 25,
  },
  EgressIPAgentBackendFailing: {
    fires: { [of("backend_errors_total", 'backend="sets",phase="establish"')]: rising },
    nearly: { [of("backend_errors_total", 'backend="sets",phase="establish"')]: once },
    at: 20,
  },
  EgressIPAgentAPIServerStale: {
    fires: { [of("kubernetes_unconfirmed_seconds")]: "0+60x10" },
    nearly: { [of("kubernetes_unconfirmed_seconds")]: "0+60x4 0x10" },
    at: 8,
  },
  EgressIPAgentNorthboundStale: {
    fires: { [of("northbound_stale_seconds")]: "0+60x10" },
    nearly: { [of("northbound_stale_seconds")]: "0+60x1 0x10" },
    at: 5,
  },
  EgressIPAgentContention: {
    fires: { [of("contention", 'backend="iptables"')]: "1x10" },
    nearly: { [of("contention", 'backend="iptables"')]: "1 0 1 0 1 0 1" },
    at: 5,
  },
  EgressIPAgentDrift: {
    fires: { [of("drift_repaired_total", 'backend="routing",kind="put_back"')]: rising },
    nearly: { [of("drift_repaired_total", 'backend="routing",kind="put_back"')]: once },
    at: 90,
  },
  EgressIPAgentSlow: {
    fires: {
      [of("event_to_verified_seconds_bucket", 'cause="objects",le="5"')]: "0x60",
      [of("event_to_verified_seconds_bucket", 'cause="objects",le="10"')]: "0+5x60",
      [of("event_to_verified_seconds_bucket", 'cause="objects",le="+Inf"')]: "0+5x60",
    },
    nearly: {
      [of("event_to_verified_seconds_bucket", 'cause="reload",le="5"')]: "0x60",
      [of("event_to_verified_seconds_bucket", 'cause="reload",le="10"')]: "0+5x60",
      [of("event_to_verified_seconds_bucket", 'cause="reload",le="+Inf"')]: "0+5x60",
    },
    at: 40,
  },
  EgressIPAgentProblems: {
    fires: { [of("problems", 'kind="Pod",reason="invalid"')]: "2x30" },
    nearly: { [of("problems", 'kind="Node",reason="leaving"')]: "1x30" },
    at: 20,
  },
  EgressIPAgentAnnouncementsFailing: {
    fires: { [of("announcement_failures_total")]: rising },
    nearly: { [of("announcement_failures_total")]: "3x120" },
    at: 20,
  },
  EgressIPAgentCountersUnreadable: {
    fires: { [of("counters_readable")]: "0x60" },
    nearly: { [of("counters_readable")]: "0x20 1 0x40" },
    at: 40,
  },
};
