// A lab that cannot be made is taken down when nothing of it is still being started: else a server outlived its namespace.
import { expect, it } from "vitest";
import { allEnded } from "./all-ended.ts";

it("rejects with the first reason in order, and only when all have ended", async () => {
  const slow = Promise.withResolvers<void>();
  const ended: string[] = [];
  const all = allEnded([
    slow.promise.then(() => {
      ended.push("slow");
    }),
    Promise.reject(new Error("first")),
    Promise.reject(new Error("second")),
  ]);
  const told = all.catch((error: Error) => ended.push(error.message));
  await new Promise((resolve) => setImmediate(resolve));
  expect(ended).toEqual([]);
  slow.resolve();
  await told;
  expect(ended).toEqual(["slow", "first"]);
});

it("gives what came of each", async () => {
  expect(await allEnded([Promise.resolve(1), Promise.resolve("two")])).toEqual([1, "two"]);
});
