// What a server's words mean: refusals, Retry-After, events, items, paths.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isBefore, readEvent, readItem } from "../../../lib/kubernetes/events.ts";
import { nameOf, ParseError, pathOf } from "../../../lib/kubernetes/index.ts";
import { isTooLarge, refusalOf, retryAfterMs, statusError } from "../../../lib/kubernetes/status.ts";

describe("Retry-After", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  it.each([
    [undefined, undefined],
    ["3", 3_000],
    [" 0 ", 0],
    ["Thu, 01 Jan 2026 00:00:07 GMT", 7_000],
    ["Wed, 31 Dec 2025 00:00:00 GMT", 0],
    ["soon", undefined],
    ["-5", undefined],
    ["", undefined],
    ["99999999", 300_000],
  ])("%j is %j ms", (header, expected) => {
    expect(retryAfterMs(header, now)).toBe(expected);
  });

  it("is never below nothing nor above five minutes", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.nat().map(String), fc.date().map(String)), (header) => {
        const ms = retryAfterMs(header, now) ?? 0;
        expect(ms >= 0 && ms <= 300_000).toBe(true);
      }),
    );
  });
});

describe("a refusal", () => {
  const refused = (code: number, body: string, retryAfter?: string) =>
    refusalOf("GET https://server/x", { code, body, retryAfter, now: 0 });

  it("is what its Status says", () => {
    const status = {
      kind: "Status",
      code: 429,
      reason: "TooManyRequests",
      message: "storage is (re)initializing",
      details: { retryAfterSeconds: 2, kind: "pods" },
    };
    expect(refused(429, JSON.stringify(status))).toMatchObject({
      name: "StatusError",
      message: "GET https://server/x: 429 TooManyRequests: storage is (re)initializing",
      code: 429,
      reason: "TooManyRequests",
      retryAfterMs: 2_000,
      details: { kind: "pods" },
    });
    expect(refused(429, JSON.stringify(status), "9").retryAfterMs).toBe(9_000);
  });

  it("is quoted where it is none", () => {
    expect(refused(502, "<h1>Bad Gateway</h1>").message).toBe(
      "GET https://server/x: 502: <h1>Bad Gateway</h1>",
    );
    expect(refused(503, "").message).toBe("GET https://server/x: 503: no reason given");
    expect(refused(500, '"text"')).toMatchObject({ code: 500, retryAfterMs: undefined });
  });

  it("may say that the server is behind", () => {
    const of = (details: unknown) => isTooLarge(statusError("x", { code: 504, details }));
    expect(
      of({ causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }] }),
    ).toBe(true);
    expect([undefined, {}, { causes: [] }, { causes: "no" }].map(of)).toEqual([false, false, false, false]);
  });
});

const metadata = { name: "a1", namespace: "shop", uid: "u1", resourceVersion: "12" };

describe("events", () => {
  const read = (event: unknown) => readEvent(JSON.stringify(event));
  it("are told apart", () => {
    const object = { kind: "Pod", metadata };
    const item = { key: "shop/a1", version: { uid: "u1", resourceVersion: "12" }, raw: object };
    expect(read({ type: "ADDED", object })).toEqual({ type: "put", item });
    expect(read({ type: "MODIFIED", object })).toEqual({ type: "put", item });
    expect(read({ type: "DELETED", object })).toEqual({ type: "delete", item });
    expect(read({ type: "ERROR", object: { code: 410 } })).toEqual({ type: "error", status: { code: 410 } });
  });

  it("say where they are, and that all were sent", () => {
    const bookmark = (annotations?: unknown) =>
      read({ type: "BOOKMARK", object: { metadata: { resourceVersion: "13", annotations } } });
    expect(bookmark()).toEqual({ type: "bookmark", resourceVersion: "13", initialEventsEnd: false });
    expect(bookmark({ "k8s.io/initial-events-end": "true" })).toMatchObject({ initialEventsEnd: true });
    expect(bookmark({ "k8s.io/initial-events-end": "false" })).toMatchObject({ initialEventsEnd: false });
  });

  it.each([
    "",
    "null",
    "[]",
    "{",
    '{"type":"ADDED"}',
    '{"type":"ADDED","object":{}}',
    '{"type":"ADDED","object":{"metadata":{"name":"x"}}}',
    '{"type":"ADDED","object":{"metadata":{"name":"","resourceVersion":"1"}}}',
    '{"type":"ADDED","object":{"metadata":{"name":7,"resourceVersion":"1"}}}',
    '{"type":"BOOKMARK","object":{"metadata":{}}}',
    '{"type":"GONE","object":{}}',
  ])("that cannot be read are never taken for something: %s", (line) => {
    expect(() => readEvent(line)).toThrow(ParseError);
  });

  it("throw nothing but ParseError, whatever comes", () => {
    fc.assert(
      fc.property(fc.oneof(fc.json(), fc.string()), (line) => {
        for (const read of [readEvent, readItem]) {
          try {
            read(line);
          } catch (error) {
            expect(error).toBeInstanceOf(ParseError);
          }
        }
        expect(true).toBe(true);
      }),
    );
  });
});

describe("a resourceVersion", () => {
  it.each([
    ["9", "10", true],
    ["10", "9", false],
    ["10", "10", false],
    ["99999999999999999998", "99999999999999999999", true],
    ["a", "10", false],
    ["", "10", false],
  ])("%j before %j: %j", (a, b, expected) => {
    expect(isBefore(a, b)).toBe(expected);
  });
});

describe("paths", () => {
  const egressips = { group: "k8s.ovn.org", version: "v1", plural: "egressips" };
  const pods = { group: "", version: "v1", plural: "pods" };
  it("are those of the API", () => {
    expect([pathOf(pods), pathOf(pods, "shop"), pathOf(egressips)]).toEqual([
      "/api/v1/pods",
      "/api/v1/namespaces/shop/pods",
      "/apis/k8s.ovn.org/v1/egressips",
    ]);
    expect([nameOf(pods), nameOf(egressips)]).toEqual(["pods", "egressips.k8s.ovn.org"]);
  });
});
