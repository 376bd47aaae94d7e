// What `explain` is asked, as words and as a value. In: words of a command line, or the query of the debug socket. Out: a Question;
// throws QuestionError. Pure. One parser for both, so that a wrong word is refused before anybody is asked.
import { parseAddress } from "../../model/ip.ts";

export interface Destination {
  readonly address: string;
  readonly port?: number;
}

export type Protocol = "tcp" | "udp";

export type Question =
  /** By its name, or by one of its addresses alone. */
  | { readonly kind: "pod"; readonly pod: string; readonly to?: Destination; readonly protocol: Protocol }
  | { readonly kind: "ip"; readonly address: string }
  /** From a pod by its name, or by an address. */
  | {
      readonly kind: "packet";
      readonly from: string;
      readonly to: Destination;
      readonly protocol: Protocol;
    };

/** Which word is wrong, and what it has to be. */
export class QuestionError extends Error {
  override readonly name = "QuestionError";
}

/** As they are typed; undefined for what was not said. */
export interface Words {
  /** `pod`, `ip`, `packet`, or undefined where that is to be told by the name. */
  readonly kind?: string | undefined;
  readonly name?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly protocol?: string | undefined;
}

export function parseQuestion({ kind, name = "", from, to, protocol = "tcp" }: Words): Question {
  if (protocol !== "tcp" && protocol !== "udp")
    throw new QuestionError(`--protocol: must be tcp or udp, not ${JSON.stringify(protocol)}`);
  const towards = to === undefined ? undefined : parseDestination(to);
  switch (kind ?? (parseAddress(name) === undefined ? "pod" : "ip")) {
    case "pod":
      return {
        kind: "pod",
        pod: podIn(name, "POD"),
        protocol,
        ...(towards === undefined ? {} : { to: towards }),
      };
    case "ip":
      return { kind: "ip", address: addressIn(name, "ADDRESS") };
    case "packet":
      if (from === undefined || towards === undefined)
        throw new QuestionError("--from and --to: say where the packet comes from and where it goes");
      return {
        kind: "packet",
        from: podIn(from, "--from"),
        to: towards,
        protocol,
      };
    default:
      throw new QuestionError(`must be pod, ip or packet, not ${JSON.stringify(kind)}`);
  }
}

/** For the debug socket: `/explain?kind=packet&from=shop%2Fa1&to=…`; `what` is a name whose kind is not said. */
export function questionAt(query: URLSearchParams): Question {
  const word = (key: string) => query.get(key) ?? undefined;
  return parseQuestion({
    kind: word("kind"),
    name: word("name") ?? word("what"),
    from: word("from"),
    to: word("to"),
    protocol: word("protocol"),
  });
}

export function pathOf(words: Words): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(words)) if (value !== undefined) query.set(key, String(value));
  return `/explain?${query}`;
}

function podIn(text: string, what: string): string {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  if (/^[^/\s]+\/[^/\s]+$/.test(text)) return text;
  throw new QuestionError(
    `${what}: must be a pod as NAMESPACE/NAME, or an address, not ${JSON.stringify(text)}`,
  );
}

function addressIn(text: string, what: string): string {
  const address = parseAddress(text);
  if (address === undefined)
    throw new QuestionError(`${what}: must be an IP address, not ${JSON.stringify(text)}`);
  return address;
}

/** `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`. */
function parseDestination(text: string): Destination {
  const [, six, four, port] = /^(?:\[([^\]]+)\]|([\d.]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const address = parseAddress(six ?? four ?? text);
  const number = port === undefined ? undefined : Number(port);
  if (address === undefined || (number !== undefined && (number < 1 || number > 65535)))
    throw new QuestionError(
      `--to: must be ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT, not ${JSON.stringify(text)}`,
    );
  return number === undefined ? { address } : { address, port: number };
}

/** As it is said of a question in an answer. */
export function shownQuestion(question: Question): string {
  switch (question.kind) {
    case "ip":
      return `ip ${question.address}`;
    case "pod":
      return [
        `pod ${question.pod}`,
        ...(question.to === undefined ? [] : [`to ${shownDestination(question.to)}`, question.protocol]),
      ].join(" ");
    case "packet":
      return `packet from ${question.from} to ${shownDestination(question.to)} ${question.protocol}`;
  }
}

export function shownDestination({ address, port }: Destination): string {
  if (port === undefined) return address;
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}
