// Any history of a kind, told well or badly, ends in what there is: changes, ends, resets, gaps, restored copies and broken answers
// in any order, cut into any chunks. And at no time does the copy show what never was.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../../lib/kubernetes/index.ts";
import { reflect } from "../../../lib/kubernetes/reflection.ts";
import { until } from "../../support/until.ts";
import { memoryTransport } from "./memory-transport.ts";
import { type Fault, oneKind, status } from "./one-kind.ts";

const faults: readonly Fault[] = [
  (_, reply) => reply.send(500, status(500, "InternalError")),
  (_, reply) => reply.send(200, {}),
  (_, reply) => reply.send(422, status(422, "Invalid")),
  (_, reply) => reply.send(404, "404 page not found"),
  (_, reply) => reply.send(410, status(410, "Expired")),
  (_, reply) => reply.reset(),
  (_, reply) => reply.end(),
  (_, reply) => {
    reply.writeBytes('{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[');
    reply.reset();
  },
  (_, reply) => {
    reply.write("oops");
    reply.end();
  },
  (_, reply) => {
    reply.write({ type: "ERROR", object: status(410, "Expired") });
    reply.end();
  },
  () => true,
  () => true,
];

const name = fc.constantFrom("a", "b", "c", "d", "ü");
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("put" as const), name, value: fc.string() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("remove" as const), name }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("end" as const, "reset" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("fault" as const), at: fc.nat(faults.length - 1) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("compact" as const, "bookmark" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("restore" as const), by: fc.integer({ min: 1, max: 5 }) }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("wait" as const), turns: fc.nat(12) }) },
);

describe("any history", () => {
  it("ends in what there is", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40 }),
        fc.boolean(),
        fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 5 }),
        async (steps, watchList, sizes) => {
          const kind = oneKind();
          kind.watchList = watchList;
          let turn = 0;
          const transport = memoryTransport(kind.handler, () => sizes[turn++ % sizes.length] ?? 1);
          const ever = new Set<string>();
          const strange: string[] = [];
          const pods = reflect(
            transport,
            { watchList: true },
            {
              resource: { group: "", version: "v1", plural: "pods" },
              project: (raw) => raw["value"] as string,
              onChange: () => {
                for (const [key, value] of pods.objects)
                  if (!ever.has(`${key} ${value}`)) strange.push(`${key} ${value}`);
              },
            },
            {
              clock: systemClock,
              random: () => 0.5,
              backoff: { least: 0, most: 1 },
              absentMs: 1,
              idleMs: 60_000,
              watchSeconds: 300,
            },
          );
          for (const one of steps) {
            if (one.do === "put") {
              ever.add(`shop/${one.name} ${one.value}`);
              kind.put(one.name, one.value);
            } else if (one.do === "remove") kind.remove(one.name);
            else if (one.do === "fault") kind.faults.push(faults[one.at] as Fault);
            else if (one.do === "compact") kind.compact();
            else if (one.do === "bookmark") kind.bookmark();
            else if (one.do === "restore") {
              kind.restore(Math.max(1, kind.revision - one.by));
              // Were it as far as before when it is asked again, nobody could tell (README).
              await until(() => kind.watches === 1, "a watch on the copy");
            } else if (one.do === "wait")
              for (let at = 0; at < one.turns; at++) await new Promise((resolve) => setImmediate(resolve));
            else kind.end(one.do);
          }
          kind.faults.length = 0;
          const isRight = (): boolean =>
            kind.objects.size === pods.objects.size &&
            [...kind.objects].every(([key, { value }]) => pods.objects.get(`shop/${key}`) === value);
          await until(() => pods.state.synced && kind.watches === 1 && isRight(), "the copy is right");
          expect(strange).toEqual([]);
          expect(transport.running).toBe(1);
          pods.close();
          await until(() => transport.running === 0, "nothing is open");
        },
      ),
      { numRuns: 150 },
    );
  });
});
