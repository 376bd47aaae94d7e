// Objects and host facts to the Snapshot. Pure to the outside: what it remembers only saves work.
import { type AddressIndex, indexAddresses, NO_ADDRESSES } from "./address-index.ts";
import { exemptFor } from "./exempt.ts";
import type { HostFacts } from "./facts.ts";
import { leavingProblems } from "./giving.ts";
import { holdFor } from "./held.ts";
import type { Address } from "./ip.ts";
import { layoutOf, type Traces } from "./marks.ts";
import { enteredMarks, programmedMarks } from "./marks-found.ts";
import { keepEqual, lastOf } from "./memo.ts";
import { neighbourProblems } from "./neighbours.ts";
import { northboundProblems } from "./northbound-problems.ts";
import type { EgressIP, Namespace, Node, Pod, Problem, Unconfirmed } from "./objects.ts";
import { atOnce } from "./pieces.ts";
import { referenceProblems } from "./reference-problems.ts";
import { rivalProblems } from "./rivals.ts";
import { inOrder, type Select, selectFor } from "./selection.ts";
import type { Settings } from "./settings.ts";
import { emptyShards, entriesOf, type Shards, stepsTo } from "./shards.ts";
import type { Held, Snapshot } from "./snapshot.ts";
import { createKept } from "./unresolved.ts";

/** All objects of a moment. A map is another object when, and only when, something in it changed. */
export interface Objects {
  readonly egressIPs: ReadonlyMap<string, EgressIP>;
  readonly nodes: ReadonlyMap<string, Node>;
  readonly namespaces: ReadonlyMap<string, Namespace>;
  readonly pods: Shards<Pod>;
  readonly problems: readonly Problem[];
  /** Set while they may be behind the times. */
  readonly unconfirmed?: Unconfirmed | undefined;
}

export interface Build {
  (settings: Settings, objects: Objects, host: HostFacts): Snapshot;
  /** Works out what needs no host, while that is still being read, in pieces; changes nothing that comes out. */
  prepare(settings: Settings, objects: Objects): Generator<undefined, void>;
}

/** At a time: a few milliseconds with 50,000 pods. */
const SHARDS_SELECTED = 128;

