// Lines for `ip -batch` that several places need. Pure.
import { type Addresses, type Family, families } from "./topology.ts";

export const bits = { 4: 32, 6: 128 } as const;

/** An address line; nodad so that IPv6 is usable at once. */
export function address(
  addresses: Addresses,
  length: Readonly<Record<Family, number>>,
  device: string,
): string[] {
  return families.map(
    (family) =>
      `addr add ${addresses[family]}/${length[family]} dev ${device}${family === 6 ? " nodad" : ""}`,
  );
}

export const subnet = { 4: 24, 6: 64 } as const;
