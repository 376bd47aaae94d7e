// Why a pod's packets leave as they do. In: the last Round and a pod or address. Out: one explanation. Pure.
import type { Round } from "../loop.ts";
import { compareAddresses, parseAddress } from "../model/ip.ts";
import type { Pod } from "../model/objects.ts";
import { entriesOf, getFrom } from "../model/shards.ts";
import { trace } from "../trace.ts";
import { northboundWay } from "./explain-northbound.ts";

export interface Explanation {
  readonly what: string;
  readonly pod?: string;
  readonly selectedBy?: string;
  /** EgressIPs that select the pod too and lose, since they are younger. */
  readonly losing?: readonly string[];
  readonly paths: readonly {
    readonly source: string;
    readonly destination: string;
    readonly steps: readonly string[];
    readonly result: string;
  }[];
  readonly notes: readonly string[];
}

/** Any address outside: what matters is that nothing in the cluster has it (TEST-NET-2, documentation prefix). */
const SOMEWHERE = { 4: "198.51.100.80", 6: "2001:db8:51::80" } as const;

export function explain(round: Round | undefined, what: string): Explanation {
  if (round === undefined) return { what, paths: [], notes: ["no round has been completed yet"] };
  const address = parseAddress(what);
  const held = round.snapshot.held.find((entry) => entry.address === address);
  if (held !== undefined) {
    const { egressIP, link, mark, table, primary } = held;
    const { gatewayMode, node } = round.snapshot.settings;
    const way =
      primary && gatewayMode === "shared"
        ? `given by OVN's gateway router GR_${node}`
        : `given on ${link} with mark 0x${mark.toString(16)} and routing table ${table}`;
    return {
      what,
      selectedBy: egressIP.name,
      paths: [],
      notes: [`egress IP of ${egressIP.name}, ${way}`],
    };
  }
  const pod = address === undefined ? getFrom(round.objects.pods, `Pod/${what}`) : podWith(round, address);
  if (pod === undefined) {
    return { what, paths: [], notes: ["no pod has this name or address; names are NAMESPACE/NAME"] };
  }
  return explainPod(round, what, pod);
}

function podWith(round: Round, address: string): Pod | undefined {
  const claimed = getFrom(round.snapshot.served.claims, address)?.[0]?.pod;
  if (claimed !== undefined) return claimed;
  for (const [, pod] of entriesOf(round.objects.pods)) if (pod.addresses.includes(address)) return pod;
  return undefined;
}

function explainPod({ snapshot, outcome }: Round, what: string, pod: Pod): Explanation {
  const key = `Pod/${pod.namespace}/${pod.name}`;
  const selected = getFrom(snapshot.served.selected, key);
  const paths = [...pod.addresses].sort(compareAddresses).map((source) => {
    const destination = SOMEWHERE[source.includes(":") ? 6 : 4];
    const way = northboundWay({ ...snapshot, host: outcome.facts }, pod, source);
    if (way.result !== undefined) return { source, destination, steps: way.steps, result: way.result };
    const { steps, verdict } = trace(outcome.facts, {
      source,
      destination,
      from: snapshot.settings.managementPort,
    });
    const result = verdict.leaves ? `leaves ${verdict.link} with source ${verdict.source}` : verdict.why;
    return { source, destination, steps: [...way.steps, ...steps], result };
  });
  return {
    what,
    pod: `${pod.namespace}/${pod.name}`,
    ...(selected === undefined
      ? {}
      : { selectedBy: selected.by.name, losing: selected.others.map(({ name }) => name) }),
    paths,
    notes: notesFor(snapshot.settings.node, pod, selected?.by.name),
  };
}

function notesFor(node: string, pod: Pod, selectedBy: string | undefined): readonly string[] {
  const notes: string[] = [];
  if (pod.hostNetwork) notes.push("a host-network pod has its node's address and no egress IP");
  if (pod.finished) notes.push("the pod has ended: it has no address any more");
  if (!pod.hostNetwork && !pod.finished && pod.addresses.length === 0)
    notes.push("the pod has no address yet");
  if (selectedBy === undefined && pod.node !== node)
    notes.push(`the pod is on ${pod.node || "no node"} and no egress IP of this node selects it`);
  else if (selectedBy === undefined) notes.push("no EgressIP selects this pod");
  notes.push("connections that were open before keep the source they have");
  return notes;
}