export function createBuild(): Build {
  const orderOf = lastOf((egressIPs: Objects["egressIPs"]) =>
    Object.freeze([...egressIPs.values()].sort(inOrder)),
  );
  const selectOf = lastOf(selectFor);
  const marksOf = lastOf(programmedMarks);
  const enteredOf = keepEqual(lastOf(enteredMarks), sameTraces);
  const layoutFor = lastOf(layoutOf);
  const holdOf = lastOf(holdFor);
  const heldOf = keepEqual((held: Snapshot["held"]) => held, sameHeld);
  const keptOf = createKept();
  const holdFreshOf = lastOf(holdFor);
  const exemptOf = lastOf(exemptFor);
  const notHeldOf = lastOf(addressesNotHeld);
  const contestedOf = lastOf(contestedProblems);
  const neighboursOf = lastOf(neighbourProblems);
  const rivalsOf = lastOf(rivalProblems);
  const referenceOf = lastOf(referenceProblems);
  const northboundOf = lastOf(northboundProblems);
  let index: AddressIndex = NO_ADDRESSES;
  /** What was selected from last, by which selection. */
  let last: { readonly select: Select; readonly pods: Shards<Pod> } | undefined;
  const selecting = function* ({ node }: Settings, objects: Objects): Generator<undefined, AddressIndex> {
    const { egressIPs, namespaces, nodes, pods } = objects;
    const select = selectOf(node, orderOf(egressIPs), namespaces, nodes);
    let found = index.selected;
    const before = last?.select === select ? last.pods : emptyShards<Pod>();
    for (const some of stepsTo(before, pods, SHARDS_SELECTED)) {
      found = select(some);
      last = { select, pods: some };
      yield;
    }
    index = yield* indexAddresses(index, found);
    return index;
  };
  const build = (settings: Settings, objects: Objects, host: HostFacts): Snapshot => {
    const layout = layoutFor(settings.markMask);
    if (layout === undefined) throw new Error(`mark mask ${settings.markMask} cannot be cut`);
    const { network, sysctls, record } = host;
    const egressIPs = orderOf(objects.egressIPs);
    atOnce(selecting(settings, objects));
    const programmed = marksOf(host.iptables);
    const { nodes } = objects;
    const known = holdOf(settings, layout, egressIPs, nodes, network, sysctls, record, programmed);
    // What the entries of all pods say is asked only when a mark has to be given: it changes with each pod.
    const entered = known.fresh ? enteredOf(host.sets, index.claims) : NOTHING_ENTERED;
    const result =
      entered.size === 0
        ? known
        : holdFreshOf(settings, layout, egressIPs, nodes, network, sysctls, record, programmed, entered);
    const { unready, problems } = result;
    // The host's links and routes change far more often than what is held, and with that all entries and rules are made again.
    const held = heldOf(result.held);
    const notHeld = notHeldOf(egressIPs, held, objects.nodes);
    return Object.freeze({
      settings,
      layout,
      host,
      held,
      unready,
      served: index,
      kept: keptOf(objects.pods, index.claims, host.sets),
      exempt: exemptOf(settings, objects.nodes, network, record, notHeld),
      notHeld,
      egressIPs,
      nodes,
      namespaces: objects.namespaces,
      pods: objects.pods,
      problems: Object.freeze([
        ...objects.problems,
        ...(nodes.has(settings.node) ? [] : [unknownNode(settings.node)]),
        ...leavingProblems(settings, nodes),
        ...problems,
        ...contestedOf(index),
        ...neighboursOf(host.iptables, settings.markMask),
        ...rivalsOf(held, host.rivals),
        ...referenceOf(settings, held, network.rules, host.iptables),
        ...northboundOf(settings, host.northbound, held, nodes),
      ]),
    });
  };
  return Object.assign(build, {
    *prepare(settings: Settings, objects: Objects) {
      yield* selecting(settings, objects);
    },
  });
}

const NOTHING_ENTERED: Traces["entries"] = new Map();

function sameTraces(before: Traces["entries"], now: Traces["entries"]): boolean {
  return before.size === now.size && [...now].every(([mark, names]) => sameNames(before.get(mark), names));
}

function sameNames(before: ReadonlySet<string> | undefined, now: ReadonlySet<string>): boolean {
  return before?.size === now.size && [...now].every((name) => before.has(name));
}

function sameHeld(before: Snapshot["held"], now: Snapshot["held"]): boolean {
  const same = (a: Held | undefined, b: Held) =>
    a !== undefined && (Object.keys(b) as (keyof Held)[]).every((key) => a[key] === b[key]);
  return before.length === now.length && now.every((entry, at) => same(before[at], entry));
}

function unknownNode(name: string): Problem {
  const text = "is not among the objects, so nothing is given here; --node has to be the name of a Node";
  return { object: `Node/${name}`, path: "", text };
}

/** A node's own address stays the node's, even when somebody writes it into an EgressIP (known-faults BL-44). */
function addressesNotHeld(
  egressIPs: readonly EgressIP[],
  held: Snapshot["held"],
  nodes: Objects["nodes"],
): ReadonlySet<Address> {
  const all = new Set<Address>(egressIPs.flatMap((egressIP) => egressIP.requested));
  for (const { address } of held) all.delete(address);
  for (const node of nodes.values()) {
    for (const { address } of node.hostCidrs) all.delete(address);
    for (const address of node.internalAddresses) all.delete(address);
  }
  return all;
}

function contestedProblems(index: AddressIndex): readonly Problem[] {
  if (index.contested.size === 0) return [];
  const problems: Problem[] = [];
  for (const [address, [first, ...others]] of entriesOf(index.claims)) {
    for (const { pod } of others) {
      problems.push({
        object: `Pod/${pod.namespace}/${pod.name}`,
        path: "status.podIPs",
        text: `${address} is also the address of pod ${first?.pod.namespace}/${first?.pod.name}, which counts`,
      });
    }
  }
  return problems.sort((a, b) => (a.object < b.object ? -1 : 1));
}
