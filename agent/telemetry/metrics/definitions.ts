// Every metric that there is: name, type, help, labels and what a label can say. The registry is made from it, and so is the page
// packaging/docs/metrics.md; alerts and the dashboard are held against it. Pure.
// Nothing has a label for each pod: series are bounded by this table, by the egress IPs of one node, and by nothing else.

/** What a label can say: all of it, or in words what bounds it. */
export type LabelValues = readonly string[] | string;

export interface Definition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: Readonly<Record<string, LabelValues>>;
  /** Of a histogram, its upper bounds in seconds. */
  readonly buckets?: readonly number[];
}

const backend = [
  ...["record", "sysctls", "sets", "routing", "leak-guard", "iptables", "reference", "flows"],
  ...["addresses", "announce", "steering", "northbound"],
] as const;
const phase = ["withdraw", "establish", "retire"] as const;
const kubernetesKind = ["EgressIP", "Node", "Namespace", "Pod"] as const;
const egressIP = "an egress IP of this node, while it is one";

export const PROBLEM_KINDS = [...kubernetesKind, "host", "file", "kubernetes", "other"] as const;
export const PROBLEM_REASONS = [
  ...["invalid", "conflict", "unservable", "leaving", "host", "northbound", "unconfirmed", "unreadable"],
] as const;

/** From a map in memory to a database of many nodes that is slow. */
const FAST = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30] as const;
/** From one pod more to a start while the API server is away. */
const SLOW = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300] as const;

