// Lines to `ipset restore`: how many processes, and what becomes of a failure.
import { describe, expect, it } from "vitest";
import { restoreSets } from "../../../agent/sync/restore.ts";
import { type SetChange, setLine } from "../../../agent/sync/set-lines.ts";

const adds = (set: string, count: number): SetChange[] =>
  Array.from({ length: count }, (_, at) => ({ op: "add", set, member: `m${at}`, extension: "" }));

const restoring = async (changes: readonly SetChange[], failing = "") => {
  const given: string[] = [];
  let running = 0;
  const restore = async (text: string) => {
    given.push(text);
    running++;
    await Promise.resolve();
    running--;
    if (failing !== "" && text.includes(failing)) throw new Error(`refused: ${failing}`);
  };
  const error = await restoreSets({ ipset: { restore } }, changes, changes.map(setLine)).catch((one) => one);
  expect(running).toBe(0);
  return { given, error };
};

describe("restoreSets", () => {
  it("gives few lines to one process, in their order", async () => {
    const changes = [...adds("egressip4", 2), ...adds("egressip6", 1), ...adds("egressip4", 1)];
    const { given } = await restoring(changes);
    expect(given).toEqual(["add egressip4 m0\nadd egressip4 m1\nadd egressip6 m0\nadd egressip4 m0\n"]);
  });

  it("gives many lines to one process for each family, none lost", async () => {
    const changes = [...adds("egressip4", 400), ...adds("egressip-exempt6", 3), ...adds("egressip6", 400)];
    const { given, error } = await restoring(changes);
    expect(error).toBeUndefined();
    expect(given.map((text) => text.split("\n").length - 1)).toEqual([400, 403]);
    expect(given.join("").split("\n").slice(0, -1).toSorted()).toEqual(changes.map(setLine).toSorted());
  });

  it("starts no process for a family that has nothing", async () => {
    expect((await restoring(adds("egressip4", 600))).given).toHaveLength(1);
  });

  it("fails with what one of them failed with, when both have ended", async () => {
    const { given, error } = await restoring(
      [...adds("egressip4", 400), ...adds("egressip6", 400)],
      "egressip4",
    );
    expect(given).toHaveLength(2);
    expect(error).toEqual(new Error("refused: egressip4"));
  });
});
