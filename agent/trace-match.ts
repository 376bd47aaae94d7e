// Whether a packet meets a match of OVN's logical flow language (ovn-sb(5), "Expression"). In: the text, the packet, members of
// sets. Out: true, false, or undefined where that depends on something that is not known here. Pure.
// Only what policies and ACLs around egress IPs say: addresses, ports, marks, links, connection state; and, or, not, lists, sets.
import { familyOf } from "./model/ip.ts";
import { within } from "./trace-rule.ts";

export interface Matched {
  readonly family: 4 | 6;
  readonly source: string;
  readonly destination: string;
  readonly protocol: string;
  readonly port: number | undefined;
  readonly inport: string;
  readonly mark: number;
  /** Whether the set of this name has this address; undefined for a set nobody here knows. */
  readonly inSet: (set: string, address: string) => boolean | undefined;
}

type Truth = boolean | undefined;

const TOKEN = /\/\*.*?\*\/|\s+|&&|\|\||==|!=|[<>]=?|[!(){},]|"[^"]*"|[^\s&|=!<>(){},"]+/gy;

export function meets(match: string, packet: Matched): Truth {
  const tokens = (match.match(TOKEN) ?? []).filter((token) => !/^(\s|\/\*)/.test(token));
  const reader = { tokens, at: 0 };
  const truth = anyOf(reader, packet);
  return reader.at === tokens.length ? truth : undefined;
}

interface Reader {
  readonly tokens: readonly string[];
  at: number;
}

function anyOf(reader: Reader, packet: Matched): Truth {
  let truth = allOf(reader, packet);
  while (takes(reader, "||")) truth = or(truth, allOf(reader, packet));
  return truth;
}

function allOf(reader: Reader, packet: Matched): Truth {
  let truth = one(reader, packet);
  while (takes(reader, "&&")) truth = and(truth, one(reader, packet));
  return truth;
}

function one(reader: Reader, packet: Matched): Truth {
  if (takes(reader, "!")) return not(one(reader, packet));
  if (takes(reader, "(")) {
    const truth = anyOf(reader, packet);
    return takes(reader, ")") ? truth : undefined;
  }
  const field = next(reader);
  const operator = /^([=!]=|[<>]=?)$/.exec(reader.tokens[reader.at] ?? "")?.[0];
  if (operator === undefined) return holds(field, packet);
  reader.at++;
  const values = takes(reader, "{") ? list(reader) : [next(reader)];
  const truth = compare(field, values, packet);
  if (operator === "==") return truth;
  // As OVN has it: a packet of another protocol has no such field, whatever it is compared with.
  if (operator === "!=") return hasField(field, packet) ? not(truth) : false;
  return undefined;
}

function list(reader: Reader): readonly string[] {
  const values: string[] = [];
  while (reader.at < reader.tokens.length && !takes(reader, "}"))
    if (!takes(reader, ",")) values.push(next(reader));
  return values;
}

function takes(reader: Reader, token: string): boolean {
  if (reader.tokens[reader.at] !== token) return false;
  reader.at++;
  return true;
}

function next(reader: Reader): string {
  return reader.tokens[reader.at++] ?? "";
}

/** A first packet of a connection is no reply, and its state was not asked for yet. */
function holds(field: string, { family, protocol }: Matched): Truth {
  const known: Readonly<Record<string, boolean>> = {
    ip: true,
    ip4: family === 4,
    ip6: family === 6,
    tcp: protocol === "tcp",
    udp: protocol === "udp",
    "ct.trk": false,
    "ct.rpl": false,
    "1": true,
    "0": false,
  };
  return Object.hasOwn(known, field) ? known[field] : undefined;
}

function hasField(field: string, { family, protocol }: Matched): boolean {
  const [of = ""] = field.split(".");
  if (of === "ip4" || of === "ip6") return of === `ip${family}`;
  return of === "tcp" || of === "udp" ? of === protocol : true;
}

function compare(field: string, values: readonly string[], packet: Matched): Truth {
  if (!hasField(field, packet)) return false;
  const { source, destination, inport, mark, port } = packet;
  switch (field) {
    case "ip4.src":
    case "ip6.src":
      return values.map((value) => isIn(value, source, packet)).reduce(or, false);
    case "ip4.dst":
    case "ip6.dst":
      return values.map((value) => isIn(value, destination, packet)).reduce(or, false);
    case "inport":
      return values.includes(`"${inport}"`);
    case "pkt.mark":
      return values.some((value) => Number(value) === mark);
    case "tcp.dst":
    case "udp.dst":
      return port === undefined ? undefined : values.some((value) => Number(value) === port);
    default:
      return undefined;
  }
}

function isIn(value: string, address: string, { inSet }: Matched): Truth {
  if (value.startsWith("$")) return inSet(value.slice(1), address);
  return value.includes("/") || familyOf(value) === familyOf(address) ? within(value, address) : undefined;
}

function and(a: Truth, b: Truth): Truth {
  if (a === false || b === false) return false;
  return a === undefined || b === undefined ? undefined : true;
}

function or(a: Truth, b: Truth): Truth {
  return not(and(not(a), not(b)));
}

function not(truth: Truth): Truth {
  return truth === undefined ? undefined : !truth;
}
