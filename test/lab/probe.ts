// One question from a namespace to a server, and what came of it.
import { type Answer, readAnswer } from "./answer.ts";
import type { Client } from "./client.ts";
import {
  type Destination,
  type DestinationName,
  destinations,
  type Family,
  families,
  type Place,
  type Protocol,
} from "./topology.ts";

export interface Probe {
  readonly from: Place;
  readonly to: DestinationName | Destination;
  readonly protocol: Protocol;
  readonly family: Family;
}

/** Either an answer or why there was none. */
export type Outcome = Answer | { readonly failed: string };

const defaultDeadlineMs = 1_000;

export function destinationOf(to: DestinationName | Destination): Destination {
  return typeof to === "string" ? destinations[to] : to;
}

export async function ask(
  client: Client,
  { to, protocol, family }: Omit<Probe, "from">,
  deadlineMs: number = defaultDeadlineMs,
): Promise<Outcome> {
  const destination = destinationOf(to);
  const { answer, failed } = await client.ask(
    "probe",
    protocol,
    destination[family],
    destination.port,
    deadlineMs,
  ).reply;
  if (answer === undefined) return { failed: failed ?? "no reason given" };
  return readAnswer(answer) ?? { failed: `unexpected answer "${answer}"` };
}

/** Every protocol and family of every pair, in a fixed order. */
export function matrix(
  from: readonly Place[],
  to: readonly (DestinationName | Destination)[],
  protocols: readonly Protocol[] = ["tcp", "udp"],
): Probe[] {
  return from.flatMap((place) =>
    to.flatMap((destination) =>
      protocols.flatMap((protocol) =>
        families.map((family) => ({ from: place, to: destination, protocol, family })),
      ),
    ),
  );
}

/** `a1 internet tcp 4: ext saw 172.18.0.11` */
export function shown({ from, to, protocol, family }: Probe, outcome: Outcome): string {
  const name = typeof to === "string" ? to : `${to[family]}:${to.port}`;
  const what = "failed" in outcome ? outcome.failed : `${outcome.server} saw ${outcome.source}`;
  return `${from} ${name} ${protocol} ${family}: ${what}`;
}
