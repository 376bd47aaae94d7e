// A listening socket inside of a network namespace, held by this process: a child makes it there, hands it over and ends. Whoever is
// in the namespace, or reaches its address, then talks to this process. In: a namespace, an address of it, a port. Out: the listener.
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Server } from "node:net";

const child = `
  const listener = require("node:net").createServer();
  listener.on("error", (error) => process.send(error.message, () => process.exit(1)));
  const [host, port] = process.argv.slice(1);
  listener.listen({ host, port: Number(port) }, () => process.send("listens", listener, () => process.exit()));
`;

export async function listenInside(namespace: string, address: string, port: number): Promise<Server> {
  const words = ["netns", "exec", namespace, process.execPath, "-e", child, address, String(port)];
  const process_ = spawn("ip", words, { stdio: ["ignore", "ignore", "pipe", "ipc"] });
  let complaint = "";
  process_.stderr?.on("data", (chunk) => {
    complaint += String(chunk);
  });
  const closed = once(process_, "close").then(() => [complaint.trim() || "it ended"] as const);
  const [said, listener] = (await Promise.race([once(process_, "message"), closed])) as [string, Server?];
  await closed;
  if (listener === undefined) throw new Error(`cannot listen at ${address} ${port} in ${namespace}: ${said}`);
  return listener;
}
