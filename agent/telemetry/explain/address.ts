// An egress IP: who asks for it, who has it, why here or not here, and all of it that is on this host and in OVN. In: what is known, the
// address. Out: an Account. Pure.

import { type Address, familyOf } from "../../model/ip.ts";
import { hex, layoutOf } from "../../model/marks.ts";
import { byCodeUnit } from "../../model/names.ts";
import type { EgressIP } from "../../model/objects.ts";
import { linksByTable, servedSet } from "../../model/owner.ts";
import { entriesOf } from "../../model/shards.ts";
import type { Held } from "../../model/snapshot.ts";
import { natRowsOf } from "../../trace-ovn-rows.ts";
import { bitsOf } from "../../trace-rule.ts";
import type { Step } from "../../trace-step.ts";
import type { Account, Verdict } from "./account.ts";
import { lookAt } from "./assignment.ts";
import type { Known } from "./packet.ts";

export function explainEgressIP(known: Known, address: Address, asking: readonly EgressIP[]): Account {
  const { snapshot } = known.round;
  const steps: Step[] = [];
  let verdict: Verdict = {
    outcome: "not given here",
    why: `no node has it: status.items of ${asking.map(({ name }) => name).join(", ")} does not name it`,
    remedy: `see why it is not assigned: kubectl describe egressip ${asking[0]?.name}; nodes need the label k8s.ovn.org/egress-assignable`,
  };
  for (const egressIP of asking) {
    const assignment = egressIP.assignments.find((one) => one.address === address);
    steps.push({
      step: "objects",
      object: `EgressIP/${egressIP.name}`,
      found: `spec.egressIPs has ${address}`,
      verdict: assignment === undefined ? "is assigned to no node" : `is assigned to ${assignment.node}`,
    });
    if (assignment === undefined) continue;
    const { step, whyNot } = lookAt(snapshot, egressIP, assignment);
    steps.push(step);
    if (verdict.outcome === "given here") continue;
    if (whyNot === undefined)
      verdict = { outcome: "given here", egressIP: egressIP.name, source: address, why: step.verdict };
    else
      verdict = {
        outcome: "not given here",
        egressIP: egressIP.name,
        ...(whyNot.reason === "assigned elsewhere" ? { nodes: [assignment.node] } : {}),
        why: whyNot.text,
        remedy: whyNot.remedy,
      };
  }
  const held = snapshot.held.find((entry) => entry.address === address);
  const { gatewayMode } = snapshot.settings;
  if (held !== undefined) {
    const byGateway = held.primary && gatewayMode === "shared";
    steps.push(podStep(known, held));
    if (!byGateway) steps.push(...onHost(known, held));
    const link = byGateway ? `GR_${snapshot.settings.node}` : held.link;
    verdict = {
      ...verdict,
      link,
      why: byGateway ? `OVN gives it, on ${link}` : `this node gives it, by ${link}`,
    };
    const missing = steps.find(({ verdict: said }) => said.startsWith("is missing"));
    if (missing !== undefined)
      verdict = {
        ...verdict,
        at: missing.step,
        why: `${verdict.why}, but ${missing.object} ${missing.verdict}`,
        remedy: "egressip-agent plan shows what is missing; status says whether it is being put back",
      };
  } else steps.push(...leftHere(known, address));
  steps.push(...natSteps(known, address), ...rivalSteps(known, address));
  return { about: address, steps, verdict };
}

const SHOWN_PODS = 5;

function podStep({ round: { snapshot } }: Known, { egressIP, family }: Held): Step {
  const names: string[] = [];
  let count = 0;
  for (const [pod, [first]] of entriesOf(snapshot.served.claims)) {
    if (first?.by.name !== egressIP.name || familyOf(pod) !== family) continue;
    count++;
    if (names.length < SHOWN_PODS) names.push(`${first.pod.namespace}/${first.pod.name}`);
  }
  const more = count > names.length ? `, and ${count - names.length} more` : "";
  return {
    step: "selector",
    object: `EgressIP/${egressIP.name}`,
    found: count === 0 ? "no pod that concerns this node" : `${names.sort(byCodeUnit).join(", ")}${more}`,
    verdict: `speaks for ${count} pod${count === 1 ? "" : "s"} here`,
  };
}

