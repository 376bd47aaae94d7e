// HealthCheckRequest and HealthCheckResponse as bytes: what others write is read, and what is none is refused.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeRequest, encodeResponse } from "../../../lib/grpc-health/wire.ts";

const bytes = (...parts: readonly (string | number)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.from([part]))));

describe("HealthCheckRequest", () => {
  it.each([
    ["as grpc-go writes it", bytes(0x0a, 17, "Service_Egress_IP"), "Service_Egress_IP"],
    ["empty", bytes(), ""],
    ["with an empty service", bytes(0x0a, 0), ""],
    ["with another text before it", bytes(0x12, 1, "x", 0x0a, 1, "y"), "y"],
    ["twice: the last one counts", bytes(0x0a, 1, "x", 0x0a, 1, "y"), "y"],
    [
      "with numbers of all kinds beside it",
      bytes(0x10, 0x80, 1, 0x19, "12345678", 0x25, "1234", 0x0a, 1, "y"),
      "y",
    ],
  ])("is read %s", (_, message, service) => {
    expect(decodeRequest(message)).toBe(service);
  });

  it("of any name, and none that is cut off", () => {
    const of = (service: string) => {
      const text = Buffer.from(service);
      const length =
        text.length < 128 ? [text.length] : [(text.length % 128) | 0x80, Math.floor(text.length / 128)];
      return Buffer.concat([Buffer.from([0x0a, ...length]), text]);
    };
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 300 }), fc.nat(), (service, at) => {
        const whole = of(service);
        expect(decodeRequest(whole)).toBe(service);
        const cut = whole.subarray(0, 1 + (at % (whole.length - 1)));
        expect(() => decodeRequest(cut)).toThrow(RangeError);
      }),
    );
  });

  it("of a kind that is long gone is refused", () => {
    expect(() => decodeRequest(bytes(0x0b))).toThrow("unknown kind 3");
  });
});

describe("HealthCheckResponse", () => {
  it("is the number of the status", () => {
    expect([encodeResponse("SERVING"), encodeResponse("NOT_SERVING")]).toEqual([bytes(8, 1), bytes(8, 2)]);
  });
});
