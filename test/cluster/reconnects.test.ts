// An agent whose connections to the API server are cut again and again, while pods come and go: it holds no more afterwards (known-faults
// BL-90). RECONNECTS=1000 takes minutes.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { agentKubeconfig, egressIPDefinition } from "../support/cluster-source.ts";
import { FaultStage } from "../support/fault-stage.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const reason = noKubePrograms() ?? canRunKernelTests();
const hurried = new URL("../support/hurried.ts", import.meta.url).href;
const KINDS = ["egressips", "nodes", "namespaces", "pods"];

const TIMES = Number(process.env["RECONNECTS"] ?? 160);

interface Held {
  readonly heapUsed: number;
  readonly rss: number;
  readonly descriptors: number;
}

describe.skipIf(reason !== undefined)(
  `an agent that loses its server again and again${reason === undefined ? "" : `: ${reason}`}`,
  () => {
    let api: ApiServer;
    let stage: FaultStage;

    beforeAll(async () => {
      api = await ApiServer.up();
      await api.objects.apply(egressIPDefinition);
      await agentKubeconfig(api);
      stage = await FaultStage.up(api, 1);
    });
    afterAll(async () => {
      await stage?.down();
      await api?.close();
    });

    it(`holds after ${TIMES} times what it held after a quarter of them`, { timeout: 600_000 }, async () => {
      const agent = await stage.spawn({ NODE_OPTIONS: `--import=${hurried}` });
      await stage.has(stage.atFirst, "it gives what it is to", 60_000);
      const watches = new Set<string>();
      stage.fault = ({ verb, resource }) => {
        if (verb === "watch") watches.add(resource);
        return undefined;
      };
      const cut = async () => {
        watches.clear();
        stage.asked.length = stage.proxy.calls.length = 0;
        stage.proxy.lines.cut();
        await until(() => watches.size === KINDS.length, "it watches again", 30_000);
      };
      let reported = 0;
      const held = async (): Promise<Held> => {
        reported++;
        agent.signal("SIGUSR2");
        const lines = () => agent.said.split("\n").filter((line) => line.startsWith('{"event":"settled"'));
        await until(() => lines().length === reported, "it has settled", 20_000);
        return JSON.parse(lines().at(-1) ?? "") as Held;
      };
      const cuts = async (from: number, to: number) => {
        for (let times = from; times < to; times++) {
          if (times % 20 === 0) await stage.churn(times);
          await cut();
        }
        await stage.churn(0);
        await stage.has(stage.atFirst, "it gives what it is to", 60_000);
        return held();
      };
      const early = await cuts(0, TIMES / 4);
      const late = await cuts(TIMES / 4, TIMES);
      process.stdout.write(`${JSON.stringify({ times: TIMES, early, late })}\n`);
      expect(late.descriptors).toBeLessThanOrEqual(early.descriptors + 2);
      expect(late.heapUsed).toBeLessThan(early.heapUsed + 4_000_000);
      expect(stage.proxy.lines.open).toBeLessThanOrEqual(3);
    });
  },
);
