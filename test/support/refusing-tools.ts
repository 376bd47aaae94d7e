// Tools that can be made to refuse every write, so that an agent sees damage and cannot mend it. In: a folder. Out: what its PATH has to
// begin with, and a switch. Listings go on to the real tools.
import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import path from "node:path";

/** What makes a call a write, as a pattern of the shell over all its words. */
const WRITES: Readonly<Record<string, string>> = {
  ip: "*-batch*",
  ipset: "restore*",
  nft: "*-f*",
  "iptables-nft-restore": "*",
  "ip6tables-nft-restore": "*",
};

export interface RefusingTools {
  /** For the agent's environment. */
  readonly PATH: string;
  refuse(on: boolean): Promise<void>;
}

export async function refusingTools(folder: string): Promise<RefusingTools> {
  const flag = path.join(folder, "refuse");
  const PATH = process.env["PATH"] ?? "";
  for (const [tool, writes] of Object.entries(WRITES)) {
    const script = [
      "#!/bin/sh",
      `if [ -e ${flag} ]; then case "$*" in ${writes}) cat >/dev/null; echo refused >&2; exit 4;; esac; fi`,
      // By its path: what it starts itself, an agent even, is to find these again.
      `exec ${realTool(tool, PATH)} "$@"`,
    ];
    await writeFile(path.join(folder, tool), `${script.join("\n")}\n`, { mode: 0o755 });
  }
  return {
    PATH: `${folder}:${PATH}`,
    refuse: (on) => (on ? writeFile(flag, "") : rm(flag, { force: true })),
  };
}

function realTool(tool: string, PATH: string): string {
  const found = PATH.split(":")
    .map((folder) => path.join(folder, tool))
    .find((file) => existsSync(file));
  if (found === undefined) throw new Error(`no ${tool} in ${PATH}`);
  return found;
}
