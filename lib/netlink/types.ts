// What a host has in its network, as iproute2 tells of it: links, addresses, routes, rules. Types alone.

export type Family = 4 | 6;

export interface Link {
  readonly index: number;
  readonly name: string;
  readonly mac: string;
  /** Administratively up. */
  readonly up: boolean;
  /** Up, with carrier: packets can leave. */
  readonly running: boolean;
  readonly mtu: number;
  /** Name of the bridge, bond or VRF it is enslaved to; "" for none. */
  readonly master: string;
  /** Table of the VRF that it is enslaved to, or is itself: its routes are there and not in main. */
  readonly vrf?: string;
}

export interface LinkAddress {
  readonly link: string;
  readonly family: Family;
  readonly address: string;
  readonly length: number;
  /** `global`, `link`, `host`, `site`. */
  readonly scope: string;
  /** IPv4 label, "" for none. */
  readonly label: string;
  /** Sorted: `deprecated`, `secondary`, `tentative`, `dadfailed`, `temporary`. */
  readonly flags: readonly string[];
}

export interface Route {
  readonly family: Family;
  /** A number in text, or `main`, `default`, `local`; no name that a host gave it. */
  readonly table: string;
  /** `unicast`, `blackhole`, `unreachable`, … */
  readonly type: string;
  /** Prefix or address in canonical text; `default` is written out as 0.0.0.0/0 or ::/0. */
  readonly destination: string;
  readonly metric: number;
  readonly protocol: string;
  /** One for a plain route, several for a multipath one, none for a blackhole. */
  readonly hops: readonly Hop[];
  readonly mtu: number;
}

export interface Hop {
  readonly gateway: string;
  readonly link: string;
  readonly onlink: boolean;
  readonly weight: number;
}

export interface Rule {
  readonly family: Family;
  readonly priority: number;
  readonly table: string;
  readonly protocol: string;
  /**
   * Selectors in the form iproute2 takes them, and what is done unless it is a look-up: `fwmark 0x100000/0x700000`,
   * `from 10.0.0.1`, `iif eth0 goto 7000`; "" for everything.
   */
  readonly selector: string;
}
