// The floor of a list: the same pods from the same server, one JSON line each (a watch from revision 0), parsed and forgotten. In:
// server, CA and certificate files, how many; a file to keep the lines in, or to read them from in the server's place. Prints figures.
import { createReadStream, createWriteStream, readFileSync } from "node:fs";
import { Agent, request } from "undici";
import { createLineSplitter } from "../../lib/kubernetes/lines.ts";

const [server = "", ca = "", cert = "", key = "", count = "0", how = "", file = ""] = process.argv.slice(2);
const dispatcher = new Agent({
  connect: { ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) },
});
const kept = how === "keep" ? createWriteStream(file) : undefined;
const cpu = process.cpuUsage();
const start = performance.now();
const body =
  how === "file"
    ? createReadStream(file)
    : (await request(`${server}/api/v1/pods?watch=1&resourceVersion=0`, { dispatcher })).body;
const splitter = createLineSplitter(1 << 24);
let lines = 0;
let bytes = 0;
reading: for await (const chunk of body as AsyncIterable<Buffer>) {
  bytes += chunk.length;
  for (const line of splitter.push(chunk)) {
    JSON.parse(line);
    kept?.write(`${line}\n`);
    if (++lines === Number(count)) break reading;
  }
}
const { user, system } = process.cpuUsage(cpu);
const ms = performance.now() - start;
if (lines !== Number(count)) throw new Error(`${lines} lines in place of ${count}`);
if (kept !== undefined) await new Promise<void>((resolve) => kept.end(resolve));
await dispatcher.destroy();
process.stdout.write(JSON.stringify({ ms, cpu: (user + system) / 1000, bytes }));
