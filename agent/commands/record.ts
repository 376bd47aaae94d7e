// `egressip-agent facts --output-dir`: the objects that this node's agent goes by, as a folder for `--manifests`. In: Config, a
// directory. Out: its files.
import { mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Config, ConfigError } from "../config.ts";

export async function recordObjects(
  config: Config,
  directory: string,
  print: (text: string) => void,
): Promise<number> {
  if (config.source.kind !== "kubernetes")
    throw new ConfigError("--output-dir: needs --source kubernetes; a folder of manifests can be copied");
  const { recordKubernetes } = await import("../assemble-kubernetes.ts");
  await mkdir(directory, { recursive: true });
  const there = await readdir(directory);
  const files = await recordKubernetes(config);
  const [other] = there.filter((name) => !files.has(name));
  if (other !== undefined)
    throw new Error(
      `${directory}: has ${other}, which would be read as one of these objects; name an empty folder`,
    );
  for (const [name, text] of files) {
    const path = join(directory, name);
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
    print(`${path}\n`);
  }
  return 0;
}
