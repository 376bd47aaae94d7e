// Addresses for namespaces that opt in to an EgressIPAM: one of each pool, and the EgressIP that gives them. Pure.
// In: EgressIPAMs, namespaces, nodes, every EgressIP there is. Out: annotations and EgressIPs as they are to be, pins, findings.
// What the EgressIP of a namespace asks for is what was given to it: that, and not the annotation alone, tells what a person wrote from
// what we did. A namespace in error keeps what it has, is told so, and stops nobody else.
import { type Address, parseAddress } from "../model/ip.ts";
import { byCodeUnit } from "../model/names.ts";
import { byAge, type Pins } from "./assign.ts";
import type { Ipam, Pool } from "./kinds/egressipam.ts";
import type { Demand, Finding, Member, Space } from "./objects.ts";
import { pinsOf } from "./pins.ts";
import { inPool, openPool, type Refusal, refusalOf } from "./pool.ts";

export interface IpamInput {
  readonly ipams: Iterable<Ipam>;
  readonly namespaces: Iterable<Space>;
  readonly nodes: Iterable<Member>;
  readonly egressIPs: Iterable<Demand>;
  /** Addresses that others have: of HostSubnets and NetNamespaces that a person wrote. */
  readonly others?: ReadonlySet<Address>;
}

export interface IpamResult {
  /** By namespace: the annotation to write, or undefined to take it away. Those that are right are not in it. */
  readonly annotations: ReadonlyMap<string, string | undefined>;
  /** EgressIPs that are to be there, by name. */
  readonly wanted: ReadonlyMap<string, Wanted>;
  /** Ours that nobody wants any more. */
  readonly unwanted: readonly string[];
  readonly pins: Pins;
  readonly findings: readonly Finding[];
}

export interface Wanted {
  readonly ipam: string;
  readonly namespace: string;
  readonly addresses: readonly Address[];
}

/** A namespace's name has 63 characters at most, so this is a name too. */
const nameFor = (namespace: string) => `egressipam-${namespace}`;

interface Scene {
  readonly taken: Map<Address, string>;
  readonly findings: Finding[];
  readonly annotations: Map<string, string | undefined>;
  readonly wanted: Map<string, Wanted>;
}

interface Given {
  readonly space: Space;
  readonly ipam: Ipam;
  /** What its EgressIP asks for; empty where there is none. */
  readonly addresses: readonly Address[];
}

export function ipam(input: IpamInput): IpamResult {
  const members = [...input.nodes];
  const demands = [...input.egressIPs].sort(byAge);
  const byName = new Map(demands.map((demand) => [demand.name, demand]));
  const ipams = new Map([...input.ipams].map((one) => [one.name, one]));
  const spaces = [...input.namespaces].sort(byAge);
  const scene: Scene = { taken: new Map(), findings: [], annotations: new Map(), wanted: new Map() };
  for (const address of input.others ?? []) scene.taken.set(address, "an object of OpenShift SDN");
  const given = spaces.flatMap((space) => givenTo(space, byName.get(nameFor(space.name)), ipams, scene));
  const held = new Set(
    given.filter(({ addresses }) => addresses.length > 0).map(({ space }) => nameFor(space.name)),
  );
  // Everything that anybody has is known before anything is given.
  for (const { name, madeFor, requested, items } of demands)
    if (madeFor === undefined || held.has(name))
      for (const address of [...requested, ...items.map((item) => parseAddress(item.egressIP) ?? "")])
        if (!scene.taken.has(address)) scene.taken.set(address, ownerIn(madeFor, name));
  const refusals = new Map(
    [...ipams.values()].map((one) => [one.name, one.pools.map((pool) => refusalOf(pool, members))]),
  );
  const pending = given.filter((one) => !settle(one, refusals.get(one.ipam.name) ?? [], scene));
  serve(pending, refusals, scene);
  const unwanted = demands.filter(({ name, madeFor }) => madeFor !== undefined && !scene.wanted.has(name));
  return {
    annotations: scene.annotations,
    wanted: scene.wanted,
    unwanted: unwanted.map(({ name }) => name).sort(byCodeUnit),
    pins: pinsOf(scene.wanted, ipams, members),
    findings: scene.findings.sort((a, b) => byCodeUnit(a.object, b.object) || byCodeUnit(a.text, b.text)),
  };
}

const ownerIn = (madeFor: Demand["madeFor"], name: string) =>
  madeFor === undefined ? `EgressIP/${name}` : `Namespace/${madeFor.namespace}`;

function say({ name }: Space, { findings }: Scene, text: string): void {
  findings.push({ object: `Namespace/${name}`, reason: "ProcessingError", text });
}

