// Who has which address and how many each node has, while addresses are given. In: what is taken, one by one. Out: counts. Pure.
// Its life is one call of assign().
import { type Address, familyOf } from "../model/ip.ts";
import { familyCapacity, type Member } from "./objects.ts";

export interface Ledger {
  take(owner: string, address: Address, node: string): void;
  /** Its owner's, though no node has it now. */
  reserve(owner: string, address: Address): void;
  ownerOf(address: Address): string | undefined;
  loadOf(node: string, family?: 4 | 6): number;
  /** Nodes looked at so far. */
  compared: number;
}

export function openLedger(nodes: Iterable<string>): Ledger {
  const owners = new Map<Address, string>();
  const loads = new Map([...nodes].map((name) => [name, { 4: 0, 6: 0 }]));
  return {
    compared: 0,
    take: (owner, address, node) => {
      owners.set(address, owner);
      const load = loads.get(node);
      if (load !== undefined) load[familyOf(address)]++;
    },
    reserve: (owner, address) => void owners.set(address, owner),
    ownerOf: (address) => owners.get(address),
    loadOf: (node, family) => {
      const load = loads.get(node);
      if (load === undefined) return 0;
      return family === undefined ? load[4] + load[6] : load[family];
    },
  };
}

/** Whether the cloud lets the node have one more. */
export function hasRoom({ name, capacity }: Member, address: Address, ledger: Ledger): boolean {
  const family = familyOf(address);
  const ofFamily = capacity[familyCapacity(family)];
  return (
    (capacity.ip === undefined || ledger.loadOf(name) < capacity.ip) &&
    (ofFamily === undefined || ledger.loadOf(name, family) < ofFamily)
  );
}
