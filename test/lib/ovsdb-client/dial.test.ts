// Making a stream: every way in which it does not come about, and the clock that deadlines are kept by.
import { mkdtemp, rm } from "node:fs/promises";
import net, { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseEndpoints } from "../../../lib/ovsdb-client/endpoints.ts";
import { ConnectionError, dial, systemClock, TlsFilesError } from "../../../lib/ovsdb-client/index.ts";
import { readTlsFiles } from "../../../lib/ovsdb-client/tls-files.ts";
import { manualClock } from "./manual-clock.ts";

function dialed(text: string, clock = manualClock(), signal = new AbortController().signal) {
  const [endpoint] = parseEndpoints(text);
  if (endpoint === undefined) throw new Error("no endpoint");
  return dial(endpoint, { material: undefined, timeoutMs: 1_000, clock, signal });
}

async function listening(): Promise<{ port: number } & AsyncDisposable> {
  const server = net.createServer((socket) => void socket.on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

describe("dialing", () => {
  it("gives a stream over tcp, and no deadline is left behind", async () => {
    await using server = await listening();
    const clock = manualClock();
    const stream = await dialed(`tcp:127.0.0.1:${server.port}`, clock);
    expect([stream.writable, clock.waiting]).toEqual([true, 0]);
    stream.destroy();
  });

  it("rejects where nobody listens, with the cause", async () => {
    const error: unknown = await dialed("unix:/nowhere/socket").catch((why: unknown) => why);
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).toMatchObject({
      cause: { code: "ENOENT" },
      message: expect.stringContaining("unix:/nowhere/socket"),
    });
  });

  it("rejects at its deadline, and when it is given up", async () => {
    await using server = await listening();
    const clock = manualClock();
    // Connects only when Node's loop comes around; the clock has run out by then.
    const late = dialed(`tcp:127.0.0.1:${server.port}`, clock).catch((why: unknown) => why);
    clock.advance(1_000);
    expect(await late).toMatchObject({ message: expect.stringContaining("not connected within 1000 ms") });
    const giving = new AbortController();
    const given = dialed(`tcp:127.0.0.1:${server.port}`, clock, giving.signal).catch((why: unknown) => why);
    giving.abort();
    expect(await given).toBeInstanceOf(ConnectionError);
    expect(
      await dialed(`tcp:127.0.0.1:${server.port}`, clock, giving.signal).catch((why: unknown) => why),
    ).toBeInstanceOf(ConnectionError);
    expect(clock.waiting).toBe(0);
  });

  it("says which certificate files cannot be read", async () => {
    const folder = await mkdtemp(join(tmpdir(), "ovsdb-client-"));
    const file = join(folder, "none.pem");
    const error: unknown = await readTlsFiles({ keyFile: file, certFile: file, caFile: file }).catch(
      (why: unknown) => why,
    );
    expect(error).toBeInstanceOf(TlsFilesError);
    expect(error).toMatchObject({ cause: { code: "ENOENT" }, message: expect.stringContaining(file) });
    await rm(folder, { recursive: true });
  });
});

describe("the system's clock", () => {
  it("takes back also what is due already", async () => {
    let called = false;
    const cancel = systemClock.after(0, () => {
      called = true;
    });
    const turned = new Promise<void>((resolve) => setTimeout(resolve, 0));
    // Both are due when the loop comes around, so both are taken in one turn: timers come before immediates.
    for (const start = performance.now(); performance.now() - start < 3; );
    await turned;
    cancel();
    await new Promise<void>((resolve) => setImmediate(resolve));
    await new Promise<void>((resolve) => setTimeout(resolve, 0));
    expect(called).toBe(false);
  });
});
