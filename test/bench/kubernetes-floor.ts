// The floors of a start, each parsed and forgotten: the pages of the list that a client asks for; the same pods one JSON line each (a
// watch from revision 0), from the server, or from a file that they were kept in. In: server, CA and certificate files, how many, which.
// Prints figures.
import { createReadStream, createWriteStream, readFileSync } from "node:fs";
import { Agent, request } from "undici";
import { createLineSplitter } from "../../lib/kubernetes/lines.ts";

const [server = "", ca = "", cert = "", key = "", pods = "0", how = "", file = ""] = process.argv.slice(2);
const wanted = Number(pods);
const dispatcher = new Agent({
  connect: { ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) },
});
const kept = how === "keep" ? createWriteStream(file) : undefined;
const cpu = process.cpuUsage();
const start = performance.now();
let count = 0;
let bytes = 0;
const get = async (query: string) => (await request(`${server}/api/v1/pods?${query}`, { dispatcher })).body;

async function readLines(body: AsyncIterable<Buffer>): Promise<void> {
  const splitter = createLineSplitter(1 << 24);
  for await (const chunk of body) {
    bytes += chunk.length;
    for (const line of splitter.push(chunk)) {
      JSON.parse(line);
      kept?.write(`${line}\n`);
      if (++count === wanted) return;
    }
  }
}

/** As large as client-go's pages, which are the agent's. */
async function readPages(): Promise<void> {
  let next = "";
  do {
    const text = await (await get(`limit=500${next}`)).text();
    bytes += text.length;
    const page = JSON.parse(text) as { items: unknown[]; metadata: { continue?: string } };
    count += page.items.length;
    next = page.metadata.continue ? `&continue=${encodeURIComponent(page.metadata.continue)}` : "";
  } while (next !== "");
}

if (how === "pages") await readPages();
else await readLines(how === "file" ? createReadStream(file) : await get("watch=1&resourceVersion=0"));
const { user, system } = process.cpuUsage(cpu);
const ms = performance.now() - start;
if (count !== wanted) throw new Error(`${count} pods in place of ${wanted}`);
if (kept !== undefined) await new Promise<void>((resolve) => kept.end(resolve));
await dispatcher.destroy();
process.stdout.write(JSON.stringify({ ms, cpu: (user + system) / 1000, bytes }));