/** What there has to be in this kernel, by what is found there. */
function onHost({ round: { snapshot }, seen }: Known, held: Held): readonly Step[] {
  const { address, family, link, mark, table } = held;
  const { network, iptables, sets } = seen.facts;
  const { layout } = snapshot;
  const own = network.links.find(({ name }) => name === link);
  const state = own === undefined ? "is not there" : own.running ? "up" : own.up ? "without carrier" : "down";
  const on = network.addresses.filter((entry) => entry.address === address);
  const bits = hex((mark & layout.linkMask) >>> 0);
  const rule = network.rules.find(
    (entry) =>
      entry.family === family && entry.table === table && entry.selector.startsWith(`fwmark ${bits}/`),
  );
  const routes = network.routes.filter((entry) => entry.family === family && entry.table === table);
  const snat = [...(iptables[family].get("nat") ?? [])].flatMap(([chain, { rules }]) =>
    rules.filter((text) => text.includes(`--to-source ${address}`)).map((text) => [chain, text] as const),
  )[0];
  const entries = [...(sets.get(servedSet(family))?.members.shards ?? [])].reduce(
    (sum, shard) => sum + [...shard.values()].filter((entry) => hasMark(entry, mark, layout.mask)).length,
    0,
  );
  const there = (found: boolean, words: string) => (found ? words : "is missing");
  return [
    {
      step: "link",
      object: link,
      found: `${state}, ${own?.mac ?? ""}`,
      verdict: own?.running ? "can carry it" : "carries nothing",
    },
    {
      step: "address",
      object: `${address} on ${link}`,
      found: on.map((entry) => `${entry.address}/${entry.length} on ${entry.link}`).join(", ") || "nothing",
      verdict: there(
        on.some((entry) => entry.link === link),
        "is answered for",
      ),
    },
    {
      step: "set",
      object: `set ${servedSet(family)}`,
      found: `${entries} entries with mark ${hex(mark)}/${hex(layout.mask)}`,
      verdict: "are marked for it",
    },
    {
      step: "rule",
      object: `ip rule to table ${table}`,
      found: rule === undefined ? "nothing" : `${rule.priority} ${rule.selector}`,
      verdict: there(rule !== undefined, `leads to table ${table}`),
    },
    {
      step: "route",
      object: `table ${table}`,
      found: routes.length === 0 ? "nothing" : `${routes.length} routes, ${defaultOf(routes)}`,
      verdict: there(routes.length > 0, `leads by ${linksByTable(network.links).get(table) ?? link}`),
    },
    {
      step: "snat",
      object: `nat ${snat?.[0] ?? "EGRESSIP-SNAT"}`,
      found: snat?.[1] ?? "no rule",
      verdict: there(snat !== undefined, `source ${address}`),
    },
  ];
}

function hasMark(entry: string, mark: number, mask: number): boolean {
  const written = /^skbmark (\S+)/.exec(entry)?.[1];
  return (
    written !== undefined && (bitsOf(written).bits & mask) >>> 0 === mark && layoutOf(mask) !== undefined
  );
}

function defaultOf(routes: Known["seen"]["facts"]["network"]["routes"]): string {
  const best = routes
    .filter(({ destination }) => destination.endsWith("/0"))
    .toSorted((a, b) => a.metric - b.metric)[0];
  const hop = best?.hops[0];
  if (hop === undefined) return "no default but a blackhole";
  return `default ${hop.gateway === "" ? "" : `via ${hop.gateway} `}dev ${hop.link}`;
}

/** Of an address that is not this node's to give nothing may be left. */
function leftHere({ seen }: Known, address: Address): readonly Step[] {
  return seen.facts.network.addresses
    .filter((entry) => entry.address === address)
    .map((entry) => ({
      step: "address",
      object: `${address} on ${entry.link}`,
      found: `${entry.address}/${entry.length}`,
      verdict: "is on this host all the same",
    }));
}

function natSteps({ seen }: Known, address: Address): readonly Step[] {
  return [...natRowsOf(seen.facts.northbound, address)].map(([router, count]) => ({
    step: "ovn-nat",
    object: router,
    found: `${count} row${count === 1 ? "" : "s"} with external_ip ${address}`,
    verdict: `gives it to ${count} pod address${count === 1 ? "" : "es"}`,
  }));
}

function rivalSteps({ seen }: Known, address: Address): readonly Step[] {
  return seen.facts.rivals
    .filter((rival) => rival.address === address)
    .map(({ link, mac }) => ({
      step: "neighbour",
      object: `${address} on ${link}`,
      found: mac,
      verdict: "answers for it as well",
    }));
}
