// Which node is to give each address of each EgressIP (reference F.3 to F.5). In: nodes, EgressIPs, pins. Out: items. Pure.
// What holds stays where it is: all of that is noted before anything is given, so that nothing is given twice and only what lost
// its node moves. Objects are asked from the oldest to the youngest, addresses and nodes in their order: the same for any input.
import { type Address, compareAddresses, parseAddress } from "../model/ip.ts";
import { byCodeUnit } from "../model/names.ts";
import { eligibleNodes } from "./eligible.ts";
import { hostsOf } from "./hosting.ts";
import { hasRoom, type Ledger, openLedger } from "./ledger.ts";
import type { Demand, Finding, Item, Member } from "./objects.ts";
import { both, union } from "./sets.ts";

/** By EgressIP and address: the nodes that alone may have it. */
export type Pins = ReadonlyMap<string, ReadonlyMap<Address, ReadonlySet<string>>>;

export interface AssignInput {
  readonly nodes: Iterable<Member>;
  readonly egressIPs: Iterable<Demand>;
  readonly unreachable?: ReadonlySet<string>;
  readonly pins?: Pins;
}

export interface Assignments {
  /** By EgressIP: the items that its status is to have, by address. Void objects are not in it. */
  readonly items: ReadonlyMap<string, readonly Item[]>;
  readonly findings: readonly Finding[];
  /** Nodes looked at for an address: what the work grows with. */
  readonly compared: number;
}

export function assign({ nodes, egressIPs, unreachable = new Set(), pins }: AssignInput): Assignments {
  const members = [...nodes];
  const eligible = eligibleNodes(members, unreachable);
  const context: Context = {
    eligible,
    hosts: hostsOf([...eligible.values()]),
    addresses: addressesOf(members),
    pins: pins ?? new Map(),
    ledger: openLedger(eligible.keys()),
    findings: [],
  };
  const demands = [...egressIPs].sort(byAge);
  const kept = new Map(
    demands.flatMap((demand) =>
      noteVoid(demand, context) ? [] : [[demand.name, keep(demand, context)] as const],
    ),
  );
  const live = demands.filter(({ name }) => kept.has(name));
  for (const demand of live) reserve(demand, context);
  const items = live.map((demand) => {
    const own = kept.get(demand.name) ?? new Map<Address, string>();
    give(demand, own, context);
    return [demand.name, itemsOf(own)] as const;
  });
  return {
    items: new Map(items),
    findings: context.findings.sort((a, b) => byCodeUnit(a.object, b.object) || byCodeUnit(a.text, b.text)),
    compared: context.ledger.compared,
  };
}

interface Context {
  readonly eligible: ReadonlyMap<string, Member>;
  readonly hosts: ReturnType<typeof hostsOf>;
  readonly addresses: NodeAddresses;
  readonly pins: Pins;
  readonly ledger: Ledger;
  readonly findings: Finding[];
}

/** Of which node an address is one, and whether the node itself is known by it. */
type NodeAddresses = ReadonlyMap<Address, { readonly node: string; readonly certain: boolean }>;

function addressesOf(members: readonly Member[]): NodeAddresses {
  const found = new Map<Address, { readonly node: string; readonly certain: boolean }>();
  const sorted = members.toSorted((a, b) => byCodeUnit(a.name, b.name));
  for (const { name, node } of sorted)
    for (const { address } of node.hostCidrs)
      if (!found.has(address)) found.set(address, { node: name, certain: false });
  for (const { name, node } of sorted)
    for (const address of [...node.internalAddresses, ...node.primary.map((cidr) => cidr.address)])
      found.set(address, { node: name, certain: true });
  return found;
}

/** Older first: of two that ask for one address the older has it. */
export function byAge(
  a: { readonly created: string; readonly name: string },
  b: { readonly created: string; readonly name: string },
): number {
  return byCodeUnit(a.created, b.created) || byCodeUnit(a.name, b.name);
}

function say({ name }: Demand, { findings }: Context, reason: string, text: string): void {
  findings.push({ object: `EgressIP/${name}`, reason, text });
}

/** An object that nobody can read keeps what it has, and nobody else gets that. */
function noteVoid(demand: Demand, context: Context): boolean {
  if (demand.unreadable.length === 0) return false;
  const which = demand.unreadable.join(", ");
  say(
    demand,
    context,
    "InvalidEgressIP",
    `spec.egressIPs has ${which}, which is no IP address; nothing is assigned until it is one, without a prefix length`,
  );
  for (const { node, egressIP } of demand.items) {
    const address = parseAddress(egressIP);
    if (address !== undefined && context.ledger.ownerOf(address) === undefined)
      context.ledger.take(demand.name, address, node);
  }
  return true;
}

