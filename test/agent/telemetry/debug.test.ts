// The debug socket: only its owner may open it, only one agent may have it, and no question ends the agent.
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ask } from "../../../agent/commands/ask.ts";
import { serveDebug } from "../../../agent/telemetry/debug.ts";

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
