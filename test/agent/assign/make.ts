// Objects for tests of what assigns: nodes n1, n2… on 172.18.0.0/24 that may have egress IPs, and EgressIPs without any.
import { type AssignInput, assign } from "../../../agent/assign/assign.ts";
import type { Demand, Member } from "../../../agent/assign/objects.ts";
import { cidr, node } from "../make.ts";

export type MadeMember = Partial<Omit<Member, "kind" | "node">> & {
  readonly of?: Parameters<typeof node>[1];
};

export function member(name: string, { of = {}, ...rest }: MadeMember = {}): Member {
  const number = Number(/\d+$/.exec(name)?.[0] ?? 1) + 10;
  return {
    kind: "Node",
    name,
    node: node(name, {
      primary: [cidr(`172.18.${Math.floor(number / 250)}.${number % 250}/16`)],
      assignable: true,
      ...of,
    }),
    labels: {},
    ready: true,
    capacity: {},
    gateways: [],
    provider: "",
    ...rest,
  };
}

/** `demand("web", ["172.18.9.1"], { "172.18.9.1": "n1" })`: what it asks for, what it has. */
export function demand(
  name: string,
  requested: readonly string[],
  has: Readonly<Record<string, string>> = {},
  of: Partial<Demand> = {},
): Demand {
  return {
    kind: "EgressIP",
    name,
    uid: `uid-${name}`,
    version: "7",
    created: "2026-01-01T00:00:00Z",
    requested,
    unreadable: [],
    items: Object.entries(has).map(([egressIP, on]) => ({ node: on, egressIP })),
    hasAnnotations: true,
    mark: undefined,
    madeFor: undefined,
    ...of,
  };
}

/** By EgressIP: `ADDRESS NODE`. */
export function assigned(input: AssignInput): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    [...assign(input).items].map(([name, items]) => [
      name,
      items.map((item) => `${item.egressIP} ${item.node}`),
    ]),
  );
}

export function findings(input: AssignInput): readonly string[] {
  return assign(input).findings.map(({ object, reason }) => `${object} ${reason}`);
}
