// The state file: what was intended, so that a later process knows what is ours. In and out: IntentRecord.
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type IntentRecord, NOTHING_RECORDED } from "../model/facts.ts";
import { parseAddress } from "../model/ip.ts";

export interface RecordFile {
  /** Nothing recorded when the file does not exist. Throws an Error that names the file when it cannot be understood. */
  read(): Promise<IntentRecord>;
  /** Not synced to the disk: what it tells about does not outlive the kernel, so it need not outlive a power cut either. */
  write(record: IntentRecord): Promise<void>;
}

export function openRecord(stateDirectory: string): RecordFile {
  const path = join(stateDirectory, "intent.json");
  return {
    read: async () => {
      let text: string;
      try {
        text = await readFile(path, "utf8");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return NOTHING_RECORDED;
        throw error;
      }
      // A power cut between rename and write-back leaves an empty file; nothing of ours outlived it.
      return text === "" ? NOTHING_RECORDED : parseRecord(text, path);
    },
    write: async (record) => {
      const { addresses, sysctls, secondaryHostEgressIPs = [], withdrawnEgressIPs = [] } = record;
      const recorded = [addresses, Object.keys(sysctls), secondaryHostEgressIPs, withdrawnEgressIPs];
      if (recorded.every((part) => part.length === 0)) {
        rmSync(path, { force: true });
        return;
      }
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      writeFileSync(`${path}.new`, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600 });
      renameSync(`${path}.new`, path);
    },
  };
}

function parseRecord(text: string, path: string): IntentRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Error(`${path}: not JSON; move it away to start without knowing which addresses are ours`, {
      cause,
    });
  }
  const record = value as Partial<IntentRecord> | null;
  const addresses = Array.isArray(record?.addresses) ? record.addresses : undefined;
  const sysctls = typeof record?.sysctls === "object" && record.sysctls !== null ? record.sysctls : undefined;
  const valid =
    addresses?.every((entry) => typeof entry?.link === "string" && isAddress(entry.address)) &&
    sysctls !== undefined &&
    Object.entries(sysctls).every(
      ([key, of]) => /^net\/ipv[46]\/conf\/[^/]+\/\w+$/.test(key) && typeof of === "string",
    ) &&
    // Neither is in the files of earlier versions.
    [record?.secondaryHostEgressIPs, record?.withdrawnEgressIPs].every(
      (list) => list === undefined || isAddresses(list),
    );
  if (!valid || addresses === undefined || sysctls === undefined) {
    throw new Error(
      `${path}: not a record of intent; move it away to start without knowing which addresses are ours`,
    );
  }
  const { secondaryHostEgressIPs, withdrawnEgressIPs } = record ?? {};
  return Object.freeze({
    addresses,
    sysctls,
    ...(secondaryHostEgressIPs === undefined ? {} : { secondaryHostEgressIPs }),
    ...(withdrawnEgressIPs === undefined ? {} : { withdrawnEgressIPs }),
  });
}

function isAddresses(list: unknown): boolean {
  return Array.isArray(list) && list.every(isAddress);
}

function isAddress(value: unknown): boolean {
  return typeof value === "string" && parseAddress(value) === value;
}
