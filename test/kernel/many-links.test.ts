// Ten links that host egress IPs: a rule for each and none for anything else; one that goes down and comes up again has only its
// own lines written, takes nothing of the others' traffic with it, and lets nothing out meanwhile.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it, onTestFailed } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { egressAddresses, podAddresses } from "../bench/manifests.ts";
import { linkLines, openWorld, settingsFor, type World } from "../bench/world.ts";
import { capture } from "../lab/capture.ts";
import { type Client, startClient } from "../lab/client.ts";
import { startSender } from "../lab/sender.ts";
import { type Family, families } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const serverScript = fileURLToPath(new URL("../lab/server.pl", import.meta.url));
const PORT = 8080;
/** Egress IPs of each link and family, so that SNAT rules stand in chains of their own; a pod for each. */
const EACH = 3;
const FLAPPING = 2;

const destination = (n: number) => ({ 4: `198.51.100.${100 + n}`, 6: `2001:db8:51::${100 + n}`, port: PORT });

/** Pod n has egress IP n, which is on link n of the first ones. What it sends goes to a destination of its own. */
function peopled(world: World) {
  const links = world.links.map((_, n) => n);
  const pod = [
    "address add fd00:10:244:1::1/64 dev eth0 nodad",
    ...links.flatMap((n) => {
      const [four = "", six = ""] = podAddresses(n, true);
      return [
        `address replace ${four}/32 dev eth0`,
        `address add ${six}/128 dev eth0 nodad`,
        `route add ${destination(n)[4]} via 10.244.1.2 src ${four}`,
        `route add ${destination(n)[6]} via fd00:10:244:1::2 src ${six}`,
      ];
    }),
  ];
  const outside = links.flatMap((n) =>
    families.map((family) => `address add ${destination(n)[family]} dev lo`),
  );
  return Promise.all([
    world.exec(world.pod, "ip", ["-batch", "-"], `${pod.join("\n")}\n`),
    world.exec(world.outside, "ip", ["-batch", "-"], `${outside.join("\n")}\n`),
    // Answers leave by the link that the egress IP is on; nothing else does.
    world.exec(world.outside, "sysctl", ["-qw", "net.ipv6.conf.all.forwarding=0"]),
  ]);
}

