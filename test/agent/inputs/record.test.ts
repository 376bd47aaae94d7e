// The state file on a real file system: what is written is read, files of earlier versions too, and nothing is guessed.
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openRecord } from "../../../agent/inputs/record.ts";
import { type IntentRecord, NOTHING_RECORDED } from "../../../agent/model/facts.ts";

let directory: string;
const path = () => join(directory, "intent.json");

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "egressip-record-"));
});
afterEach(() => rm(directory, { recursive: true }));

const whole: IntentRecord = {
  addresses: [{ link: "eth1", address: "10.10.10.50" }],
  sysctls: { "net/ipv4/conf/all/src_valid_mark": "0" },
  secondaryHostEgressIPs: ["10.10.10.50", "fd00:10:10::77"],
  withdrawnEgressIPs: ["10.10.10.51"],
};

describe("record", () => {
  it("is read as it was written", async () => {
    const record = openRecord(directory);
    expect(await record.read()).toEqual(NOTHING_RECORDED);
    await record.write(whole);
    expect(await openRecord(directory).read()).toEqual(whole);
    expect(JSON.parse(await readFile(path(), "utf8"))).toEqual(whole);
  });

  it.each<IntentRecord>([
    { ...NOTHING_RECORDED, addresses: whole.addresses },
    { ...NOTHING_RECORDED, sysctls: whole.sysctls },
    { ...NOTHING_RECORDED, secondaryHostEgressIPs: ["10.10.10.77"] },
    { ...NOTHING_RECORDED, withdrawnEgressIPs: ["10.10.10.50"] },
  ])("stays for each part of it alone, and goes with the last", async (part) => {
    const record = openRecord(directory);
    await record.write(part);
    expect(await record.read()).toEqual(part);
    await record.write({ ...NOTHING_RECORDED, secondaryHostEgressIPs: [], withdrawnEgressIPs: [] });
    expect(await readdir(directory)).toEqual([]);
  });

  it("of an earlier version says nothing of the annotation", async () => {
    const { addresses, sysctls } = whole;
    await writeFile(path(), JSON.stringify({ addresses, sysctls }));
    expect(await openRecord(directory).read()).toEqual({ addresses, sysctls });
  });

  it.each([
    ["secondaryHostEgressIPs", "10.10.10.50"],
    ["secondaryHostEgressIPs", ["10.10.10.50/32"]],
    ["secondaryHostEgressIPs", [7]],
    ["withdrawnEgressIPs", null],
    ["withdrawnEgressIPs", ["fd00:0::1"]],
    ["addresses", [{ link: "eth1" }]],
    ["sysctls", { "kernel/core_pattern": "x" }],
  ])("with %s %j is refused by the name of the file", async (field, value) => {
    await writeFile(path(), JSON.stringify({ ...whole, [field]: value }));
    await expect(openRecord(directory).read()).rejects.toThrow(`${path()}: not a record of intent`);
  });
});
