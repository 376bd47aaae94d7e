// Makes a lab: namespaces, links, addresses, strangers' rules, servers. Refuses to when there is one of that
// prefix. Options in; effects on the kernel out, all of them inside the new namespaces.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { run } from "../../lib/exec/index.ts";
import { allEnded } from "../support/all-ended.ts";
import { namespacesOf } from "./down.ts";
import { fabricRules, fabricRuleset } from "./fabric.ts";
import { strangers } from "./strangers.ts";
import {
  apiPort,
  type Backend,
  families,
  internet,
  type NodeName,
  namespaceOf,
  nodeNames,
  nodes,
  outside,
  type Place,
  places,
  pods,
  serverPort,
} from "./topology.ts";
import { batch, type LabOptions, links, sysctls } from "./wiring.ts";

const serverScript = fileURLToPath(new URL("server.pl", import.meta.url));

/** Makes the namespaces, or throws and makes none: of two runs with the same prefix one gets them. */
export async function claim(prefix: string): Promise<void> {
  const present = await namespacesOf(prefix);
  if (present.length > 0)
    throw new Error(`there is a lab "${prefix}" already, take it down first: ${present.join(" ")}`);
  // `ip netns add` fails where the name exists, and a batch ends there.
  await ipBatch(
    [],
    places.map((place) => `netns add ${namespaceOf(prefix, place)}`),
  );
}

/** Fills the claimed namespaces. What was made before a failure stays, for `takeDown`. */
export async function build(prefix: string, options: LabOptions): Promise<void> {
  const namespace = (place: Place) => namespaceOf(prefix, place);
  await allEnded(places.map((place) => setSysctls(namespace(place), sysctls(place, options))));
  for (const [place, lines] of links(namespace)) await ipBatch(["-n", namespace(place)], lines);
  await allEnded([
    ...places.map((place) => ipBatch(["-n", namespace(place)], batch(place))),
    ...nodeNames.map((node) => addStrangers(node, namespace(node), options.backend)),
    ...families.map((family) => ipBatch(["-n", namespace("fabric"), `-${family}`], fabricRules(family))),
    inside(namespace("fabric"), "nft", ["-f", "-"], fabricRuleset()),
  ]);
  await allEnded([
    ...servers().map((server) => startServer(namespace(server.place), server)),
    ...places.map((place) => untilLinksAreUp(namespace(place))),
  ]);
}

/** The kernel tells of a carrier a moment after the command; until then IPv6 and bridge ports drop packets. */
async function untilLinksAreUp(namespace: string): Promise<void> {
  const deadline = Date.now() + 5_000;
  for (;;) {
    const { stdout } = await run("ip", [
      "-n",
      namespace,
      "-details",
      "-oneline",
      "link",
      "show",
      "type",
      "veth",
    ]);
    const late = stdout
      .split("\n")
      .filter(
        (line) => line !== "" && (!/ state UP /.test(line) || /bridge_slave state (?!forwarding)/.test(line)),
      );
    if (late.length === 0) return;
    if (Date.now() > deadline) throw new Error(`${namespace}: links did not come up: ${late.join("; ")}`);
  }
}

export async function ipBatch(args: readonly string[], lines: readonly string[]): Promise<void> {
  await run("ip", [...args, "-batch", "-"], { input: `${lines.join("\n")}\n` });
}

export async function inside(
  namespace: string,
  command: string,
  args: string[],
  input: string,
): Promise<void> {
  await run("ip", ["netns", "exec", namespace, command, ...args], { input });
}

/** Through a shell's redirections: a bare image has no sysctl command. */
export async function setSysctls(namespace: string, values: readonly [string, number][]): Promise<void> {
  const lines = values.map(([name, value]) => `echo ${value} >/proc/sys/${name.replaceAll(".", "/")}`);
  await inside(namespace, "sh", ["-e"], `${lines.join("\n")}\n`);
}

async function addStrangers(node: NodeName, namespace: string, backend: Backend): Promise<void> {
  for (const family of families) {
    const tool = `${family === 4 ? "iptables" : "ip6tables"}-${backend}-restore`;
    await inside(namespace, tool, [], strangers(node, family));
  }
}

export interface Server {
  readonly name: string;
  readonly ports: readonly number[];
  readonly addresses: readonly string[];
}

function servers(): (Server & { readonly place: Place })[] {
  const both = (addresses: { readonly 4: string; readonly 6: string }) => [addresses[4], addresses[6]];
  return [
    ...(["ext", "sec"] as const).map((place) => ({
      place,
      name: place,
      ports: [serverPort, apiPort],
      addresses: [outside[place].gateway, outside[place].server, internet].flatMap(both),
    })),
    ...nodeNames.map((place) => ({
      place,
      name: place,
      ports: [serverPort],
      addresses: [nodes[place].eth0, nodes[place].eth1].flatMap(both),
    })),
    ...(["a4", "b2"] as const).map((place) => ({
      place,
      name: `pod ${place}`,
      ports: [serverPort],
      addresses: both(pods[place]),
    })),
  ];
}

/** Outlives this process; `down` finds it by its namespace. Resolves when it listens. */
export async function startServer(namespace: string, { name, ports, addresses }: Server): Promise<void> {
  const args = [serverScript, name, ports.join(","), String(serverPort), ...addresses];
  const child = spawn("ip", ["netns", "exec", namespace, "perl", ...args], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, LC_ALL: "C" },
  });
  let complaint = "";
  child.stderr.on("data", (chunk) => {
    complaint += String(chunk);
  });
  const ended = once(child, "close").then(() => {
    throw new Error(`server "${name}" ended: ${complaint.trim()}`);
  });
  await Promise.race([once(child.stdout, "data"), ended]);
  ended.catch(() => undefined);
  child.stdout.destroy();
  child.stderr.destroy();
  child.unref();
}