export const METRICS = {
  egressip_agent_build_info: {
    type: "gauge",
    help: "Always 1; what runs here.",
    labels: { version: "the agent's", node_version: "that of Node.js", gateway_mode: ["local", "shared"] },
  },
  egressip_agent_ready: {
    type: "gauge",
    help: "1 while /readyz says so: a first round was verified, the last one succeeded, the API server and the northbound database are followed.",
    labels: {},
  },
  egressip_agent_enabled: {
    type: "gauge",
    help: "0 with --enable-egress-ip=false: then there is nothing of the agent's, and nothing else of this page but ready, build_info and the process.",
    labels: {},
  },
  egressip_agent_rounds_total: {
    type: "counter",
    help: "Rounds by what came of them. unreadable: inputs could not be read, so nothing was written.",
    labels: { result: ["unchanged", "changed", "failed", "unreadable"] },
  },
  egressip_agent_round_seconds: {
    type: "histogram",
    help: "How long the stages of a round took.",
    labels: { stage: ["read", "plan", "write"] },
    buckets: FAST,
  },
  egressip_agent_event_to_verified_seconds: {
    type: "histogram",
    help: "From the first event (an object, the host, the database; reload: start, SIGHUP, another attempt) to the round that found this host right, where something was written. An event that changes nothing is not counted.",
    labels: { cause: ["objects", "host", "northbound", "reload"] },
    buckets: SLOW,
  },
  egressip_agent_last_success_timestamp_seconds: {
    type: "gauge",
    help: "When a round last ended without a failure and with nothing left to read back. Missing before the first.",
    labels: {},
  },
  egressip_agent_backend_apply_seconds: {
    type: "histogram",
    help: "How long a backend took to write, of each time that it wrote.",
    labels: { backend },
    buckets: FAST,
  },
  egressip_agent_backend_errors_total: {
    type: "counter",
    help: "Times that a backend could not be worked out, or its tool refused.",
    labels: { backend, phase },
  },
  egressip_agent_backend_operations_total: {
    type: "counter",
    help: "Lines that a backend wrote, as `plan` prints them; not those of a write that failed.",
    labels: { backend, phase },
  },
  egressip_agent_drift_repaired_total: {
    type: "counter",
    help: "Lines written although the plan had not changed and this host had been right: what somebody else took away (put_back) or added (taken_away).",
    labels: { backend, kind: ["put_back", "taken_away"] },
  },
  egressip_agent_contention: {
    type: "gauge",
    help: "Fights over what somebody keeps undoing, held back for a while (`contention` of `status`).",
    labels: { backend },
  },
  egressip_agent_egress_ips: {
    type: "gauge",
    help: "Egress IPs that are assigned to this node.",
    labels: { state: ["serving", "unready"] },
  },
  egressip_agent_egress_ip_serving: {
    type: "gauge",
    help: "Of each egress IP that is assigned to this node: 1 while it is given, 0 while it cannot be.",
    labels: { egress_ip: egressIP, object: "the EgressIP object that it is of" },
  },
  egressip_agent_selected_addresses: {
    type: "gauge",
    help: "Addresses of selected pods that concern this node.",
    labels: {},
  },
  egressip_agent_owned_objects: {
    type: "gauge",
    help: "What is the agent's on this host and in the northbound database, as last read or written.",
    labels: {
      kind: [
        ...["address", "set_entry", "route", "rule", "iptables_rule", "nft_table", "sysctl"],
        "northbound_row",
      ],
    },
  },
  egressip_agent_problems: {
    type: "gauge",
    help: "Problems (`status` has their texts) by the kind of the object and why. unservable: an egress IP of this node cannot be given, or packets do not get through; invalid: an object was left out.",
    labels: { kind: PROBLEM_KINDS, reason: PROBLEM_REASONS },
  },
  egressip_agent_kubernetes_state: {
    type: "gauge",
    help: "1 for the state that a kind of object is in. doubtful: followed, but not believed, or silent for too long. Missing with --manifests.",
    labels: { kind: kubernetesKind, state: ["unsynced", "absent", "current", "doubtful"] },
  },
  egressip_agent_kubernetes_silent_seconds: {
    type: "gauge",
    help: "Seconds since the API server said anything of a kind. Missing before the first byte.",
    labels: { kind: kubernetesKind },
  },
  egressip_agent_kubernetes_unconfirmed_seconds: {
    type: "gauge",
    help: "For how long nobody has confirmed the objects: what is there is kept right, nothing is gained or taken away. 0 while they are confirmed.",
    labels: {},
  },
  egressip_agent_northbound_state: {
    type: "gauge",
    help: "1 for the state that the northbound database is in. waiting: another agent has the lock of this node. Missing without --ovn-nb.",
    labels: { state: ["current", "waiting", "stale"] },
  },
  egressip_agent_northbound_stale_seconds: {
    type: "gauge",
    help: "For how long the northbound database has not been followed, or its lock waited for; 0 while it is. Missing without --ovn-nb.",
    labels: {},
  },
  egressip_agent_guard_dropped_packets_total: {
    type: "counter",
    help: "Packets that a guard dropped, since its rules were made. other_link: would have left by another link. unready: of selected pods without a ready egress IP. untranslated: marked, without an egress IP as source. unclaimed: of other nodes' pods, led here too early or too late.",
    labels: { guard: ["other_link", "unready", "untranslated", "unclaimed"] },
  },
  egressip_agent_connections_total: {
    type: "counter",
    help: "Connections that the kernel gave an egress IP to, since its rule was made: each takes a source port for a destination. Not those of OVN's NAT rows.",
    labels: { egress_ip: egressIP },
  },
  egressip_agent_counters_readable: {
    type: "gauge",
    help: "1 if the last two could be read from the kernel's rules. 0: they are missing.",
    labels: {},
  },
  egressip_agent_announcements_total: {
    type: "counter",
    help: "Announcements begun, each a series of six frames in 5 s.",
    labels: {},
  },
  egressip_agent_announcement_failures_total: {
    type: "counter",
    help: "Frames of announcements that could not be sent.",
    labels: {},
  },
  egressip_agent_duplicate_claims_total: {
    type: "counter",
    help: "How often somebody else said that he has an egress IP, each MAC at most once a second, since this node got it.",
    labels: { egress_ip: egressIP },
  },
  egressip_agent_rivals: {
    type: "gauge",
    help: "Others, by MAC, who answer for an egress IP of this node now.",
    labels: {},
  },
  egressip_agent_tools_started_total: {
    type: "counter",
    help: "Processes started, by tool.",
    labels: { tool: "a tool that the agent starts" },
  },
  process_start_time_seconds: {
    type: "gauge",
    help: "Start time of the process since the Unix epoch in seconds.",
    labels: {},
  },
  process_cpu_seconds_total: {
    type: "counter",
    help: "User and system CPU time in seconds; that of the tools is not in it.",
    labels: {},
  },
  process_resident_memory_bytes: { type: "gauge", help: "Resident memory size in bytes.", labels: {} },
  process_open_fds: { type: "gauge", help: "Number of open file descriptors.", labels: {} },
  nodejs_heap_size_used_bytes: { type: "gauge", help: "Memory of the heap that is in use.", labels: {} },
} as const satisfies Readonly<Record<string, Definition>>;

export type MetricName = keyof typeof METRICS;

type LabelsOf<N extends MetricName> = (typeof METRICS)[N]["labels"];
export type SampleLabels<N extends MetricName> = {
  readonly [L in keyof LabelsOf<N>]: LabelsOf<N>[L] extends readonly (infer V extends string)[] ? V : string;
};

/** One series as it is now. */
export interface Sample {
  readonly name: MetricName;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** With the labels that the metric has, and what they can say. */
export function sample<N extends MetricName>(name: N, value: number, labels: SampleLabels<N>): Sample {
  return { name, labels, value };
}

/** All combinations of what the labels can say; none where one of them is open. */
export function seriesOf(name: MetricName): readonly Readonly<Record<string, string>>[] {
  let all: readonly Readonly<Record<string, string>>[] = [{}];
  for (const [label, values] of Object.entries<LabelValues>(METRICS[name].labels)) {
    if (typeof values === "string") return [];
    all = all.flatMap((labels) => values.map((value) => ({ ...labels, [label]: value })));
  }
  return all;
}
