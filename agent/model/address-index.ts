// Selected pods by their address, kept from one snapshot to the next by looking only at what differs. Pure.
// The value is a function of the pods alone: the previous index saves work, it never decides anything.
import type { Address } from "./ip.ts";
import { addressesOf, inOrder, type SelectedPod } from "./selection.ts";
import { changing, comparing, emptyShards, getFrom, type Shards } from "./shards.ts";

/** Pods that claim one address, the one that counts first. More than one is a fault to be named. */
export type Claims = readonly SelectedPod[];

export interface AddressIndex {
  readonly selected: Shards<SelectedPod>;
  readonly claims: Shards<Claims>;
  /** Addresses with more than one claim. */
  readonly contested: ReadonlySet<Address>;
}

export const NO_ADDRESSES: AddressIndex = Object.freeze({
  selected: emptyShards<SelectedPod>(),
  claims: emptyShards<Claims>(),
  contested: new Set<Address>(),
});

/** Addresses at a time: a few milliseconds. */
const PIECE = 2048;

/** In pieces; to be thrown away as a whole when it is not gone on with. */
export function* indexAddresses(
  previous: AddressIndex,
  selected: Shards<SelectedPod>,
): Generator<undefined, AddressIndex> {
  if (previous.selected === selected) return previous;
  const changed = new Map<Address, SelectedPod[]>();
  const claimsOf = (address: Address): SelectedPod[] => {
    const known = changed.get(address);
    if (known !== undefined) return known;
    const before = getFrom(previous.claims, address);
    const copy = before === undefined ? [] : [...before];
    changed.set(address, copy);
    return copy;
  };
  yield* comparing(previous.selected, selected, (_key, before, after) => {
    if (before !== undefined) {
      for (const address of addressesOf(before)) {
        const claims = claimsOf(address);
        claims.splice(claims.indexOf(before), 1);
      }
    }
    if (after !== undefined) for (const address of addressesOf(after)) claimsOf(address).push(after);
  });
  const contested = new Set(previous.contested);
  const updated = changing(previous.claims);
  let looked = 0;
  for (const [address, claims] of changed) {
    if (claims.length > 1) {
      claims.sort(claimOrder);
      contested.add(address);
    } else contested.delete(address);
    updated.set(address, claims.length === 0 ? undefined : claims);
    if (++looked % PIECE === 0) yield;
  }
  return Object.freeze({ selected, claims: updated.end(), contested });
}

function claimOrder(a: SelectedPod, b: SelectedPod): number {
  const names = (claim: SelectedPod) => `${claim.pod.namespace}/${claim.pod.name}`;
  return inOrder(a.by, b.by) || (names(a) < names(b) ? -1 : 1);
}
