// Where servers are, in Open vSwitch's words (ovsdb(7), "Active connections"). In: "unix:/path,tcp:1.2.3.4:6641,
// ssl:[::1]:6641". Out: endpoints in that order. Pure.
import { SettingError } from "./errors.ts";

export type Endpoint =
  | { readonly kind: "unix"; readonly path: string; readonly text: string }
  | { readonly kind: "tcp" | "ssl"; readonly host: string; readonly port: number; readonly text: string };

/** Of tcp: and ssl: without a port. */
const PORT = 6640;

/** Throws SettingError. */
export function parseEndpoints(text: string): readonly Endpoint[] {
  const endpoints = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map(parseEndpoint);
  if (endpoints.length === 0) throw new SettingError("no endpoint to connect to");
  return endpoints;
}

function parseEndpoint(text: string): Endpoint {
  const [, kind, rest = ""] = /^(unix|tcp|ssl):(.+)$/.exec(text) ?? [];
  if (kind === "unix") return { kind, path: rest, text };
  // A host with a colon in it is in brackets; `%eth0` names the link of a link-local address.
  const [, six, plain, port] =
    /^(?:\[([0-9A-Fa-f:.]+(?:%[^\]]+)?)\]|([^[\]:\s]+))(?::(\d{1,5}))?$/.exec(rest) ?? [];
  const host = six ?? plain;
  const number = port === undefined ? PORT : Number(port);
  if ((kind !== "tcp" && kind !== "ssl") || host === undefined || number < 1 || number > 65_535)
    throw new SettingError(
      `not an endpoint: ${text}; such are unix:/path, tcp:1.2.3.4:6641, ssl:[2001:db8::1]:6641`,
    );
  return { kind, host, port: number, text };
}
