// What `run`, `plan` and `uninstall` share: a loop over this host and a folder of manifests.
import { type HostOptions, openHost } from "../assemble.ts";
import type { Config } from "../config.ts";
import { openFiles } from "../inputs/files.ts";
import { createObjectStore } from "../inputs/objects.ts";
import { createLoop, type Loop } from "../loop.ts";
import type { Objects } from "../model/build.ts";
import { createMode } from "../plan/modes.ts";
import { createContention } from "../sync/contention.ts";

export interface ObjectInput {
  read(all: boolean): Promise<Objects>;
  close(): void;
}

export function openManifests(directory: string, onChange: () => void): ObjectInput {
  const files = openFiles(directory, { onChange });
  const store = createObjectStore();
  return { read: async (all) => store(await files.read({ all })), close: () => files.close() };
}

export interface Assembled {
  readonly loop: Loop;
  readonly host: Awaited<ReturnType<typeof openHost>>;
  readonly contention: ReturnType<typeof createContention>;
}

export async function assemble(
  config: Config,
  readObjects: (all: boolean) => Promise<Objects>,
  options: HostOptions & { readonly isDraining?: () => boolean },
): Promise<Assembled> {
  const host = await openHost(config, options);
  const contention = createContention(() => performance.now());
  const loop = createLoop({
    settings: config.settings,
    ...(options.isDraining === undefined ? {} : { isDraining: options.isDraining }),
    mode: createMode(config.settings.gatewayMode),
    backends: host.backends,
    readHost: (dirty) => host.input.read(dirty),
    assumeHost: (facts) => host.input.assume(facts),
    ahead: host.input,
    readObjects,
    contention,
  });
  return { loop, host, contention };
}