/** Namespaces that are to have addresses; of those that are not any more, the annotation that we wrote goes. */
function givenTo(
  space: Space,
  own: Demand | undefined,
  ipams: ReadonlyMap<string, Ipam>,
  scene: Scene,
): readonly Given[] {
  const made = own?.madeFor?.namespace === space.name ? own : undefined;
  const asked = space.optIn === undefined ? undefined : ipams.get(space.optIn);
  if (asked === undefined || asked.deleting) {
    const isLeaving = made !== undefined || asked?.deleting === true;
    if (isLeaving && space.egressIPs !== undefined) scene.annotations.set(space.name, undefined);
    return [];
  }
  if (own !== undefined && made === undefined) {
    say(
      space,
      scene,
      `EgressIP/${own.name} is there and not ours; rename it, and this namespace gets its addresses`,
    );
    return [];
  }
  const written = space.egressIPs;
  const ours = made?.requested ?? [];
  if (made === undefined || made.madeFor?.ipam === asked.name) {
    // Without the annotation it asks for new ones.
    return [{ space, ipam: asked, addresses: written === undefined ? [] : ours }];
  }
  // It changed over: what it had of the other goes back, unless a person wrote something else there since.
  const isOld = written !== undefined && sameAddresses(written.split(","), ours);
  return [{ space: isOld ? { ...space, egressIPs: undefined } : space, ipam: asked, addresses: [] }];
}

function sameAddresses(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text) => b.includes(text));
}

function want(
  { space, ipam: of }: Given,
  addresses: readonly Address[],
  scene: Scene,
  annotate = true,
): void {
  scene.wanted.set(nameFor(space.name), { ipam: of.name, namespace: space.name, addresses });
  for (const address of addresses) scene.taken.set(address, `Namespace/${space.name}`);
  const text = addresses.join(",");
  if (annotate && space.egressIPs !== text) scene.annotations.set(space.name, text);
}

/** Those that have, or name, what they are to have; false for those that are to be given something. */
function settle(one: Given, refusals: readonly Refusal[], scene: Scene): boolean {
  const { space, ipam: of, addresses } = one;
  const asIs = () => {
    if (addresses.length > 0) want(one, addresses, scene, false);
    return true;
  };
  if (of.faults.length > 0) return asIs();
  const text = space.egressIPs;
  if (text === undefined) return false;
  const listed = text.split(",");
  if (addresses.length > 0 && sameAddresses(listed, addresses)) {
    const slots = slotsOf(of.pools, listed);
    const left = listed.filter((address) => !slots.includes(address));
    const missing = slots.includes(undefined);
    if (missing && left.length > 0) {
      say(
        space,
        scene,
        `${left.join(", ")} is in no pool of EgressIPAM/${of.name} any more; remove its annotation egressips to get others`,
      );
      return asIs();
    }
    if (missing) return false;
    want(
      one,
      slots.filter((address) => address !== undefined),
      scene,
    );
    return true;
  }
  const fault = faultIn(listed, one, refusals, scene);
  if (fault !== undefined) {
    say(space, scene, fault);
    return asIs();
  }
  want(one, listed, scene, false);
  return true;
}

/** For each pool the one of these addresses that is in it. */
function slotsOf(pools: readonly Pool[], listed: readonly string[]): readonly (Address | undefined)[] {
  return pools.map((pool) => listed.find((address) => inPool(pool, address)));
}

/** What is wrong with addresses that a person wrote; undefined when nothing is. */
function faultIn(
  listed: readonly string[],
  { space, ipam: of }: Given,
  refusals: readonly Refusal[],
  { taken }: Scene,
): string | undefined {
  if (listed.length !== of.pools.length)
    return `egressips has ${listed.length} addresses, but EgressIPAM/${of.name} has ${of.pools.length} pools; give one for each, in their order`;
  for (const [at, pool] of of.pools.entries()) {
    const text = listed[at] ?? "";
    const address = parseAddress(text);
    if (address === undefined)
      return `egressips has ${JSON.stringify(text)}, which is no IP address; separate addresses by commas alone`;
    if (!inPool(pool, address))
      return `${address} is not in ${pool.cidr.network}/${pool.cidr.length}, where the address at place ${at + 1} has to be`;
    const refusal = refusals[at]?.(address);
    if (refusal !== undefined) return `${address} ${refusal}; choose another`;
    const owner = taken.get(address);
    if (owner !== undefined && owner !== `Namespace/${space.name}`)
      return `${address} belongs to ${owner}; choose another`;
  }
  return undefined;
}

/** The lowest free address of each pool, or none of any. */
function serve(
  pending: readonly Given[],
  refusals: ReadonlyMap<string, readonly Refusal[]>,
  scene: Scene,
): void {
  const opened = new Map<string, readonly (() => Address | undefined)[]>();
  for (const one of pending) {
    const { space, ipam: of, addresses } = one;
    const next =
      opened.get(of.name) ??
      of.pools.map((pool, at) =>
        openPool(pool, refusals.get(of.name)?.[at] ?? (() => undefined), scene.taken),
      );
    opened.set(of.name, next);
    const kept = slotsOf(of.pools, addresses);
    const all = kept.map((address, at) => address ?? next[at]?.());
    const full = of.pools.filter((_, at) => all[at] === undefined);
    if (full.length === 0) {
      want(
        one,
        all.filter((address) => address !== undefined),
        scene,
      );
      continue;
    }
    const which = full.map(({ cidr }) => `${cidr.network}/${cidr.length}`).join(", ");
    say(space, scene, `no address is free in ${which} of EgressIPAM/${of.name}; widen it, or release others`);
    if (addresses.length > 0) want(one, addresses, scene, false);
  }
}
