// What befalls the API server itself, with agents at work on nodes and kernels of their own: history that is not told any more (BL-93),
// other certificates (BL-94), a restart, and a store from a copy of earlier, also one that has come as far again before it is asked.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { allEnded } from "../support/all-ended.ts";
import { agentKubeconfig, egressIPDefinition, object } from "../support/cluster-source.ts";
import { FaultStage } from "../support/fault-stage.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const reason = noKubePrograms() ?? canRunKernelTests();
const HEALED_MS = 60_000;

describe.skipIf(reason !== undefined)(
  `agents whose API server becomes another${reason === undefined ? "" : `: ${reason}`}`,
  () => {
    let api: ApiServer;
    const stages: FaultStage[] = [];
    const at = (number: 0 | 1) => stages[number] as FaultStage;

    beforeAll(async () => {
      api = await ApiServer.up();
      await api.objects.apply(egressIPDefinition);
      await agentKubeconfig(api);
      for (const number of [1, 2]) stages.push(await FaultStage.up(api, number));
      for (const stage of stages) await stage.spawn();
      for (const stage of stages) await stage.has(stage.atFirst, "it gives what it is to", 60_000);
    });
    afterAll(async () => {
      await allEnded(stages.map((stage) => stage.down())).finally(() => api?.close());
    });

    const nothingGone = (before: string, now: string) => {
      const there = new Set(now.split("\n"));
      expect(before.split("\n").filter((line) => !there.has(line))).toEqual([]);
    };
    /** Something else is written until the server is beyond `version`; the version it is at then. */
    const bumped = async (beyond = 0n): Promise<bigint> => {
      const other = object.namespace("other");
      for (;;) {
        const [{ metadata } = other] = await api.objects.apply({
          ...other,
          metadata: { ...other.metadata, labels: { at: String(performance.now()) } },
        });
        const version = BigInt(String(metadata["resourceVersion"]));
        if (version > beyond) return version;
      }
    };

    it("are right after its restart, and after history was compacted while they were cut off", async () => {
      const [frozen, followed] = [at(0), at(1)];
      const gaps = async () =>
        (await frozen.status()).kubernetes?.kinds.reduce((sum, { counts }) => sum + (counts?.gaps ?? 0), 0);
      const [before, gapsBefore = 0] = [await frozen.dump(), await gaps()];
      frozen.proxy.lines.blackHole();
      await frozen.changeBehindItsBack();
      await followed.changeBehindItsBack();
      await api.compact();
      await api.restart();
      await followed.has(followed.inTheEnd, "the other is right", HEALED_MS);
      nothingGone(before, await frozen.dump());
      expect(await gaps()).toBe(gapsBefore);
      frozen.proxy.lines.revive();
      frozen.proxy.lines.cut();
      await frozen.has(frozen.inTheEnd, "it is right", HEALED_MS);
      expect(await gaps()).toBeGreaterThan(gapsBefore);
    });

    it("take nothing away while they cannot trust it, and read a new authority's certificate", async () => {
      await allEnded(stages.map((stage) => stage.putBack()));
      for (const stage of stages) await stage.has(stage.atFirst, "as at first", HEALED_MS);
      const before = await at(0).dump();
      await api.rotateAuthority();
      for (const stage of stages) {
        stage.proxy.renewCertificate();
        stage.proxy.lines.cut();
      }
      await at(0).changeBehindItsBack();
      const distrusts = ({ failure }: { readonly failure: string | null }) =>
        /certificate/.test(failure ?? "");
      await at(0).when(({ kubernetes }) => kubernetes?.kinds.every(distrusts), "no kind is trusted", 60_000);
      nothingGone(before, await at(0).dump());
      for (const stage of stages) await stage.renewAccount();
      await at(0).has(at(0).inTheEnd, "it is right", HEALED_MS);
      await at(1).has(at(1).atFirst, "the other is, too", HEALED_MS);
    });

    it("notice a store from a copy of earlier, also when it has come as far again", {
      timeout: 240_000,
    }, async () => {
      await at(0).putBack();
      for (const stage of stages) await stage.has(stage.atFirst, "as at first", HEALED_MS);
      const saved = await api.saveData();
      for (const stage of stages) await stage.changeBehindItsBack();
      for (const stage of stages) await stage.has(stage.inTheEnd, "it follows", HEALED_MS);
      // A server that starts writes a little of its own: it must not have come as far again by that.
      for (let times = 0; times < 300; times++) await bumped();
      const known = await bumped();
      const before = [await at(0).dump(), await at(1).dump()] as const;
      await at(1).proxy.lines.refuse();
      await api.restoreData(saved);
      const doubts = ({ kubernetes }: Awaited<ReturnType<FaultStage["status"]>>) =>
        /older data/.test(kubernetes?.unconfirmed?.why ?? "");
      await at(0).when(doubts, "it says that the server is older", HEALED_MS);
      nothingGone(before[0], await at(0).dump());
      await bumped(known + 100n);
      await at(1).proxy.lines.accept();
      await at(1).when(doubts, "so does the one that was away", HEALED_MS);
      nothingGone(before[1], await at(1).dump());
      for (const stage of stages) await stage.has(stage.atFirst, "as it was saved", HEALED_MS);
    });
  },
);
