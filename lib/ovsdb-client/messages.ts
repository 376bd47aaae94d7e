// JSON-RPC 1.0 messages as RFC 7047 (4) has them. In: the text of one message. Out: request, notification or reply. Pure.
import { ParseError, RemoteError } from "./errors.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

export type Message =
  | { readonly kind: "request"; readonly method: string; readonly params: readonly Json[]; readonly id: Json }
  | { readonly kind: "notification"; readonly method: string; readonly params: readonly Json[] }
  | { readonly kind: "reply"; readonly result: Json; readonly error: Json; readonly id: Json };

export const isObject = (value: unknown): value is { readonly [name: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Throws ParseError. An id may be anything: string, number, object; null or none makes a notification. */
export function parseMessage(text: string): Message {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ParseError(`not JSON: ${shown(text)}`, cause);
  }
  if (!isObject(value)) throw new ParseError(`not a JSON object: ${shown(text)}`);
  const { method, id = null, params = [] } = value;
  if (method !== undefined) {
    if (typeof method !== "string") throw new ParseError(`a method that is no text: ${shown(text)}`);
    if (!Array.isArray(params)) throw new ParseError(`params that are no array: ${shown(text)}`);
    return id === null ? { kind: "notification", method, params } : { kind: "request", method, params, id };
  }
  if (!("result" in value) && !("error" in value))
    throw new ParseError(`neither request nor reply: ${shown(text)}`);
  return { kind: "reply", result: value["result"] ?? null, error: value["error"] ?? null, id };
}

/** ovsdb-server has the error as an object with `error` and `details`, or, for unknown methods, as a text. */
export function remoteError(method: string, error: Json): RemoteError {
  if (typeof error === "string") return new RemoteError(method, error, "");
  if (isObject(error) && typeof error["error"] === "string") {
    const { error: word, details, syntax } = error;
    const parts = [details, typeof syntax === "string" ? `syntax ${syntax}` : ""];
    return new RemoteError(
      method,
      word,
      parts.filter((part) => typeof part === "string" && part !== "").join("; "),
    );
  }
  return new RemoteError(method, JSON.stringify(error), "");
}

const shown = (text: string): string => text.slice(0, 200);