/** Items that still hold: F.5 R-1. */
function keep(demand: Demand, context: Context): Map<Address, string> {
  const own = new Map<Address, string>();
  const busy = new Set<string>();
  const wanted = new Set(demand.requested);
  const items = demand.items.flatMap(({ node, egressIP }) => {
    const address = parseAddress(egressIP);
    return address === undefined || !wanted.has(address) ? [] : [{ node, address }];
  });
  items.sort((a, b) => compareAddresses(a.address, b.address) || byCodeUnit(a.node, b.node));
  for (const { node, address } of items) {
    const member = context.eligible.get(node);
    if (member === undefined || own.has(address) || busy.has(node)) continue;
    if (context.ledger.ownerOf(address) !== undefined) continue;
    if (context.addresses.get(address)?.certain === true) continue;
    if (!candidatesFor(demand, address, context, "any").has(node)) continue;
    if (!hasRoom(member, address, context.ledger)) continue;
    own.set(address, node);
    busy.add(node);
    context.ledger.take(demand.name, address, node);
    const host = context.addresses.get(address);
    if (host !== undefined) sayConflict(demand, address, host.node, context, "it stays where it is");
  }
  return own;
}

/** Who had an address gets it again before others do, also when its node is lost. */
function reserve({ name, items, requested }: Demand, { ledger }: Context): void {
  for (const { egressIP } of items) {
    const address = parseAddress(egressIP);
    if (address !== undefined && requested.includes(address) && ledger.ownerOf(address) === undefined)
      ledger.reserve(name, address);
  }
}

function give(demand: Demand, own: Map<Address, string>, context: Context): void {
  const busy = new Set(own.values());
  for (const address of demand.requested) {
    if (own.has(address)) continue;
    const host = context.addresses.get(address);
    if (host !== undefined) {
      sayConflict(demand, address, host.node, context, "it is not assigned");
      continue;
    }
    const owner = context.ledger.ownerOf(address);
    if (owner !== undefined && owner !== demand.name) {
      say(
        demand,
        context,
        "UnsupportedRequest",
        `${address} belongs to EgressIP/${owner}; take it out of one of them`,
      );
      continue;
    }
    const node = leastLoaded(candidatesFor(demand, address, context, "best"), address, busy, context);
    if (node === undefined) continue;
    own.set(address, node);
    busy.add(node);
    context.ledger.take(demand.name, address, node);
  }
  sayMissing(demand, own.size, context);
}

function sayConflict(demand: Demand, address: Address, node: string, context: Context, what: string): void {
  say(
    demand,
    context,
    "EgressIPConflict",
    `${address} is an address of node ${node}; ${what}: choose another`,
  );
}

function sayMissing(demand: Demand, assigned: number, context: Context): void {
  const { length } = demand.requested;
  if (assigned === length) return;
  if (context.eligible.size === 0)
    say(
      demand,
      context,
      "NoMatchingNodeFound",
      "no node is labelled k8s.ovn.org/egress-assignable, Ready and reachable",
    );
  else if (assigned === 0)
    say(
      demand,
      context,
      "NoMatchingNodeFound",
      `none of the ${context.eligible.size} nodes that may have egress IPs can have one of its addresses`,
    );
  else
    say(
      demand,
      context,
      "UnassignedRequest",
      `${assigned} of ${length} addresses are assigned; each needs a node of its own that is labelled k8s.ovn.org/egress-assignable and has its network`,
    );
}

/** Nodes that can host it; `best` leaves only those where it is on a secondary network, if there are any (F.4, 3). */
function candidatesFor(
  { name }: Demand,
  address: Address,
  { hosts, pins }: Context,
  which: "any" | "best",
): ReadonlySet<string> {
  const { primary, secondary } = hosts(address);
  const pinned = pins.get(name)?.get(address);
  const allowed = (names: ReadonlySet<string>) => (pinned === undefined ? names : both(names, pinned));
  const other = allowed(secondary);
  if (which === "best") return other.size > 0 ? other : allowed(primary);
  return secondary.size === 0 ? allowed(primary) : allowed(union(primary, secondary));
}

function leastLoaded(
  names: ReadonlySet<string>,
  address: Address,
  busy: ReadonlySet<string>,
  { eligible, ledger }: Context,
): string | undefined {
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const name of names) {
    ledger.compared++;
    const load = ledger.loadOf(name);
    if (load > least || (load === least && best !== undefined && name > best) || busy.has(name)) continue;
    const member = eligible.get(name);
    if (member === undefined || !hasRoom(member, address, ledger)) continue;
    best = name;
    least = load;
  }
  return best;
}

function itemsOf(own: ReadonlyMap<Address, string>): readonly Item[] {
  return [...own].sort(([a], [b]) => compareAddresses(a, b)).map(([egressIP, node]) => ({ node, egressIP }));
}
