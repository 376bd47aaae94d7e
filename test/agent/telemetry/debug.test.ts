// The debug socket: only its owner may open it, only one agent may have it, and no question ends the agent.
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ask, drain } from "../../../agent/commands/ask.ts";
import { serveDebug } from "../../../agent/telemetry/debug.ts";
import type { Drained } from "../../../agent/telemetry/draining.ts";

let directory = "";
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "egressip-debug-"));
});
beforeEach(() => {
  // Node does not let a thread set it for the whole process.
  vi.spyOn(process, "umask").mockReturnValue(0o022);
});
afterAll(async () => {
  await rm(directory, { recursive: true });
});

const answer = (asked: string, query: URLSearchParams): unknown => {
  if (asked === "/explain") return { what: query.get("what") };
  if (asked === "/list") return [];
  if (asked === "/broken") throw new Error("a match this walk does not know");
  return undefined;
};

function get(
  socketPath: string,
  asked: string,
  method = "GET",
): Promise<{ status: number | undefined; body: unknown }> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path: asked, method }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += String(chunk);
      });
      response.on("end", () => resolve({ status: response.statusCode, body: JSON.parse(text) }));
    });
    call.on("error", reject);
    call.end();
  });
}

describe("the debug socket", () => {
  it("answers, and goes on answering after a question that broke", async () => {
    const socket = path.join(directory, "a", "debug.sock");
    const debug = await serveDebug(socket, answer);
    try {
      expect(await get(socket, "/explain?what=shop%2Fweb")).toEqual({
        status: 200,
        body: { what: "shop/web" },
      });
      expect(await get(socket, "/broken")).toEqual({
        status: 500,
        body: { error: "Error: a match this walk does not know" },
      });
      expect((await get(socket, "//")).status).toBe(500);
      expect((await get(socket, "/nothing")).status).toBe(404);
      expect((await get(socket, "/list", "POST")).status).toBe(404);
      expect(await get(socket, "/list")).toEqual({ status: 200, body: [] });
      expect((await stat(socket)).mode & 0o777).toBe(0o600);
    } finally {
      debug.close();
    }
  });

  it("takes orders with POST, and looking is no order", async () => {
    const socket = path.join(directory, "d.sock");
    const orders: string[] = [];
    const order = (asked: string, query: URLSearchParams) => {
      orders.push(`${asked} ${query}`);
      return asked === "/drain" ? { answered: [] } : undefined;
    };
    const debug = await serveDebug(socket, answer, order);
    try {
      expect((await get(socket, "/drain?seconds=1")).status).toBe(404);
      expect((await get(socket, "/drain", "PUT")).status).toBe(404);
      expect((await get(socket, "/drain", "DELETE")).status).toBe(404);
      expect(orders).toEqual([]);
      expect(await get(socket, "/drain?seconds=1", "POST")).toEqual({ status: 200, body: { answered: [] } });
      expect((await get(socket, "/list", "POST")).status).toBe(404);
      expect(orders).toEqual(["/drain seconds=1", "/list "]);
    } finally {
      debug.close();
    }
  });

  it("tells `drain` whether it is done, what is left and why", async () => {
    const socket = path.join(directory, "e.sock");
    let drained: Drained = { node: "node1", answered: [], failures: [] };
    const debug = await serveDebug(
      socket,
      answer,
      (asked, query) => asked === "/drain" && query.get("seconds") === "3" && drained,
    );
    const printed: string[] = [];
    const draining = () => drain(socket, 3, (text) => printed.push(text));
    try {
      expect(await draining()).toBe(0);
      drained = { node: "node1", answered: ["10.10.10.50 on eth1"], failures: ["addresses: no"] };
      expect(await draining()).toBe(1);
      expect(printed).toEqual([
        "no egress IP is answered for on node1 any more\n",
        "still answered for after 3 s: 10.10.10.50 on eth1\n",
        "! addresses: no\n",
      ]);
    } finally {
      debug.close();
    }
    await expect(draining()).rejects.toThrow("is egressip-agent running");
  });

  it("is not taken from an agent that answers there, and is taken over from one that does not", async () => {
    const socket = path.join(directory, "b.sock");
    const first = await serveDebug(socket, answer);
    await expect(serveDebug(socket, answer)).rejects.toThrow(/another egressip-agent is running/);
    expect((await get(socket, "/list")).status).toBe(200);
    first.close();
    await writeFile(socket, "left behind");
    const second = await serveDebug(socket, answer);
    expect((await get(socket, "/list")).status).toBe(200);
    second.close();
  });

  it("makes commands that ask fail with what it says", async () => {
    const socket = path.join(directory, "c.sock");
    const debug = await serveDebug(socket, answer);
    const printed: string[] = [];
    const asking = (what: string) => ask(socket, what, "table", (text) => printed.push(text));
    try {
      expect(await asking("/list")).toBe(0);
      await expect(asking("/broken")).rejects.toThrow(`${socket}: Error: a match this walk does not know`);
      await expect(asking("/nothing")).rejects.toThrow("nothing at /nothing");
      expect(printed).toEqual(["(none)\n"]);
    } finally {
      debug.close();
    }
  });
});
