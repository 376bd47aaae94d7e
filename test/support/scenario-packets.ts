// packets.yaml of a scenario: who sends to whom at which step, and what has to come of it. In: its text. Out: expectations. Pure.
// One file, two readers: the tracer on predicted facts and real packets in the lab.
import { parse } from "yaml";
import type { GatewayMode } from "../../agent/model/settings.ts";
import {
  type DestinationName,
  destinations,
  type Family,
  families,
  nodes,
  type PodName,
  type Protocol,
  pods,
} from "../lab/topology.ts";

/** One probe and what the server sees, or that there is no answer. */
export interface Expectation {
  readonly pod: PodName;
  readonly to: DestinationName | Named;
  readonly protocol: Protocol;
  readonly family: Family;
  readonly expect: Readonly<Record<GatewayMode, Expected>>;
}

export interface Named {
  readonly 4: string;
  readonly 6: string;
  readonly port: number;
}

export type Expected = { readonly server: string; readonly source: string } | "dropped";

/** A line of the file; lists are given as words with blanks between them. */
interface Line {
  readonly from: string;
  readonly to: string;
  readonly protocols?: string;
  readonly families?: number | string;
  readonly expect: string;
  /** In shared gateway mode, where it differs: OVN's own packets never come to the kernel. */
  readonly shared?: string;
}

/** By step. Throws an Error that names the scenario and the line. */
export function parsePackets(text: string, scenario: string): ReadonlyMap<string, readonly Expectation[]> {
  const steps = parse(text) as Readonly<Record<string, readonly Line[]>>;
  return new Map(
    Object.entries(steps).map(([step, lines]) => [
      step,
      lines.flatMap((line) => {
        try {
          return expand(line);
        } catch (cause) {
          const why = cause instanceof Error ? cause.message : String(cause);
          throw new Error(`${scenario}/packets.yaml ${step}: ${JSON.stringify(line)}: ${why}`, { cause });
        }
      }),
    ]),
  );
}

function expand(line: Line): readonly Expectation[] {
  const known = new Set(["from", "to", "protocols", "families", "expect", "shared"]);
  for (const key of Object.keys(line)) if (!known.has(key)) throw new Error(`unknown key ${key}`);
  const wanted = String(line.families ?? "4 6").split(" ");
  return line.from.split(" ").flatMap((from) => {
    if (!(from in pods)) throw new Error(`no pod ${from}`);
    const pod = from as PodName;
    return line.to.split(" ").flatMap((to) => {
      const destination = destinationOf(to);
      const protocols = line.protocols ?? (to === "api" ? "tcp" : "tcp udp");
      return protocols.split(" ").flatMap((protocol) =>
        families
          .filter((family) => wanted.includes(String(family)))
          .map((family): Expectation => {
            const local = expected(line.expect, pod, family);
            const shared = line.shared === undefined ? local : expected(line.shared, pod, family);
            return {
              pod,
              to: destination,
              protocol: protocol as Protocol,
              family,
              expect: { local, shared },
            };
          }),
      );
    });
  });
}

/** A name of the lab, or `v4,v6,port` where nobody has a name. */
function destinationOf(to: string): DestinationName | Named {
  if (to in destinations) return to as DestinationName;
  const [four, six, port] = to.split(",");
  if (four === undefined || six === undefined || port === undefined) throw new Error(`no destination ${to}`);
  return { 4: four, 6: six, port: Number(port) };
}

/**
 * `dropped`, `SERVER node` (node1's own address on that server's network), `SERVER management` (node1's management port)
 * or `SERVER ADDRESS [ADDRESS]`, one for each family; `_` for blanks in a server's name, `pod_a4`.
 */
function expected(text: string, pod: PodName, family: Family): Expected {
  if (text === "dropped") return "dropped";
  const [name = "", ...sources] = text.split(" ");
  const server = name.replaceAll("_", " ");
  const { node1 } = nodes;
  const word = sources[0];
  if (word === "node") return { server, source: node1[server === "sec" ? "eth1" : "eth0"][family] };
  if (word === "management") return { server, source: node1["ovn-k8s-mp0"][family] };
  if (word === "itself") return { server, source: pods[pod][family] };
  const source = sources.find((address) => address.includes(":") === (family === 6));
  if (source === undefined) throw new Error(`no IPv${family} source in "${text}"`);
  return { server, source };
}

/** `a1 internet tcp 4`, for messages. */
export function shownPacket({ pod, to, protocol, family }: Expectation): string {
  return `${pod} ${typeof to === "string" ? to : `${to[family]}:${to.port}`} ${protocol} ${family}`;
}
