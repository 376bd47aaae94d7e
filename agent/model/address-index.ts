// Selected pods by their address, kept from one snapshot to the next by looking only at what differs. Pure.
// The value is a function of the pods alone: the previous index saves work, it never decides anything.
import type { Address } from "./ip.ts";
import { addressesOf, inOrder, type SelectedPod } from "./selection.ts";
import { compareShards, emptyShards, getFrom, type Shards, withEntries } from "./shards.ts";

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

export function indexAddresses(previous: AddressIndex, selected: Shards<SelectedPod>): AddressIndex {
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
  compareShards(previous.selected, selected, (_key, before, after) => {
    if (before !== undefined) {
      for (const address of addressesOf(before)) {
        const claims = claimsOf(address);
        claims.splice(claims.indexOf(before), 1);
      }
    }
    if (after !== undefined) for (const address of addressesOf(after)) claimsOf(address).push(after);
  });
  const contested = new Set(previous.contested);
  const updates: (readonly [string, Claims | undefined])[] = [];
  for (const [address, claims] of changed) {
    if (claims.length > 1) {
      claims.sort(claimOrder);
      contested.add(address);
    } else contested.delete(address);
    updates.push([address, claims.length === 0 ? undefined : claims]);
  }
  return Object.freeze({ selected, claims: withEntries(previous.claims, updates), contested });
}

function claimOrder(a: SelectedPod, b: SelectedPod): number {
  const names = (claim: SelectedPod) => `${claim.pod.namespace}/${claim.pod.name}`;
  return inOrder(a.by, b.by) || (names(a) < names(b) ? -1 : 1);
}
