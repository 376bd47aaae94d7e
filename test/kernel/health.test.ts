// gRPC health on a real node: at the management port's addresses, as they are, and at no other; also while nothing can be read.
import { rename } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Lab } from "../lab/lab.ts";
import { Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const reason = canRunKernelTests();
const script = fileURLToPath(new URL("../support/health-probe.ts", import.meta.url));
const flags = { "health-port": "9107" };

describe.skipIf(reason !== undefined)(`health${reason === undefined ? "" : ` (not here: ${reason})`}`, () => {
  let lab: Lab;
  let home: Home;
  let manifests: Manifests;
  beforeAll(async () => {
    lab = await Lab.up({ prefix: `eih${process.pid}` });
    [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
  });
  afterAll(async () => {
    await home?.remove();
    await lab?.down();
    await manifests?.remove();
  });

  const at = async (address: string) =>
    (await lab.nodeExec("node1", process.execPath, [script, address, "9107"])).stdout.trim();
  const becomes = (address: string, answer: string) =>
    until(async () => (await at(address)) === answer, `${address} answers ${answer}`, 20_000);
  const address = (op: "add" | "del") =>
    lab.nodeExec("node1", "ip", ["address", op, "10.244.1.77/32", "dev", "ovn-k8s-mp0"]);

  it("is at the management port's addresses of both families, follows them, and is nowhere else", async () => {
    const agent = await home.start(manifests.directory, flags);
    await becomes("10.244.1.2", "SERVING");
    await becomes("fd00:10:244:1::2", "SERVING");
    expect(await at("172.18.0.11")).toBe("UNAVAILABLE");
    expect(await at("10.10.10.50")).toBe("UNAVAILABLE");
    await address("add");
    await becomes("10.244.1.77", "SERVING");
    await address("del");
    await address("add");
    await becomes("10.244.1.77", "SERVING");
    await address("del");
    expect(await at("10.244.1.2")).toBe("SERVING");
    expect(await agent.stop()).toBe(0);
    expect(await at("10.244.1.2")).toBe("UNAVAILABLE");
  });

  it("is there again after a restart, and while no round can be made", async () => {
    await rename(manifests.directory, `${manifests.directory}.away`);
    const agent = await home.spawn(manifests.directory, flags);
    await agent.when(({ error }) => error !== undefined, "it cannot read its objects");
    expect((await agent.status()).ready).toBe(false);
    await becomes("10.244.1.2", "SERVING");
    await rename(`${manifests.directory}.away`, manifests.directory);
    await agent.stop();
  });

  it("says that a node gives nothing when it was told to, until the next start", async () => {
    const agent = await home.start(manifests.directory, flags);
    await becomes("10.244.1.2", "SERVING");
    expect((await home.drain()).exitCode).toBe(0);
    await becomes("10.244.1.2", "NOT_SERVING");
    await agent.stop();
    const next = await home.start(manifests.directory, flags);
    await becomes("10.244.1.2", "SERVING");
    await next.stop();
  });

  it("is off where no port is given", async () => {
    const agent = await home.start(manifests.directory);
    expect(await at("10.244.1.2")).toBe("UNAVAILABLE");
    await agent.stop();
    await home.uninstall();
  });
});
