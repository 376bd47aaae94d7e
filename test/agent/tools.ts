// Tools for tests of the agent: they note every write as text, and fail where a test says so. Nothing is carried out.

import type { AnnounceChange } from "../../agent/sync/announce.ts";
import { printChange } from "../../agent/sync/northbound/print.ts";
import type { Tools } from "../../agent/sync/tools.ts";
import { printTranslated } from "../../lib/conntrack/pure.ts";

export interface RecordingTools extends Tools {
  /** `TOOL` and what it was given, in order. */
  readonly writes: readonly string[];
  /** From now on these tools fail: the name as in `writes`, and why. */
  fail(failing: Readonly<Record<string, string>>): void;
  /** Forgets what was written. */
  clear(): void;
}

export function recordingTools(): RecordingTools {
  const writes: string[] = [];
  let failing: Readonly<Record<string, string>> = {};
  const write = async (tool: string, text: string): Promise<void> => {
    writes.push(`${tool}: ${text}`);
    const why = failing[tool];
    if (why !== undefined) throw new Error(why);
  };
  const tokens = (announcements: readonly Pick<AnnounceChange, "token">[]) =>
    announcements.map(({ token }) => token).join(", ");
  return {
    writes,
    fail: (of) => {
      failing = of;
    },
    clear: () => {
      writes.length = 0;
    },
    iptables: { restore: (family, text) => write(`iptables${family}`, text) },
    ipset: { restore: (text) => write("ipset", text) },
    netlink: { batch: (lines) => write("ip", lines.join("\n")) },
    nft: { apply: (text) => write("nft", text) },
    conntrack: {
      deleteByMark: async (family, mark) => {
        await write("conntrack", `${family} mark ${mark}`);
        return 0;
      },
      deleteBySource: async (family, source) => {
        await write("conntrack", `${family} source ${source}`);
        return 0;
      },
      changeTranslated: async (changes) => {
        await write("conntrack", changes.map(printTranslated).join("\n"));
        return 0;
      },
    },
    announcer: {
      start: async (announcements) => {
        if (announcements.length > 0) writes.push(`announce: ${tokens(announcements)}`);
      },
      stop: async (announcements) => {
        if (announcements.length > 0)
          writes.push(`hush: ${announcements.map(({ address, link }) => `${address} ${link}`).join(", ")}`);
      },
      close: () => {},
    },
    gaining: {
      released: async (targets) => {
        if (targets.length > 0) writes.push(`ask: ${targets.map(({ address }) => address).join(", ")}`);
      },
    },
    northbound: {
      commit: (changes) => write("northbound", changes.map(printChange).join("\n")),
      gone: () => [],
    },
    writeRecord: (record) => write("record", JSON.stringify(record)),
    writeSysctl: (path, value) => write("sysctl", `${path}=${value}`),
  };
}
