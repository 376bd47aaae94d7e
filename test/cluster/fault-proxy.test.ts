// The API server's bad days: what a client meets behind the fault proxy is what the fault's name says, by HTTP/1.1 and HTTP/2.
import { readFileSync } from "node:fs";
import { Agent, request } from "undici";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { FaultProxy } from "../cluster-lab/fault-proxy.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { until } from "../support/until.ts";

const missing = noKubePrograms();

describe.skipIf(missing !== undefined)(
  `the fault proxy${missing === undefined ? "" : `: ${missing}`}`,
  () => {
    let api: ApiServer;
    let proxy: FaultProxy;
    let token: string;

    beforeAll(async () => {
      api = await ApiServer.up();
      proxy = await FaultProxy.open(api);
      const account = { namespace: "default", name: "reader" };
      await api.objects.apply(
        { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
        {
          apiVersion: "rbac.authorization.k8s.io/v1",
          kind: "ClusterRoleBinding",
          metadata: { name: "reader" },
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
          subjects: [{ kind: "ServiceAccount", ...account }],
        },
      );
      token = await api.token(account);
    });
    afterAll(async () => {
      await proxy.close();
      await api.close();
    });
    afterEach(() => {
      proxy.fault = () => undefined;
      proxy.lines.bytesPerSecond = Infinity;
      proxy.lines.revive();
      proxy.lines.cut();
    });

    describe.each([
      ["HTTP/1.1", false],
      ["HTTP/2", true],
    ] as const)("%s", (_, allowH2) => {
      let pool: Agent;
      const open = () => {
        pool = new Agent({ connect: { ca: readFileSync(api.file("ca.crt")) }, allowH2 });
      };
      // Of its own for each test: what was cut in one may be noticed in the next only.
      beforeEach(open);
      afterEach(() => pool.destroy());

      /** What came, as far as it came: status, text, and the error that ended it. */
      const ask = async (
        path: string,
        options: { readonly signal?: AbortSignal; readonly onText?: () => void } = {},
      ) => {
        const came = { status: 0, retryAfter: undefined as unknown, text: "", failed: false };
        try {
          const headers = { authorization: `Bearer ${token}` };
          const { signal } = options;
          const answer = await request(`${proxy.url}${path}`, {
            dispatcher: pool,
            headers,
            ...(signal === undefined ? {} : { signal }),
          });
          came.status = answer.statusCode;
          came.retryAfter = answer.headers["retry-after"];
          for await (const chunk of answer.body) {
            came.text += String(chunk);
            options.onText?.();
          }
        } catch {
          came.failed = true;
        }
        return came;
      };
      const lines = (text: string) => text.split("\n").filter(Boolean);
      const watch = "/api/v1/namespaces?watch=1";
      const list = "/api/v1/namespaces";
      const names = (text: string) =>
        (JSON.parse(text) as { items: { metadata: { name: string } }[] }).items.map(
          ({ metadata }) => metadata.name,
        );
      const all = ["default", "kube-node-lease", "kube-public", "kube-system"];

      /** Answers that the server gives somebody else meanwhile: ours, if there were one, would be among them. */
      const others = async () => {
        for (let times = 0; times < 20; times++) await api.objects.list("v1", "Namespace");
      };

      it("passes on what it is not to spoil, and counts it", async () => {
        const before = proxy.count("list", "namespaces");
        expect(names((await ask(list)).text)).toEqual(all);
        expect(proxy.count("list", "namespaces")).toBe(before + 1);
        expect(proxy.calls.at(-1)).toMatchObject({
          verb: "list",
          group: "",
          resource: "namespaces",
          name: "",
        });
      });

      it("403 for one kind", async () => {
        proxy.fault = ({ resource }) => (resource === "pods" ? { status: 403 } : undefined);
        const { status, text } = await ask("/api/v1/pods");
        expect([status, JSON.parse(text)]).toMatchObject([
          403,
          { kind: "Status", reason: "Forbidden", code: 403 },
        ]);
        expect((await ask(list)).status).toBe(200);
      });

      it("429 with Retry-After", async () => {
        proxy.fault = () => ({ status: 429, retryAfter: 3 });
        expect(await ask(list)).toMatchObject({ status: 429, retryAfter: "3", failed: false });
      });

      it("an RST in place of an answer", async () => {
        proxy.fault = () => "reset";
        expect(await ask(list)).toMatchObject({ status: 0, failed: true });
      });

      it("no answer at all", async () => {
        proxy.fault = () => "silence";
        const controller = new AbortController();
        const asked = ask(list, { signal: controller.signal });
        await until(() => proxy.answering === 1, "it was asked");
        controller.abort();
        expect(await asked).toMatchObject({ status: 0, failed: true });
        await until(() => proxy.answering === 0, "it knows that nobody waits any more");
      });

      it("an empty list with 200, of the real revision", async () => {
        proxy.fault = () => "empty";
        const { status, text } = await ask(list);
        expect([status, JSON.parse(text)]).toMatchObject([200, { kind: "NamespaceList", items: [] }]);
        expect(text).toMatch(/"resourceVersion":"\d+"/);
      });

      it.each(["reset", "end"] as const)("half an event, then %s", async (ending) => {
        proxy.fault = () => ({ linesBeforeCut: 2, ending });
        const { status, text, failed } = await ask(watch);
        expect([status, failed]).toEqual([200, ending === "reset"]);
        const [first = "", second = "", half = "", ...more] = lines(text);
        for (const whole of [first, second]) expect(JSON.parse(whole)).toMatchObject({ type: "ADDED" });
        expect(half).toMatch(/^\{"type":"ADDED"/);
        expect(() => JSON.parse(half) as unknown).toThrow();
        expect(more).toEqual([]);
      });

      it("half a list", async () => {
        proxy.fault = () => ({ linesBeforeCut: 0, ending: "end" });
        const { status, text } = await ask(list);
        expect([status, text.slice(0, 24)]).toEqual([200, '{"kind":"NamespaceList",']);
        expect(() => JSON.parse(text) as unknown).toThrow();
      });

      it("later than asked", async () => {
        const release = Promise.withResolvers<void>();
        proxy.fault = () => ({ until: release.promise });
        let isAnswered = false;
        const asked = ask(list).finally(() => {
          isAnswered = true;
        });
        await until(() => proxy.answering === 1, "it was asked");
        expect(isAnswered).toBe(false);
        release.resolve();
        expect(names((await asked).text)).toEqual(all);
      });

      it("a watch that is cut", async () => {
        const first = Promise.withResolvers<void>();
        const ended = ask(watch, { onText: first.resolve });
        await first.promise;
        proxy.lines.cut();
        expect(await ended).toMatchObject({ status: 200, failed: true });
      });

      it("a watch that falls silent, and the server knows", async () => {
        const controller = new AbortController();
        const first = Promise.withResolvers<void>();
        let isOver = false;
        const ended = ask(watch, { onText: first.resolve, signal: controller.signal }).finally(() => {
          isOver = true;
        });
        await first.promise;
        proxy.lines.strandClients();
        await until(() => proxy.answering === 0, "the server has seen the client go");
        await api.objects.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "unheard" } });
        await api.objects.remove({ apiVersion: "v1", kind: "Namespace", metadata: { name: "unheard" } });
        await others();
        expect(isOver).toBe(false);
        controller.abort();
        expect((await ended).text).not.toContain("unheard");
      });

      it("a black hole, and the end of it", async () => {
        const { accepted } = proxy.lines;
        proxy.lines.blackHole();
        const controller = new AbortController();
        let isAnswered = false;
        const asked = ask(list, { signal: controller.signal }).finally(() => {
          isAnswered = true;
        });
        await until(() => proxy.lines.accepted > accepted, "it was connected to");
        await others();
        expect(isAnswered).toBe(false);
        controller.abort();
        expect(await asked).toMatchObject({ status: 0, failed: true });
        proxy.lines.revive();
        await pool.destroy();
        open();
        expect((await ask(list)).status).toBe(200);
      });

      it("refused connections, and the same port again", async () => {
        await proxy.lines.refuse();
        expect(await ask(list)).toMatchObject({ status: 0, failed: true });
        await proxy.lines.accept();
        expect((await ask(list)).status).toBe(200);
      });
    });

    it("says 503 while the server is away", async () => {
      const pool = new Agent({ connect: { ca: readFileSync(api.file("ca.crt")) } });
      await api.server.kill();
      const options = { dispatcher: pool, headers: { authorization: `Bearer ${token}` } };
      const answer = await request(`${proxy.url}/api/v1/nodes`, options);
      await answer.body.dump();
      expect(answer.statusCode).toBe(503);
      await pool.destroy();
      await api.start();
    });
  },
);
