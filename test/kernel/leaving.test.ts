// A node that leaves (BL-38) or loses the label by which egress IPs are assigned (BL-40), with status naming it as before: its agent lets
// go before anybody else has begun, and stays silent when it ends; one that only ends, or was killed, does not let go (BL-54). In: two
// agents on one network, real questions. Out: who answers, and in which order they did.
import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Run, run } from "../../lib/exec/index.ts";
import { createProber } from "../../lib/frames/index.ts";
import { Lab } from "../lab/lab.ts";
import { families, type NodeName, nodes } from "../lab/topology.ts";
import { Home } from "../support/agent.ts";
import { type KubernetesManifest, Manifests } from "../support/agent-manifests.ts";
import { watchClaims } from "../support/claims.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { assignProd, egress, secondLink } from "../support/second-network.ts";
import { until } from "../support/until.ts";

const reason = canRunKernelTests();

const assignable = "k8s.ovn.org/egress-assignable";

describe.skipIf(reason !== undefined)(
  `a node that leaves${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let manifests: Manifests;
    let homes: Readonly<Record<NodeName, Home>>;
    const macs = { node1: "", node2: "" };
    let asker = { ifindex: 0, mac: "" };
    beforeAll(async () => {
      lab = await Lab.up({ prefix: `eil${process.pid}` });
      for (const node of ["node1", "node2"] as const) macs[node] = (await secondLink(lab, node)).mac;
      const { stdout } = await run("ip", ["-n", lab.namespace("sec"), "-json", "link", "show", "lan"]);
      const [{ ifindex, address }] = JSON.parse(stdout) as [{ ifindex: number; address: string }];
      asker = { ifindex, mac: address };
    });
    beforeEach(async () => {
      homes = { node1: await Home.of(lab, "node1"), node2: await Home.of(lab, "node2") };
      manifests = await Manifests.ofExamples();
      await assignProd(manifests, "node1");
    });
    afterEach(async () => {
      for (const home of Object.values(homes)) {
        await home.uninstall();
        await home.remove();
      }
      await manifests.remove();
      await lab.unsteer("a1");
    });
    afterAll(async () => {
      await lab?.down();
    });

    const inSec: Run = (command, args, options) => lab.exec("sec", command, args, options);
    /** Node by family, of those that say that they have it; a node's own address is asked for too, or silence would prove nothing. */
    const answering = async (): Promise<readonly string[]> => {
      const control = nodes.node2.eth1;
      const targets = [...Object.values(egress), ...Object.values(control)].map((address) => ({
        ...asker,
        address,
      }));
      const answers = await createProber(inSec).probe(targets, 200);
      const nodeOf = (address: string) =>
        answers
          .filter((answer) => answer.address === address)
          .map(({ mac }) => (mac === macs.node1 ? "node1" : mac === macs.node2 ? "node2" : mac))
          .join("+");
      for (const family of families) expect(nodeOf(control[family])).toBe("node2");
      return families.map((family) => nodeOf(egress[family]));
    };
    const nobody = ["", ""];
    const sign = (change: (node: KubernetesManifest) => void, name = "node1") =>
      manifests.edit("nodes.yaml", name, change);
    const signs: readonly (readonly [string, (node: KubernetesManifest) => void])[] = [
      [
        "its label",
        ({ metadata }) => {
          metadata.labels = { ...metadata.labels, "egressip-agent.io/leaving": "" };
        },
      ],
      [
        "a taint",
        (node) => {
          node["spec"] = { taints: [{ key: "node.kubernetes.io/out-of-service", effect: "NoExecute" }] };
        },
      ],
      [
        "its deletion",
        ({ metadata }) => {
          metadata["deletionTimestamp"] = "2026-11-01T10:00:00Z";
        },
      ],
    ];
    const unlabel = ({ metadata }: KubernetesManifest) => {
      delete metadata.labels?.[assignable];
    };
    const macsOf = (claims: readonly { readonly mac: string }[]) =>
      claims.map(({ mac }) => (mac === macs.node1 ? "node1" : mac === macs.node2 ? "node2" : mac));
    const remember = () =>
      Promise.all(
        families.map((family) =>
          inSec("ip", [
            ...["neigh", "replace", egress[family]],
            ...["lladdr", macs.node1, "dev", "lan", "nud", "stale"],
          ]),
        ),
      );

    it.each(signs)(
      "by %s: silent, also when its agent ends; pods are held back; then served again",
      async (_, leave) => {
        const one = await homes.node1.start(manifests.directory);
        const two = await homes.node2.start(manifests.directory);
        expect(await answering()).toEqual(["node1", "node1"]);
        const before = await manifests.read("nodes.yaml");
        const leaks = await lab.watchLeaks();
        const sender = lab.sender("a1", { fresh: true, rate: 200 });
        await sender.answers(3, egress[4], 10_000);
        await sign(leave);
        const status = await one.when(({ held }) => held === 0, "it holds nothing");
        expect(status.unready).toBe(2);
        expect(status.problems.map(({ object }) => object)).toContain("Node/node1");
        await one.ready();
        expect(await answering()).toEqual(nobody);
        expect((await one.changes()).at(-1)).toMatch(
          /^== withdraw announce\nstop .*\nstop .*\n\n== withdraw addresses\nip address del 10\.10\.10\.50\/32 dev eth1\n/,
        );
        expect(await one.stop()).toBe(0);
        expect(await answering()).toEqual(nobody);
        // Nothing changes with a new start, as long as the sign is there.
        const again = await homes.node1.start(manifests.directory);
        expect(await again.changes()).toEqual([]);
        expect(await answering()).toEqual(nobody);
        await manifests.write("nodes.yaml", before);
        await again.serves(egress[4], egress[6]);
        await sender.answers(3, egress[4], 10_000);
        expect(await answering()).toEqual(["node1", "node1"]);
        expect([...(await sender.stop()).bySource.keys()]).toEqual([`sec/${egress[4]}`]);
        expect(await leaks.stop()).toEqual([]);
        await Promise.all([again.stop(), two.stop()]);
      },
    );

    it("no sign: who answered goes on when its agent ends, and when it is killed", async () => {
      const one = await homes.node1.start(manifests.directory);
      await one.stop();
      expect(await answering()).toEqual(["node1", "node1"]);
      const again = await homes.node1.start(manifests.directory);
      expect(await again.changes()).toEqual([]);
      await again.kill();
      expect(await answering()).toEqual(["node1", "node1"]);
    });

    it.each<[string, () => Promise<unknown>]>([
      ["is another's now", () => assignProd(manifests, "node2")],
      ["is gone altogether, so that only the record knows it", () => manifests.write("egressips.yaml", [])],
      ["is on a node that leaves", () => sign(signs[0]?.[1] ?? unlabel)],
      ["is on a node without the label", () => sign(unlabel)],
    ])(
      "its agent was killed, and the egress IP %s: the next start lets go before anything else",
      async (_, meanwhile) => {
        const one = await homes.node1.start(manifests.directory);
        await one.kill();
        await meanwhile();
        expect(await answering()).toEqual(["node1", "node1"]);
        const again = await homes.node1.start(manifests.directory);
        expect(await answering()).toEqual(nobody);
        expect((await again.changes())[0]).toMatch(
          /^== withdraw announce\nstop .*\nstop .*\n\n== withdraw addresses\nip address del 10\.10\.10\.50\/32 dev eth1\n/,
        );
        expect((await again.changes()).join("\n")).not.toMatch(/announce 10|address replace/);
        await again.stop();
      },
    );

    it("the label is taken off, then status is cleared, then given to the other node (BL-40): no two answer at once", async () => {
      const one = await homes.node1.start(manifests.directory);
      const two = await homes.node2.start(manifests.directory);
      await remember();
      const watch = await watchClaims(lab, egress);
      await sign(unlabel);
      // By the label alone: status still names it.
      await one.when(({ held }) => held === 0, "it holds nothing");
      await one.ready();
      expect(await answering()).toEqual(nobody);
      await assignProd(manifests, undefined);
      await assignProd(manifests, "node2");
      await two.serves(egress[4], egress[6]);
      await until(async () => (await answering()).every((node) => node === "node2"), "node2 answers", 10_000);
      const claims = await watch.stop();
      for (const family of families) expect(macsOf(claims[family])).toEqual(["node1", "node2"]);
      expect(two.said).not.toContain("addressAnswered");
      await Promise.all([one.stop(), two.stop()]);
    });

    it("all of that at once: no two answer at once", async () => {
      const one = await homes.node1.start(manifests.directory);
      const two = await homes.node2.start(manifests.directory);
      await remember();
      const watch = await watchClaims(lab, egress);
      await Promise.all([sign(unlabel), assignProd(manifests, "node2")]);
      await two.serves(egress[4], egress[6]);
      await one.serves();
      await until(async () => (await answering()).every((node) => node === "node2"), "node2 answers", 10_000);
      const claims = await watch.stop();
      for (const family of families) expect(macsOf(claims[family])).toEqual(["node1", "node2"]);
      await Promise.all([one.stop(), two.stop()]);
    });

    it("no node has the label: it is not in use, and the egress IP stays", async () => {
      await sign(unlabel, "node2");
      const one = await homes.node1.start(manifests.directory);
      await sign(unlabel);
      await one.lookAgain();
      await one.serves(egress[4], egress[6]);
      expect(await answering()).toEqual(["node1", "node1"]);
      await one.stop();
    });

    it("drain: ends when nobody is answered any more, with 0; holds until the agent ends, and no longer", async () => {
      const one = await homes.node1.start(manifests.directory);
      const two = await homes.node2.start(manifests.directory);
      const { exitCode, stdout } = await homes.node1.drain();
      expect([exitCode, stdout]).toEqual([0, "no egress IP is answered for on node1 any more\n"]);
      expect(await answering()).toEqual(nobody);
      const { problems, ready, held } = await one.status();
      expect([ready, held]).toEqual([true, 0]);
      expect(problems.map(({ text }) => text).join("\n")).toContain("egressip-agent drain");
      // Whatever comes meanwhile: also what is assigned to it anew.
      await assignProd(manifests, "node2");
      await two.serves(egress[4], egress[6]);
      await assignProd(manifests, "node1");
      await two.serves();
      await one.lookAgain();
      expect(await answering()).toEqual(nobody);
      expect((await homes.node1.drain()).exitCode).toBe(0);
      expect(await one.stop()).toBe(0);
      expect(await answering()).toEqual(nobody);
      const again = await homes.node1.start(manifests.directory);
      await again.serves(egress[4], egress[6]);
      expect(await answering()).toEqual(["node1", "node1"]);
      await Promise.all([again.stop(), two.stop()]);
    });

    it("drain where something fails: 0 if only the rest cannot be done, 1 and what is left if that is answered for", async () => {
      const tools = join(homes.node1.directory, "tools");
      await mkdir(tools);
      for (const [tool, words] of [
        ["ipset", "restore"],
        ["ip", "-batch"],
      ]) {
        const { stdout } = await run("sh", ["-c", `command -v ${tool}`]);
        const failing = `#!/bin/sh\nfor word in "$@"; do [ "$word" != ${words} ] || [ ! -e ${tools}/no-${tool} ] || { echo said no >&2; exit 1; }; done\nexec ${stdout.trim()} "$@"\n`;
        await writeFile(join(tools, tool ?? ""), failing);
        await chmod(join(tools, tool ?? ""), 0o755);
      }
      const environment = { PATH: `${tools}:${process.env["PATH"]}` };
      const one = await homes.node1.spawn(manifests.directory, {}, environment);
      await one.serves(egress[4], egress[6]);
      await writeFile(join(tools, "no-ip"), "");
      const refused = await homes.node1.drain("--timeout", "2");
      expect(refused.exitCode).toBe(1);
      expect(refused.stdout).toContain(`still answered for after 2 s: ${egress[4]} on eth1\n`);
      expect(refused.stdout).toMatch(/^! addresses: .*said no/m);
      expect(await answering()).toEqual(["node1", "node1"]);
      await one.stop();
      await rm(join(tools, "no-ip"));

      const again = await homes.node1.spawn(manifests.directory, {}, environment);
      await again.serves(egress[4], egress[6]);
      await writeFile(join(tools, "no-ipset"), "");
      expect((await homes.node1.drain()).exitCode).toBe(0);
      expect(await answering()).toEqual(nobody);
      expect((await again.status()).failures.map(({ backend }) => backend)).toContain("steering");
      await again.stop();
    });

    it("drain without an agent says so", async () => {
      const { exitCode, stderr } = await homes.node1.drain();
      expect(exitCode).toBe(1);
      expect(stderr).toContain("is egressip-agent running");
    });
  },
);
