// The health server on loopback, asked by a gRPC client as the cluster manager asks: both families, plain text and TLS,
// addresses that come and go, certificates that are replaced.
import { execFile } from "node:child_process";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHealthServer, type HealthOptions } from "../../../lib/grpc-health/index.ts";
import { Prober, probe } from "../../support/health-probe.ts";
import { until } from "../../support/until.ts";

const exec = promisify(execFile);

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "::", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** What was told of each subject, in order: "well" or the error. */
async function serve(of: Partial<HealthOptions> = {}) {
  const told: (readonly [string, string])[] = [];
  const port = of.port ?? (await freePort());
  const server = createHealthServer({
    status: (service) => (service === "Service_Egress_IP" ? "SERVING" : "NOT_SERVING"),
    onFailure: (subject, error) => void told.push([subject, error?.message ?? "well"]),
    ...of,
    port,
  });
  const listening = (...addresses: readonly string[]) => {
    const before = told.length;
    server.listen(addresses);
    return until(
      () => addresses.every((address) => told.slice(before).some(([subject]) => subject === address)),
      `it listens at ${addresses.join(" and ")}`,
    );
  };
  return { ...server, port, told, listening, [Symbol.dispose]: () => server.close() };
}

describe("the health server", () => {
  it.each(["127.0.0.1", "::1"])("answers at %s", async (address) => {
    using server = await serve();
    await server.listening(address);
    const ask = (service: string, method?: string) =>
      probe({ address, port: server.port, service, ...(method === undefined ? {} : { method }) });
    expect(await ask("Service_Egress_IP")).toBe("SERVING");
    expect(await ask("")).toBe("NOT_SERVING");
    expect(await ask("another")).toBe("NOT_SERVING");
    expect(await ask("Service_Egress_IP", "Watch")).toBe("UNIMPLEMENTED");
  });

  it("listens at what it is told and at nothing else", async () => {
    using server = await serve();
    const { port } = server;
    await server.listening("127.0.0.1", "127.0.0.2");
    expect(await probe({ address: "127.0.0.3", port })).toBe("UNAVAILABLE");
    using other = new Prober({ address: "127.0.0.2", port });
    using kept = new Prober({ address: "127.0.0.1", port });
    expect([await other.ask(), await kept.ask()]).toEqual(["SERVING", "SERVING"]);
    server.listen(["127.0.0.1"]);
    // Also who is connected is not answered any more.
    expect(await other.ask()).toBe("UNAVAILABLE");
    expect(await kept.ask()).toBe("SERVING");
  });

  it("tells of an address that it cannot have, and tries it again when it is told the next time", async () => {
    using first = await serve();
    await first.listening("127.0.0.1");
    using second = await serve({ port: first.port });
    await second.listening("127.0.0.1");
    expect(second.told).toEqual([["127.0.0.1", expect.stringContaining("EADDRINUSE")]]);
    first.close();
    await second.listening("127.0.0.1");
    expect(second.told.at(-1)).toEqual(["127.0.0.1", "well"]);
    expect(await probe({ address: "127.0.0.1", port: first.port })).toBe("SERVING");
  });

  it("is there again for who was connected before it was started again", async () => {
    using first = await serve();
    await first.listening("127.0.0.1");
    using manager = new Prober({ address: "127.0.0.1", port: first.port });
    expect(await manager.ask()).toBe("SERVING");
    first.close();
    using second = await serve({ port: first.port });
    await second.listening("127.0.0.1");
    expect(await probe({ address: "127.0.0.1", port: first.port })).toBe("SERVING");
  });
});

describe("the health server with a certificate", () => {
  let folder: string;
  const file = (name: string) => join(folder, name);
  const make = (name: string) =>
    exec(
      "openssl",
      `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ovn -keyout ${name}.key -out ${name}.pem`.split(
        " ",
      ),
      { cwd: folder },
    );
  const install = (certificate: string, key: string) =>
    Promise.all([
      copyFile(file(`${certificate}.pem`), file("tls.crt")),
      copyFile(file(`${key}.key`), file("tls.key")),
    ]);
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "egressip-health-"));
    await Promise.all([make("one"), make("two")]);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const serveTls = () =>
    serve({ identity: { certificateFile: file("tls.crt"), keyFile: file("tls.key"), checkMs: 5 } });
  const asked = (port: number, authority: string, address = "127.0.0.1") =>
    probe({ address, port, tls: { caFile: file(`${authority}.pem`), name: "ovn" } });

  it("answers who knows its authority, in both families, and nobody in plain text", async () => {
    await install("one", "one");
    using server = await serveTls();
    await server.listening("127.0.0.1", "::1");
    await until(() => server.told.some(([subject]) => subject === file("tls.crt")), "the files were read");
    expect(await asked(server.port, "one")).toBe("SERVING");
    expect(await asked(server.port, "one", "::1")).toBe("SERVING");
    expect(await asked(server.port, "two")).toBe("UNAVAILABLE");
    expect(await probe({ address: "127.0.0.1", port: server.port })).not.toBe("SERVING");
    using plain = await serve();
    await plain.listening("127.0.0.1");
    expect(await asked(plain.port, "one")).not.toBe("SERVING");
  });

  it("goes on with what it had through half of a rotation, and takes the new pair when it is whole", async () => {
    await install("one", "one");
    using server = await serveTls();
    await server.listening("127.0.0.1");
    const last = () => server.told.filter(([subject]) => subject === file("tls.crt")).at(-1)?.[1];
    await until(() => last() === "well", "the first pair was read");
    using connected = new Prober({
      address: "127.0.0.1",
      port: server.port,
      tls: { caFile: file("one.pem"), name: "ovn" },
    });
    expect(await connected.ask()).toBe("SERVING");
    await install("two", "one");
    await until(() => last()?.includes("key values mismatch"), "it says that the pair does not fit");
    expect(await asked(server.port, "one")).toBe("SERVING");
    await install("two", "two");
    await until(() => last() === "well", "the second pair was read");
    expect(await asked(server.port, "two")).toBe("SERVING");
    expect(await asked(server.port, "one")).toBe("UNAVAILABLE");
    expect(await connected.ask()).toBe("SERVING");
  });
});