async function serve(world: World) {
  const addresses = world.links.flatMap((_, n) => families.map((family) => destination(n)[family]));
  const words = [serverScript, "outside", String(PORT), String(PORT), ...addresses];
  const server = spawn("ip", ["netns", "exec", world.outside, "perl", ...words], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(server.stdout, "data");
  return server;
}

/** Rows of a listing that tell of one routing rule, SNAT rule or entry. */
async function counts(world: World, family: Family) {
  const lines = async (command: string, args: readonly string[], which: string) =>
    (await world.exec(world.node, command, args)).split("\n").filter((line) => line.includes(which)).length;
  return {
    rules: await lines("ip", [`-${family}`, "rule", "show", "pref", "6000"], "lookup"),
    snat: await lines(family === 4 ? "iptables-save" : "ip6tables-save", ["-t", "nat"], "--to-source"),
    entries: await lines("ipset", ["save", `egressip${family}`], "add "),
  };
}

interface Block {
  readonly title: string;
  readonly lines: readonly string[];
}

const blocksOf = (texts: readonly string[]): readonly Block[] =>
  texts
    .join("\n")
    .split(/^== /m)
    .slice(1)
    .map((block) => {
      const [title = "", ...lines] = block.trim().split("\n");
      return { title, lines };
    });

/** Of one table and one file there is only the whole: what else is in them stands there again. */
const isWhole = ({ title }: Block) => /(leak-guard|record)$/.test(title);

const reason = canRunKernelTests();

describe.skipIf(reason !== undefined)(`links${reason === undefined ? "" : ` (not here: ${reason})`}`, () => {
  /** By number of links: what a flap wrote. */
  const written = new Map<number, readonly Block[]>();

  describe.each([3, 10])("%i of them", (links) => {
    let world: World;
    let home: Home;
    let agent: Agent;
    let client: Client;
    let server: Awaited<ReturnType<typeof serve>>;
    let manifests: string;

    beforeAll(async () => {
      world = await openWorld({ links });
      await peopled(world);
      server = await serve(world);
      client = startClient(world.pod);
      home = await Home.of({
        namespace: () => world.node,
        nodeExec: (_node, command, args, options) =>
          run("ip", ["netns", "exec", world.node, command, ...args], options),
      });
      const size = { pods: links * EACH, egressIPs: links * EACH, dual: true, links };
      manifests = settingsFor(world, size)["EGRESSIP_MANIFESTS"] as string;
      agent = await home.start(manifests);
    });
    afterAll(async () => {
      client?.close();
      server?.kill();
      await home?.remove();
      await world?.close();
    });

    const egressIPOf = (n: number, family: Family) =>
      egressAddresses(n, true, links)[family === 4 ? 0 : 1] as string;

    it("are a rule each, with an SNAT rule an egress IP and an entry a pod", async () => {
      const egressIPs = links * EACH;
      for (const family of families)
        expect(await counts(world, family)).toEqual({ rules: links, snat: egressIPs, entries: egressIPs });
    });

    it("go down and come up one by one: the others' traffic loses nothing, and nothing leaks", async () => {
      const flapping = world.links[FLAPPING] as string;
      const streams = world.links.flatMap((_, n) =>
        families.map((family) => ({
          n,
          family,
          source: egressIPOf(n, family),
          sender: startSender(client, { to: destination(n), family, rate: 100, fresh: true }),
        })),
      );
      onTestFailed(async () => {
        await Promise.all(streams.map(({ sender }) => sender.stop()));
      });
      const seen = (which: typeof streams, count: number) =>
        Promise.all(which.map(({ sender, source }) => sender.answers(count, source, 20_000)));
      await seen(streams, 30);
      // A link that is new sends nothing by IPv6 until its own address is nobody else's: counted from here on.
      const sent = await Promise.all(streams.map(({ sender }) => sender.sent()));
      // Whatever leaves for one of the destinations has its own egress IP, or is shown here.
      const own = streams.map(
        ({ n, family, source }) => `(dst host ${destination(n)[family]} and src host ${source})`,
      );
      const leaks = await capture(
        world.outside,
        "any",
        `udp dst port ${PORT} and inbound and not (${own.join(" or ")})`,
      );
      const before = (await agent.changes()).length;

      await agent.paused(() => run("ip", ["-n", world.node, "link", "set", flapping, "down"]));
      await until(async () => (await agent.changes()).length > before, "the agent has written something");
      await agent.lookAgain();
      const others = streams.filter(({ n }) => n !== FLAPPING);
      await seen(others, 30);
      const restore = `${linkLines(flapping).join("\n")}\n`;
      await agent.paused(() => world.exec(world.node, "ip", ["-batch", "-"], restore));
      await seen(streams, 30);
      await agent.lookAgain();
      written.set(links, blocksOf((await agent.changes()).slice(before)));

      for (const [at, { n, source, sender }] of streams.entries()) {
        const { bySource, timeline } = await sender.stop();
        expect([...bySource.keys()]).toEqual([`outside/${source}`]);
        const lost = timeline.filter(
          ({ answer, last }) => answer === undefined && last >= (sent[at] as number),
        );
        if (n === FLAPPING) expect(lost).not.toEqual([]);
        else expect({ source, lost }).toEqual({ source, lost: [] });
      }
      expect(await leaks.stop()).toEqual([]);
      for (const family of families) expect((await counts(world, family)).rules).toBe(links);
    });

    it("are written alone: no line names another", async () => {
      const listed = JSON.parse(await world.exec(world.node, "ip", ["-json", "link", "show"])) as {
        readonly ifname: string;
        readonly ifindex: number;
      }[];
      const words = new Set<string>();
      for (const [at, link] of world.links.entries()) {
        if (at === FLAPPING) continue;
        words.add(link).add(String(1000 + (listed.find(({ ifname }) => ifname === link)?.ifindex ?? 0)));
        for (let n = at; n < links * EACH; n += links)
          for (const address of [...egressAddresses(n, true, links), ...podAddresses(n, true)])
            words.add(address);
      }
      const blocks = written.get(links) ?? [];
      const lines = blocks.filter((block) => !isWhole(block)).flatMap((block) => block.lines);
      expect(lines.length).toBeGreaterThan(EACH);
      expect(lines.filter((line) => line.split(/[\s/]+/).some((word) => words.has(word)))).toEqual([]);
      // Chains by number: only this link's block.
      const chains = new Set(lines.flatMap((line) => /EGRESSIP-SNAT-[0-9a-f-]+/.exec(line) ?? []));
      expect(chains.size).toBe(1);
    });

    it("and what there is only as a whole says of the others the same as before", () => {
      const own = new Set<string>(
        families.flatMap((family) => [world.links[FLAPPING] ?? "", egressIPOf(FLAPPING, family)]),
      );
      for (let n = FLAPPING; n < links * EACH; n += links)
        for (const address of egressAddresses(n, true, links)) own.add(address);
      const ofOthers = ({ lines }: Block) =>
        lines
          .flatMap((line) => line.split(/[\s{}[\],]+/))
          .filter((word) => !own.has(word.replace(/^.*:"|"|\/.*$/g, "")) && word !== "");
      const wholes = Map.groupBy((written.get(links) ?? []).filter(isWhole), ({ title }) =>
        title.split(" ").at(-1),
      );
      expect(new Set(wholes.keys())).toEqual(new Set(["leak-guard", "record"]));
      for (const blocks of wholes.values()) {
        expect(blocks.length).toBeGreaterThan(1);
        expect(new Set(blocks.map((block) => ofOthers(block).join(" "))).size).toBe(1);
      }
    });
  });

  it("a flap of one of ten writes as many lines as one of three", () => {
    const tally = (links: number) => {
      const sums = new Map<string, number>();
      for (const { title, lines } of written.get(links) ?? [])
        if (!/announce/.test(title)) sums.set(title, (sums.get(title) ?? 0) + lines.length);
      return Object.fromEntries([...sums].sort(([a], [b]) => (a < b ? -1 : 1)));
    };
    expect(Object.keys(tally(10)).length).toBeGreaterThan(3);
    expect(tally(10)).toEqual(tally(3));
  });
});
