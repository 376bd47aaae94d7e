// The two messages of grpc.health.v1.Health/Check as bytes (health.proto of gRPC; the protocol buffers encoding guide). Pure.
// By hand: they have one field each, and a loader of .proto files would cost more memory than the server.

/** Of `HealthCheckResponse.ServingStatus`. */
export type ServingStatus = "SERVING" | "NOT_SERVING";

const NUMBERS: Readonly<Record<ServingStatus, number>> = { SERVING: 1, NOT_SERVING: 2 };

/** `HealthCheckResponse { ServingStatus status = 1 }`. */
export function encodeResponse(status: ServingStatus): Buffer {
  return Buffer.from([0x08, NUMBERS[status]]);
}

/** `HealthCheckRequest { string service = 1 }`: the service; empty where none is named. Throws RangeError for what is none. */
export function decodeRequest(bytes: Uint8Array): string {
  let at = 0;
  let service = "";
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = bytes[at++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw new RangeError("HealthCheckRequest ends within a number");
  };
  const skip = (length: number): Uint8Array => {
    const part = bytes.subarray(at, at + length);
    if (part.length < length) throw new RangeError("HealthCheckRequest ends within a field");
    at += length;
    return part;
  };
  while (at < bytes.length) {
    const tag = varint();
    const kind = tag % 8;
    if (kind === 2) {
      const value = skip(varint());
      if (Math.floor(tag / 8) === 1) service = Buffer.from(value).toString("utf8");
    } else if (kind === 0) varint();
    else if (kind === 1) skip(8);
    else if (kind === 5) skip(4);
    else throw new RangeError(`HealthCheckRequest has a field of the unknown kind ${kind}`);
  }
  return service;
}
