// Walks the first packet of a connection through host facts as the kernel would, in our words. In: facts, a packet.
// Out: steps and where it ends. Pure. Knows what this agent writes, plain routes, and the common shapes of others' rules:
// masquerading, DNAT, marks, jumps. A rule it cannot judge it passes over and says so.

import type { HostFacts } from "./model/facts.ts";
import { either, forwardingPath, highest, sysctlName, sysctlPath } from "./model/sysctls.ts";
import { type State, walkHook } from "./trace-chains.ts";
import { LEAK_OBJECT, lastLook } from "./trace-guard.ts";
import { lookUp } from "./trace-route.ts";
import type { Step, StepName } from "./trace-step.ts";

/** First packet of a connection that a pod opens. */
export interface Packet {
  readonly source: string;
  readonly destination: string;
  /** The link by which it comes in. */
  readonly from: string;
  /** Without them no rule that asks for a protocol or port applies. */
  readonly protocol?: "tcp" | "udp";
  readonly port?: number;
  /** What it is marked with when it comes in: OVN's mark. None where that is not said. */
  readonly mark?: number;
}

export type Verdict =
  | { readonly leaves: true; readonly link: string; readonly source: string; readonly destination: string }
  | { readonly leaves: false; readonly at: StepName; readonly why: string };

export interface Trace {
  readonly steps: readonly Step[];
  /** Rules that may have meant this packet and could not be judged. */
  readonly unjudged: number;
  /** Whom the link is asked for: the route's gateway, or the destination itself. */
  readonly nextHop: string;
  readonly verdict: Verdict;
}

export function trace(facts: HostFacts, packet: Packet): Trace {
  const { source, destination, port, mark = 0 } = packet;
  const state: State = {
    mark,
    connmark: 0,
    link: "",
    nextHop: "",
    source,
    destination,
    port,
    dnat: false,
    unjudged: 0,
    packet,
    family: source.includes(":") ? 6 : 4,
    facts,
    steps: [],
  };
  const verdict = verdictOf(state);
  return { steps: state.steps, unjudged: state.unjudged, nextHop: state.nextHop, verdict };
}

/** The hooks in the order in which the kernel calls them (iptables(8), include/uapi/linux/netfilter_ipv4.h). */
function verdictOf(state: State): Verdict {
  const drop = (at: StepName, why: string): Verdict => ({ leaves: false, at, why });
  const passes = (table: string, chain: string) => walkHook(state, table, chain) !== "DROP";
  const dropped = () => {
    const { step = "chain", object = "", found = "" } = state.steps.at(-1) ?? {};
    return drop(step as StepName, `dropped by ${object.replace(/^\S+ /, "")}: ${found}`);
  };
  if (!(passes("raw", "PREROUTING") && passes("mangle", "PREROUTING") && passes("nat", "PREROUTING")))
    return dropped();
  const refused = routed(state);
  if (refused !== undefined) return drop(...refused);
  if (!(passes("mangle", "FORWARD") && passes("filter", "FORWARD"))) return dropped();
  if (!(passes("mangle", "POSTROUTING") && passes("nat", "POSTROUTING"))) return dropped();
  const looked = lastLook(state);
  if (looked !== undefined) {
    const verdict = looked.why === "passes" ? "passes" : "drops";
    state.steps.push({ step: "leak-guard", object: LEAK_OBJECT, found: looked.line, verdict });
  }
  if (looked?.why === "unclaimed")
    return drop(
      "leak-guard",
      "dropped by the leak guard: another node led it here, and nothing here gives it an egress IP",
    );
  if (looked?.why === "leak")
    return drop("leak-guard", "dropped by the leak guard: marked, and its source is no egress IP");
  const { link, source, destination } = state;
  return { leaves: true, link, source, destination };
}

/** Between PREROUTING and FORWARD: for this host, or on by which link, and whether that is allowed. Where not: at which step, and why. */
function routed(state: State): readonly [StepName, string] | undefined {
  const { facts, steps, packet } = state;
  const six = sysctlPath(6, packet.from, "disable_ipv6");
  if (state.family === 6 && facts.sysctls[six] === "1")
    return refuse(state, "forwarding", six, `nothing that comes by IPv6 gets in by ${packet.from}`);
  const own = facts.network.addresses.find(({ address }) => address === state.destination);
  if (own !== undefined) {
    const found = `${own.address}/${own.length} on ${own.link}`;
    steps.push({ step: "local", object: "this host", found, verdict: "is for this host itself" });
    return ["local", "delivered to this host"];
  }
  const way = lookUp(facts.network, asRouted(state));
  steps.push(...way.steps);
  state.unjudged += way.unjudged;
  if ("why" in way.end) return [way.end.at, way.end.why];
  state.link = way.end.link;
  state.nextHop = way.end.nextHop;
  return reversePath(state) ?? forwarding(state);
}

function asRouted({ family, source, destination, packet, mark, port }: State) {
  return { family, source, destination, from: packet.from, mark, protocol: packet.protocol ?? "", port };
}

/** fib_validate_source(): strict filtering wants the way back to lead by the link it came in by. */
function reversePath(state: State): readonly [StepName, string] | undefined {
  const { facts, packet, family, mark } = state;
  if (family === 6 || highest(facts.sysctls, packet.from, "rp_filter") !== 1) return undefined;
  const back = lookUp(facts.network, {
    ...asRouted(state),
    source: state.destination,
    destination: state.source,
    mark: either(facts.sysctls, packet.from, "src_valid_mark") === true ? mark : 0,
  });
  if (!("link" in back.end) || back.end.link === packet.from) return undefined;
  const path = sysctlPath(4, packet.from, "rp_filter");
  return refuse(state, "reverse-path", path, `the way back to ${state.source} is by ${back.end.link}`);
}

/** IPv4 asks the link by which it came in, IPv6 the whole host, but for links that are excepted. */
function forwarding(state: State): readonly [StepName, string] | undefined {
  const { facts, packet, family } = state;
  const path = forwardingPath(family, packet.from);
  const forced = family === 6 && facts.sysctls[sysctlPath(6, packet.from, "force_forwarding")] === "1";
  if (facts.sysctls[path] !== "0" || forced) return undefined;
  return refuse(state, "forwarding", path, `nothing that comes in by ${packet.from} is forwarded`);
}

function refuse(state: State, step: StepName, path: string, why: string): readonly [StepName, string] {
  const found = state.facts.sysctls[path] ?? "set for all";
  state.steps.push({ step, object: `sysctl ${sysctlName(path)}`, found, verdict: `drops: ${why}` });
  return [step, `${sysctlName(path)} is ${found}: ${why}`];
}
