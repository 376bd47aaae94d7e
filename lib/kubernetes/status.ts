// What a server says when it says no. In: HTTP status, headers and body, or the object of an ERROR event. Out: a StatusError.
// Bodies that are no Status (of a proxy on the way) are quoted. Pure.
import { type StatusDetails, StatusError } from "./errors.ts";

/** Longer than this we do not stay away, whatever is asked for. */
const MOST_RETRY_AFTER_MS = 300_000;

/** Seconds, or an HTTP date (RFC 9110, 10.2.3) that `now` (of Date.now()) is held against. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  // Date.parse takes nearly anything for a date; an HTTP date begins with its weekday.
  const at = /^[A-Z][a-z]+,? /.test(text) ? Date.parse(text) : Number.NaN;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : at - now;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MOST_RETRY_AFTER_MS);
}

export interface Refusal {
  readonly code: number;
  readonly retryAfter: string | undefined;
  readonly body: string;
  readonly now: number;
}

export function refusalOf(
  asked: string,
  { code, retryAfter, body, now }: Refusal,
  cause?: unknown,
): StatusError {
  let status: unknown;
  try {
    status = JSON.parse(body);
  } catch {
    status = undefined;
  }
  const fromHeader = retryAfterMs(retryAfter, now);
  if (isStatus(status)) return statusError(asked, status, code, fromHeader, cause);
  const message = body.trim().slice(0, 500) || "no reason given";
  return new StatusError(
    asked,
    { code, reason: "", message, retryAfterMs: fromHeader, details: undefined },
    cause,
  );
}

/** A Status that came inside of an answer, as the object of an ERROR event. */
export function statusError(
  asked: string,
  status: Readonly<Record<string, unknown>>,
  code = 0,
  fromHeader?: number,
  cause?: unknown,
): StatusError {
  const details = isObject(status["details"]) ? (status["details"] as StatusDetails) : undefined;
  const seconds = details?.retryAfterSeconds;
  return new StatusError(
    asked,
    {
      code: typeof status["code"] === "number" ? status["code"] : code,
      reason: text(status["reason"]),
      message: text(status["message"]) || "no reason given",
      retryAfterMs:
        fromHeader ??
        (typeof seconds === "number" && seconds > 0
          ? retryAfterMs(String(Math.ceil(seconds)), 0)
          : undefined),
      details,
    },
    cause,
  );
}

/** The server's data is behind the resourceVersion that it was asked with: it was restored, or lags. */
export const isTooLarge = ({ details }: StatusError): boolean =>
  Array.isArray(details?.causes) && details.causes.some(({ reason }) => reason === "ResourceVersionTooLarge");

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isStatus = (value: unknown): value is Readonly<Record<string, unknown>> =>
  isObject(value) && value["kind"] === "Status";
